//! The arguments, exactly as they can be typed: one file per group of commands.

pub(crate) mod amounts;
mod cli;
mod job;
mod listing;
mod reading;
mod up;

pub(crate) use cli::{Cli, ColorChoice, Command, GlobalArgs};
pub(crate) use job::{JobArgs, RunArgs, SubmitArgs};
pub(crate) use listing::{JobColumn, JobOrder, LsArgs, USUAL_COLUMNS};
pub(crate) use reading::{
    CancelArgs, CompletionsArgs, EventsArgs, LogsArgs, ReferenceArgs, Shell, ShowArgs, WaitArgs, WhyArgs,
};
pub(crate) use up::{UpArgs, UpWorkerArgs};
