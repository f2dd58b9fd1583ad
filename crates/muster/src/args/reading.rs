//! The commands that look at jobs, and those that act on jobs that are there.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::amounts;
use super::times::{self, WrittenTime};

/// `muster show`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// A job, a gang, a pipeline or an array: its id, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// `muster why`.
#[derive(Debug, Clone, Args)]
pub(crate) struct WhyArgs {
    /// The job or the gang: its id, or the beginning of it
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
}

const LOGS_EXAMPLES: &str = "\
Examples:
  muster logs JOB                        what the newest attempt wrote
  muster logs -f JOB                     to the end of the job, through all attempts
  muster logs --tail 20 -f JOB           the last 20 lines, then what comes
  muster logs --since 10m -t JOB         the last ten minutes, with the times
  muster logs --attempt 1 --stderr JOB   only the errors of the first attempt
  muster logs -f GANG                    all tasks of a gang, line by line
  muster logs --rank 0,2-3 GANG          only these tasks";

/// `muster logs`.
#[derive(Debug, Clone, Args)]
#[command(after_help = LOGS_EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that people type")]
pub(crate) struct LogsArgs {
    /// The job or the gang: its id, or the beginning of it
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// Of a gang, only these tasks, such as 0 or 0,2-3
    #[arg(long, value_name = "RANKS", value_parser = ranks)]
    pub(crate) rank: Option<Ranks>,
    /// Go on with new output until the job has ended
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// The output of this attempt [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) attempt: Option<u32>,
    /// Only the last N lines of what is there; of a gang, of each task
    #[arg(long, value_name = "N", conflicts_with = "since", value_parser = clap::value_parser!(u64).range(..=100_000))]
    pub(crate) tail: Option<u64>,
    /// Only what was written since then, in any attempt: 10m ago, "2026-05-05 08:33" local time or 2026-05-05T08:33:00Z
    #[arg(long, value_name = "TIME", value_parser = times::time)]
    pub(crate) since: Option<WrittenTime>,
    /// Show before each line when it was written
    #[arg(long, short)]
    pub(crate) timestamps: bool,
    /// Only what the job wrote to its standard output
    #[arg(long, conflicts_with = "stderr")]
    pub(crate) stdout: bool,
    /// Only what the job wrote to its standard error; it goes to standard output then
    #[arg(long)]
    pub(crate) stderr: bool,
}

/// The numbers of tasks of a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranks(pub(crate) Vec<u32>);

fn ranks(text: &str) -> Result<Ranks, String> {
    muster_document::parse_indices(text).map(Ranks)
}

/// `muster wait`.
#[derive(Debug, Clone, Args)]
pub(crate) struct WaitArgs {
    /// Jobs, gangs, pipelines and arrays: their ids, or the beginnings of them
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Give up after this time, such as 10m
    #[arg(long, value_name = "TIME", value_parser = amounts::duration)]
    pub(crate) timeout: Option<Duration>,
}

/// `muster events`.
#[derive(Debug, Clone, Args)]
pub(crate) struct EventsArgs {
    /// The job or the gang: its id, or the beginning of it; without one, all jobs are followed
    #[arg(value_name = "JOB", required_unless_present = "follow")]
    pub(crate) job: Option<String>,
    /// Go on with new events as they come
    #[arg(long, short)]
    pub(crate) follow: bool,
}

/// The shells that completions are made for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

/// `muster completions`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  muster completions bash > ~/.local/share/bash-completion/completions/muster
  muster completions zsh > \"${fpath[1]}/_muster\"
  muster completions fish > ~/.config/fish/completions/muster.fish")]
pub(crate) struct CompletionsArgs {
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

/// `muster reference`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReferenceArgs {
    /// The directory to write the pages into; without one they are printed
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}
