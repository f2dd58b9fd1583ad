//! The arguments, exactly as they can be typed: one file per group of commands.

pub(crate) mod amounts;
mod cli;
mod job;
mod reading;
mod up;

pub(crate) use cli::{Cli, ColorChoice, Command, GlobalArgs};
pub(crate) use job::{JobArgs, RunArgs, SubmitArgs};
pub(crate) use reading::{
    CancelArgs, CompletionsArgs, EventsArgs, LogsArgs, LsArgs, ReferenceArgs, Shell, ShowArgs, WaitArgs,
    WhyArgs,
};
pub(crate) use up::{UpArgs, UpWorkerArgs};
