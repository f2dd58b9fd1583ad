//! The arguments, exactly as they can be typed: one file per group of commands.

mod access;
pub(crate) mod amounts;
mod artifact;
mod cli;
mod conditions;
mod container;
mod control;
mod explanations;
mod gang;
mod inside;
mod job;
mod listing;
mod pages;
mod program;
mod queue;
mod reading;
mod secret;
mod sim;
mod terminals;
mod times;
mod up;
mod usage;
mod viewing;
mod webhook;

pub(crate) use access::{
    AuditArgs, JoinTokenAction, JoinTokenArgs, LoginArgs, TokenAction, TokenArgs, UserAction, UserArgs,
    UserCreateArgs, UserSetArgs,
};
pub(crate) use artifact::{ArtifactAction, ArtifactArgs};
pub(crate) use cli::{Cli, ColorChoice, Command, GlobalArgs};
pub(crate) use conditions::ConditionArgs;
pub(crate) use control::{
    CancelArgs, ChangeArgs, EditArgs, RetryArgs, SelectionArgs, SetListArgs, WorkerAction, WorkerArgs,
};
pub(crate) use gang::{GangArgs, GangListArgs, LaunchArgs, PreemptArgs};
pub(crate) use inside::{CheckpointAction, CheckpointArgs, NoticeArgs};
#[cfg(test)]
pub(crate) use job::Indices;
pub(crate) use job::{AddArgs, ArrayArgs, FileMode, JobArgs, ParameterArgs, RunArgs, SubmitArgs};
pub(crate) use listing::{JobColumn, JobOrder, LsArgs, USUAL_COLUMNS};
pub(crate) use pages::ManArgs;
pub(crate) use program::{explanation, program};
pub(crate) use queue::{Limit, QueueAction, QueueArgs, QueueSetArgs};
pub(crate) use reading::{
    CompletionsArgs, EventsArgs, LogsArgs, ReferenceArgs, Shell, ShowArgs, WaitArgs, WhyArgs,
};
pub(crate) use secret::{ResealArgs, SecretAction, SecretArgs, SecretSetArgs, SecretSourceArgs};
pub(crate) use sim::{By, ReportArgs, SimArgs, SimOutputArgs};
pub(crate) use terminals::{AttachArgs, ExecArgs};
pub(crate) use times::WrittenTime;
pub(crate) use up::{UpArgs, UpWorkerArgs};
pub(crate) use usage::{UsageArgs, UsageBy};
pub(crate) use viewing::{TopArgs, WatchArgs};
pub(crate) use webhook::{DeadLetterAction, DeadLetterArgs, WebhookAction, WebhookAddArgs, WebhookArgs};
