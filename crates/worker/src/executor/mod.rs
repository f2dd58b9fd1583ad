//! What runs the jobs, seen from the agent: commands go in, ends come out.
//!
//! All executors speak the keeper's messages, so the agent does not know which one it has.

mod fake;
mod process;

use std::io;

use tokio::sync::mpsc;

use crate::attempt_files::AttemptFiles;
use crate::keeper::{FromKeeper, IsolationForm, ToKeeper};

pub(crate) use fake::fake;
pub(crate) use process::{KeeperOptions, connect};

/// What an executor has to say.
#[derive(Debug)]
pub(crate) enum ExecutorEvent {
    Messages(Vec<FromKeeper>),
    /// The keeper is gone although nobody told it to go.
    Lost(io::Error),
}

/// A running executor.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is something that an older keeper cannot do")]
pub(crate) struct Executor {
    commands: mpsc::UnboundedSender<ToKeeper>,
    events: mpsc::UnboundedReceiver<ExecutorEvent>,
    /// It knows the paths of an attempt by its key.
    names_files: bool,
    /// It hands secrets to processes.
    pub(crate) hands_secrets: bool,
    /// How it isolates attempts.
    pub(crate) isolation: IsolationForm,
    /// It starts containers.
    pub(crate) runs_containers: bool,
    /// It gives processes a standard input.
    pub(crate) gives_stdin: bool,
    /// It gives containers a standard input.
    pub(crate) gives_contained_stdin: bool,
    /// It gives processes terminals.
    pub(crate) gives_terminals: bool,
    /// It runs attempts as other users.
    pub(crate) changes_users: bool,
    /// It gives attempts a `/tmp` of their own.
    pub(crate) private_tmp: bool,
    /// It binds attempts to CPUs.
    pub(crate) cpu_bind: bool,
}

impl Executor {
    /// Hands a command over. An executor that is gone has said so in its events.
    pub(crate) fn send(&self, mut command: ToKeeper) {
        if let ToKeeper::Start(spec) = &mut command {
            AttemptFiles::for_the_way(spec, self.names_files);
        }
        let _ = self.commands.send(command);
    }

    /// The next thing that happened; `None` once the executor has ended.
    pub(crate) async fn next(&mut self) -> Option<ExecutorEvent> {
        self.events.recv().await
    }
}
