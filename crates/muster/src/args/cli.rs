//! The program as a whole: its commands and the options that all of them take.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use muster_client::Fingerprint;

use super::{
    AddArgs, ArtifactArgs, AttachArgs, AuditArgs, CancelArgs, ChangeArgs, CheckpointArgs, CompletionsArgs,
    EditArgs, EventsArgs, ExecArgs, GangListArgs, JoinTokenArgs, LoginArgs, LogsArgs, LsArgs, ManArgs,
    NoticeArgs, PreemptArgs, QueueArgs, ReferenceArgs, ReportArgs, RetryArgs, RunArgs, SecretArgs,
    SetListArgs, ShowArgs, SimArgs, SubmitArgs, TokenArgs, TopArgs, UpArgs, UsageArgs, UserArgs, WaitArgs,
    WatchArgs, WebhookArgs, WhyArgs, WorkerArgs,
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

JOB is the id of a job or a gang, or the beginning of one.";

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
    /// CA certificates, in PEM, that are trusted beside those of the system
    #[arg(long, global = true, value_name = "FILE", env = environment::CA_FILE, hide_env_values = true)]
    pub(crate) ca_file: Option<PathBuf>,
    /// The only certificate that is accepted from the scheduler, such as sha256:5f0c...; the scheduler logs it
    #[arg(long, global = true, value_name = "SHA256", env = environment::TLS_FINGERPRINT, hide_env_values = true)]
    pub(crate) tls_fingerprint: Option<Fingerprint>,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto, hide_possible_values = true)]
    pub(crate) color: ColorChoice,
    /// Read and show times in UTC instead of local time
    #[arg(long, global = true, env = environment::UTC, hide_env_values = true, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) utc: bool,
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
    /// Queue a job, an array of jobs, a pipeline or a file of jobs, and print the id
    Submit(Box<SubmitArgs>),
    /// Add steps to a pipeline that is there
    Add(AddArgs),
    /// List jobs, the newest first
    #[command(visible_alias = "list")]
    Ls(LsArgs),
    /// List pipelines, the newest first
    Pipelines(SetListArgs),
    /// List arrays, the newest first
    Arrays(SetListArgs),
    /// List gangs, the newest first
    Gangs(GangListArgs),
    /// Watch queues, workers and jobs live in the terminal
    Watch(WatchArgs),
    /// Show what uses the workers now
    Top(TopArgs),
    /// Show who used what since when, and how well requests fitted
    Usage(UsageArgs),
    /// Show everything about a job, a gang, a pipeline or an array
    Show(ShowArgs),
    /// Print the output of a job, or of all tasks of a gang
    Logs(LogsArgs),
    /// List and download the files that jobs left
    Artifacts(ArtifactArgs),
    /// Run a program beside those of a running job, such as a shell
    Exec(ExecArgs),
    /// Attach to the terminal of a job of `run --pty`
    Attach(AttachArgs),
    /// Wait until jobs, gangs, pipelines or arrays have ended
    Wait(WaitArgs),
    /// Cancel jobs, with those that depend on them
    Cancel(CancelArgs),
    /// Keep jobs that wait from starting
    Hold(ChangeArgs),
    /// Let held jobs start
    Release(ChangeArgs),
    /// Run jobs again that failed or were cancelled, or a pipeline from a step on
    Retry(RetryArgs),
    /// Ask running jobs or gangs to save what they have, to stop and to come back
    Preempt(PreemptArgs),
    /// Change a job that waits: its priority, what it needs, its limits
    Edit(EditArgs),
    /// Remove jobs that have ended
    Delete(ChangeArgs),
    /// Say why a job or a gang is not running
    Why(WhyArgs),
    /// Say what waits for what in the whole cluster, and why something is free
    Explain,
    /// List the queues as a tree with what each has and uses
    Queues,
    /// Look at queues, pause them, limit them, set quotas
    Queue(QueueArgs),
    /// List the workers and what they have free
    Workers,
    /// Put a worker back to work
    Worker(WorkerArgs),
    /// Try policies on a trace, a made-up workload or what waits now
    Sim(Box<SimArgs>),
    /// Keep passwords and tokens for jobs, sealed so that only workers can open them
    Secret(SecretArgs),
    /// Log in to a scheduler; what it gives is kept for the next commands
    Login(LoginArgs),
    /// Log out of a scheduler
    Logout,
    /// Say who the scheduler thinks you are
    Whoami,
    /// Make, list and revoke your tokens
    Token(TokenArgs),
    /// Make, list, change and remove users
    User(UserArgs),
    /// Let machines become workers, and take that back
    JoinToken(JoinTokenArgs),
    /// Print who did what to users, tokens and settings
    Audit(AuditArgs),
    /// Have events delivered to a URL, signed, and look after what was not accepted
    Webhook(WebhookArgs),
    /// Print what has happened to a job or a gang, or follow what happens to all
    Events(EventsArgs),
    /// Save and read checkpoints of jobs
    Checkpoint(CheckpointArgs),
    /// Say whether the job that this runs in is told to stop
    Notice(NoticeArgs),
    /// Declare that the job that this runs in has finished
    Done,
    /// Print the versions of this program and of the scheduler
    Version,
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the man page of the program, or write all of them into a directory
    Man(ManArgs),
    /// Print the reference page, or write it into a directory
    #[command(hide = true)]
    Reference(ReferenceArgs),
    /// Write the page that compares the policies
    #[command(hide = true)]
    SchedulingReport(ReportArgs),
}
