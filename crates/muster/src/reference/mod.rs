//! The reference pages, made from the definitions that the program itself uses.

mod command_line;

use clap::CommandFactory as _;

use crate::args::Cli;

/// A generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) file: &'static str,
    pub(crate) text: String,
}

/// Every page.
pub(crate) fn pages() -> Vec<Page> {
    vec![Page { file: "muster.md", text: command_line::page(Cli::command()) }]
}
