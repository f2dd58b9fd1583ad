//! An executor that runs nothing: every job is done at once. It measures all the rest of the system.

use tokio::sync::mpsc;

use super::{Executor, ExecutorEvent};
use crate::keeper::{End, FromKeeper, IsolationForm, Outcome, ToKeeper};

/// How many commands are answered together.
const BATCH: usize = 1024;

/// Starts the fake executor on the current runtime.
pub(crate) fn fake() -> Executor {
    let (commands, mut incoming) = mpsc::unbounded_channel();
    let (outgoing, events) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut batch = Vec::new();
        while incoming.recv_many(&mut batch, BATCH).await > 0 {
            let ends: Vec<_> = batch.drain(..).filter_map(done).collect();
            if !ends.is_empty() && outgoing.send(ExecutorEvent::Messages(ends)).is_err() {
                break;
            }
        }
    });
    Executor {
        commands,
        events,
        names_files: true,
        hands_secrets: true,
        runs_containers: true,
        gives_stdin: true,
        gives_contained_stdin: true,
        gives_terminals: true,
        changes_users: true,
        private_tmp: true,
        cpu_bind: true,
        isolation: IsolationForm::None,
    }
}

fn done(command: ToKeeper) -> Option<FromKeeper> {
    let ToKeeper::Start(spec) = command else { return None };
    let end = End { run_us: 1, ..End::of(Outcome::Exited(0)) };
    Some(FromKeeper::Ended { key: spec.key, end })
}
