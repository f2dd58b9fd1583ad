//! The runner: the process of an attempt in a container, as the keeper sees it.
//!
//! It makes the container, starts it, passes signals to it and its output on, waits for its end, removes it and leaves a note
//! on how it ended. Stopping, time limits, leases and output files are the keeper's, as for any process.
//!
//! Guarantees: output is passed on byte for byte, both streams apart; the note on the end is written when the container is
//! removed, or cannot be; a runner that is killed leaves its container to the keeper, which knows its name.

mod attach;
mod create;
mod forward;
mod input;
mod keeper_watch;
mod output;
mod usage;
mod watch;

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use self::keeper_watch::KeeperWatch;
use super::note::{Note, Verdict};
use super::signals::Signals;
use super::spec::{ContainerSpec, FileMount};
use crate::keeper::Key;

/// The first argument that makes a program a runner.
pub(crate) const RUNNER_ARGUMENT: &str = "__container";

/// What a runner is told, in the memory behind its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) key: Key,
    /// The data directory of the worker.
    pub(crate) directory: String,
    pub(crate) name: String,
    pub(crate) spec: ContainerSpec,
    pub(crate) command: Vec<String>,
    /// Each as `NAME=value`.
    pub(crate) env: Vec<String>,
    /// Files of the attempt, besides those that the job asked for.
    pub(crate) files: Vec<FileMount>,
    /// The file that it reads as its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stdin: Option<String>,
    /// It runs in a terminal, that of the runner's standard output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) terminal: bool,
}

/// Runs a container if this process was started for that, and `None` otherwise. Call it first in `main`, before any thread
/// or runtime exists.
pub(crate) fn run_from_arguments() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    (first == OsStr::new(RUNNER_ARGUMENT)).then(|| match start() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("muster: cannot run the container: {error}");
            ExitCode::from(125)
        }
    })
}

fn start() -> std::io::Result<ExitCode> {
    let memory = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut text = Vec::new();
    (&memory).read_to_end(&mut text)?;
    let order: Order = serde_json::from_slice(&text)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut board = Board { memory, note: Note::default() };
    let verdict = runtime.block_on(async {
        // Before anything else: what arrives from here on is for the container.
        let signals = Signals::listen()?;
        let keeper = KeeperWatch::begin()?;
        let ended = tokio::select! {
            verdict = watch::run(&order, signals, &mut board) => Some(verdict),
            () = keeper.gone() => None,
        };
        std::io::Result::Ok(match ended {
            Some(verdict) => verdict,
            None => watch::abandon(&order, &board.note).await,
        })
    })?;
    let code = exit_code(&verdict);
    board.note.verdict = Some(verdict);
    board.note.write(&board.memory)?;
    Ok(ExitCode::from(code))
}

/// Seen by those who look at the process only: the keeper reads the note.
fn exit_code(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Exited { code, .. } => u8::try_from(*code & 0xff).unwrap_or(125),
        Verdict::NotStarted(_) | Verdict::Vanished(_) => 125,
    }
}

/// The note of this runner and where it is written.
#[derive(Debug)]
struct Board {
    memory: File,
    note: Note,
}

impl Board {
    /// What cannot be written is missed only if this process is killed.
    fn write(&self) {
        let _ = self.note.write(&self.memory);
    }
}
