//! How the moves of finished output go, for those who ask whether the scheduler is well.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Moves that have failed for so long are told of.
const LONG: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Failure {
    since: Instant,
    reason: String,
}

/// Since when no move went well, if one has failed since.
#[derive(Debug, Default)]
pub(crate) struct Moves(Mutex<Option<Failure>>);

impl Moves {
    pub(crate) fn succeeded(&self) {
        if self.failure().take().is_some() {
            tracing::info!("finished output moves again");
        }
    }

    pub(crate) fn failed(&self, reason: &str) {
        let mut failure = self.failure();
        match failure.as_mut() {
            Some(failure) => failure.reason = reason.to_owned(),
            None => {
                tracing::warn!(
                    reason,
                    "finished output could not be moved; it is read from files, and tried again"
                );
                *failure = Some(Failure { since: Instant::now(), reason: reason.to_owned() });
            }
        }
    }

    /// Why nothing has moved for long, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        let failure = self.failure();
        let failure = failure.as_ref().filter(|failure| failure.since.elapsed() >= LONG)?;
        let minutes = failure.since.elapsed().as_secs() / 60;
        Some(format!("finished output has not moved for {minutes} minutes: {}", failure.reason))
    }

    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
