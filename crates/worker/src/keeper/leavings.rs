//! What an attempt leaves beside its output: the word that it has finished, and a checkpoint.
//!
//! Guarantee: what the agent does not need is gone when the attempt has ended.

use std::fs;

use super::message::{FinishedBy, Outcome, StartSpec};
use super::table::Table;
use crate::job_user::{acting_as, release_checkpoints};

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Leavings {
    /// Only of an attempt that was told to stop; otherwise the exit says it all.
    pub(super) finished: Option<FinishedBy>,
    /// The path of a checkpoint; empty when there is none.
    pub(super) checkpoint: String,
}

/// Looks at what is left, and removes what nobody needs any more.
pub(super) fn collect(table: &Table, spec: &StartSpec, outcome: &Outcome) -> Leavings {
    let paths = &spec.paths;
    let stopped = table.is_stopping(&spec.key);
    let user = spec.user.as_deref();
    let clear = || {
        let marked = !paths.done.is_empty() && fs::remove_file(&paths.done).is_ok();
        if stopped {
            remove(&paths.notice);
        }
        remove(&paths.checkpoint);
        Ok((marked, checkpoint(&paths.checkpoint_out)))
    };
    let (marked, checkpoint) = acting_as(user, clear).unwrap_or_default();
    let finished = match outcome {
        _ if !stopped => None,
        Outcome::Exited(_) | Outcome::Signalled(_) if marked => Some(FinishedBy::Marker),
        Outcome::Exited(0) if spec.manner.exit0_finishes => Some(FinishedBy::ExitCode),
        Outcome::Exited(_)
        | Outcome::Signalled(_)
        | Outcome::NotStarted(_)
        | Outcome::Withdrawn
        | Outcome::Vanished(_)
        | Outcome::Lost(_) => None,
    };
    Leavings { finished, checkpoint }
}

/// Lets go of the directory for checkpoints of a user of its own.
pub(super) fn release(table: &Table, spec: &StartSpec) {
    if let Some(user) = &spec.user
        && !table.has_other_attempt(&spec.key)
    {
        release_checkpoints(&spec.paths.checkpoint_dir, user);
    }
}

/// An empty file is no checkpoint: the scheduler would refuse it.
fn checkpoint(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    match fs::symlink_metadata(path) {
        Ok(file) if file.len() > 0 => path.to_owned(),
        Ok(_) => {
            remove(path);
            String::new()
        }
        Err(_) => String::new(),
    }
}

fn remove(path: &str) {
    if !path.is_empty() {
        // What cannot be removed now is removed with the other leftovers.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::message::{AttemptPaths, Key, StopCause, StopManner, StopSpec, ToKeeper};
    use super::*;

    struct Attempt {
        root: tempfile::TempDir,
        table: Table,
        spec: StartSpec,
    }

    fn attempt(stopped: bool, exit0_finishes: bool) -> Attempt {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name).to_string_lossy().into_owned();
        let key = Key { job_id: "job".into(), lease: 1 };
        let spec = StartSpec {
            key: key.clone(),
            argv: Vec::new(),
            env: Vec::new(),
            cwd: "/".into(),
            stdin: None,
            grace_ms: 1_000,
            lease_ms: None,
            stop_signal: None,
            timeout_ms: None,
            manner: StopManner { exit0_finishes, ..StopManner::default() },
            has_checkpoint: true,
            terminal: None,
            paths: AttemptPaths {
                notice: path("notice"),
                done: path("done"),
                checkpoint: path("in"),
                checkpoint_out: path("out"),
                checkpoint_dir: String::new(),
            },
            hostfile: None,
            unset: Vec::new(),
            secrets: Vec::new(),
            limits: super::super::Limits::default(),
            container: None,
            user: None,
            note: String::new(),
        };
        let table = Table::default();
        table.lock().agent = Some(1);
        table.apply(1, vec![ToKeeper::Start(Box::new(spec.clone()))]);
        table.lock().next_start(0).unwrap();
        if stopped {
            let cause = StopCause::Order;
            let stop = StopSpec { key, grace_ms: 60_000, cause, signal: None, scope: None, words: None };
            table.apply(1, vec![ToKeeper::Stop(Box::new(stop))]);
            assert!(Path::new(&spec.paths.notice).exists(), "the notice comes with the order");
        }
        Attempt { root, table, spec }
    }

    fn left(attempt: &Attempt, outcome: &Outcome) -> Leavings {
        collect(&attempt.table, &attempt.spec, outcome)
    }

    #[test]
    fn only_a_job_that_was_told_to_stop_needs_to_say_that_it_has_finished() {
        let cases = [
            (true, false, true, Outcome::Exited(3), Some(FinishedBy::Marker)),
            (true, false, true, Outcome::Signalled(15), Some(FinishedBy::Marker)),
            (true, false, false, Outcome::Exited(0), None),
            (true, true, false, Outcome::Exited(0), Some(FinishedBy::ExitCode)),
            (true, true, false, Outcome::Exited(1), None),
            (false, true, true, Outcome::Exited(0), None),
        ];
        for (stopped, exit0_finishes, marked, outcome, finished) in cases {
            let attempt = attempt(stopped, exit0_finishes);
            if marked {
                fs::write(&attempt.spec.paths.done, "").unwrap();
            }
            assert_eq!(left(&attempt, &outcome).finished, finished, "{outcome:?}");
            assert_eq!(fs::read_dir(attempt.root.path()).unwrap().count(), 0, "nothing is left");
        }
    }

    #[test]
    fn a_checkpoint_is_handed_over_and_the_rest_removed() {
        let attempt = attempt(false, false);
        let paths = &attempt.spec.paths;
        fs::write(&paths.checkpoint, "old").unwrap();
        fs::write(&paths.checkpoint_out, "new").unwrap();
        assert_eq!(left(&attempt, &Outcome::Exited(1)).checkpoint, paths.checkpoint_out);
        assert!(!Path::new(&paths.checkpoint).exists() && Path::new(&paths.checkpoint_out).exists());
        fs::write(&paths.checkpoint_out, "").unwrap();
        assert_eq!(left(&attempt, &Outcome::Exited(1)), Leavings::default());
        assert!(!Path::new(&paths.checkpoint_out).exists());
    }
}
