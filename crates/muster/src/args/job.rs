//! `run` and `submit`: what a job can be asked to be.

use std::time::Duration;

use clap::Args;

use super::amounts;

const RUN_EXAMPLES: &str = "\
Examples:
  muster run -- echo hello
  muster run --cpus 4 --memory 8G -- python train.py --epochs 3
  muster run 'grep -c ERROR *.log | sort'
  muster run --env HF_TOKEN --tag a100 -- ./train.sh

A single argument with blanks or shell characters is run by sh -c, everything
else as it is. Ctrl-C cancels the job; a second Ctrl-C leaves at once. The exit
code is the job's own; 128+N when signal N ended it, 125 when it has none, 130
when it was cancelled.

When no scheduler answers and none was named, a private one is started for this
one job.";

const SUBMIT_EXAMPLES: &str = "\
Examples:
  muster submit -- ./prepare.sh
  muster submit --after JOB --gpus 1 -- ./train.sh
  muster submit jobs.jsonl
  generate-jobs | muster submit -

A file holds one JSON object a line, or one array. Each object has the fields of
POST /jobs (command or argv, name, env, working_dir, resources, tags,
depends_on, priority, queue_name, max_retries, grace_seconds) and may have a
\"ref\", a name that others in the same file can use in depends_on.";

/// What to run, and what it needs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct JobArgs {
    /// A name for people
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The queue to wait in
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Higher goes first [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i32>,
    /// CPU cores, such as 4 or 0.5
    #[arg(long, value_name = "N", value_parser = amounts::cpus, help_heading = "Resources")]
    pub(crate) cpus: Option<f64>,
    /// Memory, such as 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = amounts::memory_mb, help_heading = "Resources")]
    pub(crate) memory: Option<u64>,
    /// GPUs
    #[arg(long, value_name = "N", help_heading = "Resources")]
    pub(crate) gpus: Option<u64>,
    /// GPU memory, such as 16G
    #[arg(long, value_name = "SIZE", value_parser = amounts::memory_mb, help_heading = "Resources")]
    pub(crate) vram: Option<u64>,
    /// An amount of a named counter of the workers; may be repeated
    #[arg(long = "counter", value_name = "NAME=N", value_parser = amounts::counter, help_heading = "Resources")]
    pub(crate) counters: Vec<(String, u64)>,
    /// A tag that the worker must carry; may be repeated
    #[arg(long = "tag", value_name = "TAG", help_heading = "Resources")]
    pub(crate) tags: Vec<String>,
    /// A variable for the job, or the name of one to hand on; may be repeated
    #[arg(long = "env", short = 'e', value_name = "KEY=VALUE", value_parser = amounts::variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Where the command runs; empty for the worker's choice [default: the current directory]
    #[arg(long, short = 'C', value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// Attempts in all, the first one included [default: 3, for run 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) max_retries: Option<i64>,
    /// A job that must be done first; may be repeated
    #[arg(long = "after", value_name = "JOB")]
    pub(crate) after: Vec<String>,
    /// Time between the polite signal and the kill when the job is stopped, such as 30s
    #[arg(long, value_name = "TIME", value_parser = amounts::duration)]
    pub(crate) grace: Option<Duration>,
    /// A word of your choice: submitting again with the same one returns the job made the first time
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Join the arguments with blanks and run them in sh -c
    #[arg(long)]
    pub(crate) shell: bool,
}

/// `muster run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Print the id of the job and leave it to run
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// When no scheduler answers, start one that goes on afterwards
    #[arg(long)]
    pub(crate) keep: bool,
    /// Use a private scheduler for this job, whoever answers
    #[arg(long, conflicts_with_all = ["keep", "detach"])]
    pub(crate) private: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

/// `muster submit`.
#[derive(Debug, Clone, Args)]
#[command(after_help = SUBMIT_EXAMPLES)]
#[command(override_usage = "muster submit [OPTIONS] -- COMMAND...\n       muster submit [--atomic] FILE")]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    /// Take all jobs of the file or none
    #[arg(long)]
    pub(crate) atomic: bool,
    /// A file with jobs as JSON, one a line or in one array; - reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Vec<String>,
    /// The command and its arguments, after --
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
}
