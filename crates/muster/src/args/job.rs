//! `run` and `submit`: what a job can be asked to be.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_protocol::{ArtifactInput, SecretUse};

use super::amounts;
use super::conditions::ConditionArgs;
use super::container::ContainerArgs;
use super::gang::{GangArgs, LaunchArgs};
use crate::exported::{self, Export};
use crate::terminal::DetachKeys;

const RUN_EXAMPLES: &str = "\
Examples:
  muster run -- echo hello
  muster run --cpus 4 --memory 8G -- python train.py --epochs 3
  muster run 'grep -c ERROR *.log | sort'
  muster run --env HF_TOKEN --tag a100 -- ./train.sh
  muster run --upload . -- make test
  zcat words.gz | muster run --stdin - -- sort
  muster run --gang 4 -- sh -c 'echo rank $GANG_INDEX of $GANG_SIZE'
  muster run --image python:3.13 --memory 2G -- python -c 'print(1)'
  muster run --pty --gpus 1 -- bash

A single argument with blanks or shell characters is run by sh -c, everything
else as it is. Ctrl-C cancels the job; a second Ctrl-C leaves at once. The exit
code is the job's own; 128+N when signal N ended it, 125 when it has none, 130
when it was cancelled.

A file on the standard input, as in `muster run -- sort < words`, is sent along from
where it stands; it is not used up. A pipe is sent with --stdin - only, so that an
input that somebody left open holds nothing up.

With --array, --each-line or --each-json many jobs run: how far they are is shown
instead of their output, and the exit code is 1 when one of them failed.

With --gang the tasks start together; each line of their output has the number of
the task before it, and the exit code is that of the task that failed first. With
fewer workers than tasks, several share a worker, unless --spread forbids it.

When no scheduler answers and none was named, one of its own is started for this
one job.";

const SUBMIT_EXAMPLES: &str = "\
Examples:
  muster submit -- ./prepare.sh
  muster submit --after JOB --gpus 1 -- ./train.sh
  muster submit --input JOB:model.pt -- sh -c './test.sh $MUSTER_INPUTS/model.pt'
  muster submit --array 0-999%50 -- ./simulate.sh
  muster submit --gang 4 --gpus 8 -- torchrun train.py
  muster submit --each-line urls.txt -- sh -c 'curl -O \"$MUSTER_ARRAY_ITEM\"'
  muster submit nightly.yaml --param DATE=2026-05-05 --wait
  muster submit --check nightly.yaml
  muster submit jobs.jsonl

A file with steps is a pipeline, in YAML or JSON; steps that name no directory run
in the current one. Any other file holds one JSON object a line, or one array. Each
object has the fields of POST /jobs (command or argv, name, env, working_dir,
resources, tags, depends_on, priority, queue_name, max_retries, grace_seconds) and
may have a \"ref\", a name that others in the same file can use in depends_on.";

const ADD_EXAMPLES: &str = "\
Examples:
  muster add PIPELINE more.yaml
  muster add --check PIPELINE more.yaml  only say whether the file is right

The file is like that of a pipeline; its steps may need those that are there.";

/// What becomes of what is in an output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileMode {
    /// It stays, and new output comes after it
    Append,
    /// It goes when an attempt begins
    Truncate,
}

/// What to run, and what it needs.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that people type")]
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
    /// Who submits it, as limits for each user count it [default: who is logged in, else $USER or $LOGNAME]
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Show it, its output and its events to its owner and to operators only
    #[arg(long)]
    pub(crate) private: bool,
    /// Never stop it in favour of other work; it then does not borrow from other queues
    #[arg(long)]
    pub(crate) no_preempt: bool,
    /// CPU cores, such as 4 or 0.5
    #[arg(long, value_name = "N", value_parser = amounts::cpus, help_heading = "Resources")]
    pub(crate) cpus: Option<f64>,
    /// Memory, such as 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = amounts::memory_mb, help_heading = "Resources")]
    pub(crate) memory: Option<u64>,
    /// GPUs, each for this job alone
    #[arg(long, value_name = "N", help_heading = "Resources")]
    pub(crate) gpus: Option<u64>,
    /// GPU memory, such as 16G: a part of one GPU, or with --gpus the least that each of them has
    #[arg(long, value_name = "SIZE", value_parser = amounts::memory_mb, help_heading = "Resources")]
    pub(crate) vram: Option<u64>,
    /// An amount of a named counter of the workers; may be repeated
    #[arg(long = "counter", value_name = "NAME=N", value_parser = amounts::counter, help_heading = "Resources")]
    pub(crate) counters: Vec<(String, u64)>,
    /// A worker that runs nothing else meanwhile
    #[arg(long, help_heading = "Resources")]
    pub(crate) exclusive: bool,
    /// A tag that the worker must carry; may be repeated
    #[arg(long = "tag", value_name = "TAG", help_heading = "Resources")]
    pub(crate) tags: Vec<String>,
    /// A variable for the job, or the name of one to hand on; may be repeated
    #[arg(long = "env", short = 'e', value_name = "KEY=VALUE", value_parser = amounts::variable)]
    pub(crate) env: Vec<(String, String)>,
    /// What of the environment here goes with the job: ALL, NONE, names, or NAME=VALUE, with commas; --env comes on top [default: NONE]
    #[arg(long, value_name = "WHAT", value_parser = exported::parse)]
    pub(crate) export: Option<Export>,
    /// A secret as a variable, under its own name or another; may be repeated
    #[arg(long = "secret", value_name = "NAME[=VARIABLE]", value_parser = amounts::secret)]
    pub(crate) secrets: Vec<SecretUse>,
    #[arg(long = "secret-file", help = "A secret as a file in memory, which the variable names [default: NAME_FILE]; may be repeated", value_name = "NAME[=VARIABLE]", value_parser = amounts::secret_file)]
    pub(crate) secret_files: Vec<SecretUse>,
    /// Where the command runs; empty for the worker's choice [default: the current directory, and that of the image with
    /// --image]
    #[arg(long, short = 'C', value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// Keep the files of the working directory that match as artifacts, such as 'out/*.pt' or 'logs/**'; can be repeated
    #[arg(long = "artifact", value_name = "PATTERN", help_heading = "Output")]
    pub(crate) artifacts: Vec<String>,
    /// Write standard output to this file as well, and standard error unless --error is given: %j job, %A array, %a index, %x name, %u user, %t rank, %N host, %4a with zeros
    #[arg(long, short = 'o', value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<String>,
    /// Write standard error to this file as well
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) error: Option<String>,
    /// What becomes of what is in these files when an attempt begins [default: truncate]
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Output")]
    pub(crate) open_mode: Option<FileMode>,
    /// Send this directory along and run in a copy of it; without what .gitignore and .musterignore name
    #[arg(long, value_name = "DIR", help_heading = "Inputs")]
    pub(crate) upload: Option<PathBuf>,
    /// What the command reads from its standard input: a file, or - for that of this program, read to its end
    #[arg(long, value_name = "FILE", help_heading = "Inputs")]
    pub(crate) stdin: Option<String>,
    /// Wait for a job and find its artifacts in the directory `$MUSTER_INPUTS`: all of them, or a file, a folder or a pattern such as 'parts/*', under its own name or as TO; may be repeated
    #[arg(long = "input", value_name = "JOB[:PATH[:TO]]", value_parser = amounts::input, help_heading = "Inputs")]
    pub(crate) inputs: Vec<ArtifactInput>,
    /// A word of your choice: submitting again with the same one returns the job made the first time
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Join the arguments with blanks and run them in sh -c
    #[arg(long)]
    pub(crate) shell: bool,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    #[command(flatten)]
    pub(crate) launch: LaunchArgs,
    #[command(flatten)]
    pub(crate) gang: GangArgs,
    #[command(flatten)]
    pub(crate) container: ContainerArgs,
}

/// `muster run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = RUN_EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that people type")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) array: ArrayArgs,
    /// Print the id of the job and leave it to run
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Run it in a terminal, with this one as its keyboard and screen; Ctrl-P Ctrl-Q leaves it and it goes on
    #[arg(long)]
    pub(crate) pty: bool,
    /// The keys that leave the terminal of --pty, or none [default: ctrl-p,ctrl-q]
    #[arg(long, value_name = "KEYS", requires = "pty")]
    pub(crate) detach_keys: Option<DetachKeys>,
    /// When no scheduler answers, start one that goes on afterwards
    #[arg(long)]
    pub(crate) keep: bool,
    /// Start a scheduler for this job alone, also when another one can be reached
    #[arg(long, conflicts_with_all = ["keep", "detach"])]
    pub(crate) own_scheduler: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<String>,
}

/// `muster submit`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = SUBMIT_EXAMPLES)]
#[command(override_usage = "muster submit [OPTIONS] -- COMMAND...\n       muster submit [OPTIONS] FILE")]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) array: ArrayArgs,
    #[command(flatten)]
    pub(crate) parameters: ParameterArgs,
    /// Take all jobs of the file or none
    #[arg(long)]
    pub(crate) atomic: bool,
    /// Only say whether the file is right
    #[arg(long)]
    pub(crate) check: bool,
    /// Wait for the end, and exit like `muster wait`
    #[arg(long)]
    pub(crate) wait: bool,
    /// The file to submit, whatever its name; - reads standard input
    #[arg(long = "file", short = 'f', value_name = "FILE", conflicts_with = "file")]
    pub(crate) explicit_file: Option<String>,
    /// A pipeline, or a file with jobs as JSON; - reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Vec<String>,
    /// The command and its arguments, after --
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
}

/// Many jobs from one command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct ArrayArgs {
    #[arg(long, help = "One job for each index, as MUSTER_ARRAY_INDEX: 0-9, 1,3,5 or 0-99:10; %50 runs at most 50 at once", value_name = "INDICES", value_parser = indices, help_heading = "Many jobs", conflicts_with_all = ["each_line", "each_json"])]
    pub(crate) array: Option<Indices>,
    #[arg(
        long,
        help = "One job for each line of the file, as MUSTER_ARRAY_ITEM; - reads standard input",
        value_name = "FILE",
        help_heading = "Many jobs",
        conflicts_with = "each_json"
    )]
    pub(crate) each_line: Option<PathBuf>,
    /// One job for each element of the JSON in the file; the fields of objects become variables
    #[arg(long, value_name = "FILE", help_heading = "Many jobs")]
    pub(crate) each_json: Option<PathBuf>,
    /// At most this many run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Many jobs")]
    pub(crate) max_parallel: Option<u32>,
}

impl ArrayArgs {
    pub(crate) fn is_asked_for(&self) -> bool {
        self.array.is_some() || self.each_line.is_some() || self.each_json.is_some()
    }
}

/// The indices as they were written, which is how the scheduler takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Indices {
    pub(crate) text: String,
    pub(crate) max_parallel: Option<u32>,
}

fn indices(text: &str) -> Result<Indices, String> {
    let (_, max_parallel) = muster_document::parse_array(text)?;
    let text = text.split('%').next().unwrap_or_default().to_owned();
    Ok(Indices { text, max_parallel })
}

/// The parameters of a pipeline.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ParameterArgs {
    /// The value of a parameter of the pipeline; may be repeated
    #[arg(long = "param", short = 'p', value_name = "NAME=VALUE", value_parser = amounts::parameter)]
    pub(crate) params: Vec<(String, String)>,
}

/// `muster add`.
#[derive(Debug, Clone, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddArgs {
    /// The pipeline: its id, or the beginning of it
    #[arg(value_name = "PIPELINE")]
    pub(crate) pipeline: String,
    /// The file with the steps; - reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) parameters: ParameterArgs,
    /// Where steps run that do not say it; empty for the worker's choice [default: the current directory]
    #[arg(long, short = 'C', value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// Only say whether the file is right
    #[arg(long)]
    pub(crate) check: bool,
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use crate::args::{Cli, Command, program};

    /// What `muster run` takes for the command.
    fn command(words: &[&str]) -> Result<Vec<String>, String> {
        let typed = ["muster", "run"].into_iter().chain(words.iter().copied());
        let matches = program().try_get_matches_from(typed).map_err(|error| error.to_string())?;
        match Cli::from_arg_matches(&matches).map_err(|error| error.to_string())?.command {
            Command::Run(args) => Ok(args.command),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn the_command_begins_with_the_first_word_that_is_no_option() {
        let cases: [(&[&str], &[&str]); 6] = [
            (&["ls", "-l", "--all"], &["ls", "-l", "--all"]),
            (&["--cpus", "2", "ls", "--cpus", "4"], &["ls", "--cpus", "4"]),
            (&["--", "ls", "-l"], &["ls", "-l"]),
            (&["--", "--strange", "name"], &["--strange", "name"]),
            (&["env", "--", "ls"], &["env", "--", "ls"]),
            (&["--json", "sh", "-c", "exit 3"], &["sh", "-c", "exit 3"]),
        ];
        for (typed, expected) in cases {
            assert_eq!(command(typed).unwrap(), expected, "{typed:?}");
        }
    }

    #[test]
    fn an_unknown_option_is_refused() {
        for typed in [&["--cpu", "2", "--", "true"][..], &["--gpu=1", "true"], &["-x", "true"], &["--cpu"]] {
            let error = command(typed).unwrap_err();
            assert!(error.contains(typed[0].split('=').next().unwrap_or_default()), "{error}");
        }
        assert!(command(&["--cpu", "2", "--", "true"]).unwrap_err().contains("--cpus"));
    }
}
