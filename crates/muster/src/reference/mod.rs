//! The reference pages, made from the definitions that the program itself uses.

mod command_line;

use clap::{Args as _, Command};
use muster_reference::program_page;
use muster_server::settings::SchedulerArgs;

use crate::args::program;

const SCHEDULER: &str = "Schedules jobs: the HTTP API and the loops behind it";

const SCHEDULER_SETTINGS: &str = "\
A setting is taken from its flag, else from its environment variable, else from the section `[scheduler]` of
`muster.toml`, else it has its default. In the file it has the long name of its flag. `muster up` takes the
same settings from the same variables and the same section. Exit codes: 0 after an orderly end, 1 when
something could not be opened or requests had to be cut off at the end, 2 for a wrong configuration.";

/// A generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) file: &'static str,
    pub(crate) text: String,
}

/// Every page.
pub(crate) fn pages() -> Vec<Page> {
    let scheduler = SchedulerArgs::augment_args(Command::new("muster-scheduler")).about(SCHEDULER);
    vec![
        Page { file: "muster.md", text: command_line::page(program()) },
        Page { file: "muster-scheduler.md", text: program_page(scheduler, SCHEDULER_SETTINGS) },
    ]
}
