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

/// Where finished output moves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Database,
    BlobStore,
}

impl To {
    pub(crate) const ALL: [Self; 2] = [Self::Database, Self::BlobStore];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Database => "database",
            Self::BlobStore => "blob_store",
        }
    }
}

/// Since when no move to a place went well, if one has failed since.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    database: Mutex<Option<Failure>>,
    blob_store: Mutex<Option<Failure>>,
}

impl Moves {
    pub(crate) fn succeeded(&self, to: To) {
        if self.failure(to).take().is_some() {
            tracing::info!(to = to.name(), "finished output moves again");
        }
    }

    pub(crate) fn failed(&self, to: To, reason: &str) {
        let mut failure = self.failure(to);
        if let Some(failure) = failure.as_mut() {
            reason.clone_into(&mut failure.reason);
            return;
        }
        let told = "finished output could not be moved; it is read from files, and tried again";
        tracing::warn!(reason, to = to.name(), "{told}");
        *failure = Some(Failure { since: Instant::now(), reason: reason.to_owned() });
    }

    /// Why nothing has moved to a place for long, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        To::ALL.into_iter().find_map(|to| {
            let failure = self.failure(to);
            let failure = failure.as_ref().filter(|failure| failure.since.elapsed() >= LONG)?;
            let minutes = failure.since.elapsed().as_secs() / 60;
            Some(format!("finished output has not moved for {minutes} minutes: {}", failure.reason))
        })
    }

    fn failure(&self, to: To) -> MutexGuard<'_, Option<Failure>> {
        let failure = match to {
            To::Database => &self.database,
            To::BlobStore => &self.blob_store,
        };
        failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
