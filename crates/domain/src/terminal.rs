//! Terminals in running jobs: what a session is for, and the size of the terminal that a job runs in.

use serde::{Deserialize, Serialize};

/// What a session with a running job is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalKind {
    /// A program of its own, beside those of the job.
    Exec,
    /// The terminal that the job itself runs in.
    Attach,
}

impl TerminalKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
        }
    }
}

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    #[serde(rename = "c")]
    pub columns: u16,
    #[serde(rename = "r")]
    pub rows: u16,
}
