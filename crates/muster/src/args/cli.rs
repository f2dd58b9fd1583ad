//! The program as a whole: its commands and the options that all of them take.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::{
    CancelArgs, CompletionsArgs, EventsArgs, LogsArgs, LsArgs, ReferenceArgs, RunArgs, ShowArgs, SubmitArgs,
    UpArgs, WaitArgs, WhyArgs,
};
use crate::environment;

const EXAMPLES: &str = "\
Examples:
  muster up                              start a scheduler and a worker here
  muster run -- python train.py          run a command, see its output, get its exit code
  muster submit --gpus 1 -- ./train.sh   queue a command, get the id of the job
  muster ls                              list the jobs
  muster why JOB                         why a job is not running
  muster logs -f JOB                     follow the output of a job

JOB is the id of a job, or the beginning of one.";

/// Run commands and jobs on the machines that you have.
#[derive(Debug, Parser)]
#[command(name = "muster", version, after_help = EXAMPLES, disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct GlobalArgs {
    #[arg(long, help = "The scheduler to talk to [default: http://localhost:8080]", global = true, value_name = "URL", env = environment::URL, hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto, hide_possible_values = true)]
    pub(crate) color: ColorChoice,
    /// The configuration file [default: ./muster.toml, if there is one]
    #[arg(long, global = true, value_name = "FILE", env = environment::CONFIG, hide_env_values = true)]
    pub(crate) config: Option<PathBuf>,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    Always,
    Never,
}

/// One verb each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a scheduler and a worker in this terminal
    Up(Box<UpArgs>),
    /// Run a command as a job: stream its output and exit with its exit code
    Run(Box<RunArgs>),
    /// Queue a job, or many from a file, and print the ids
    Submit(Box<SubmitArgs>),
    /// List jobs, the newest first
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// Show everything about a job, with its history
    Show(ShowArgs),
    /// Print the output of a job
    Logs(LogsArgs),
    /// Wait until jobs have ended
    Wait(WaitArgs),
    /// Cancel jobs, with those that depend on them
    Cancel(CancelArgs),
    /// Say why a job is not running
    Why(WhyArgs),
    /// List the workers and what they have free
    Workers,
    /// Print what has happened to a job, or follow what happens to all
    Events(EventsArgs),
    /// Print the versions of this program and of the scheduler
    Version,
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the reference page, or write it into a directory
    #[command(hide = true)]
    Reference(ReferenceArgs),
}
