//! Back-pressure: how many jobs may wait, in each queue and in all.
//!
//! Guarantees: one number is compared for a submit that is far from its bounds, nothing is read from the
//! store; what is counted is at least what this instance has taken in since the last count, so that with one
//! scheduler the bound is kept; several schedulers may together exceed it by what they take in between two
//! counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_domain::{QueueName, Rejection};
use muster_store::{NewJob, Query, Reply, Store, StoreExt};

use crate::error::ApiError;

/// Settings of queues and counts are not older than this when they matter.
const FRESH: Duration = Duration::from_secs(1);
/// Between two counts for a queue that is full.
const RECOUNT: Duration = Duration::from_millis(250);
/// When a repeat makes sense, in seconds.
const RETRY_AFTER: u32 = 5;

/// What is known of the waiting jobs.
#[derive(Debug, Default)]
struct Known {
    limits: HashMap<String, u64>,
    /// Jobs that waited at the last count, and those taken in since.
    by_queue: HashMap<String, u64>,
    total: u64,
    counted: Option<Instant>,
}

/// The gate in front of submissions.
#[derive(Debug)]
pub(crate) struct Admission {
    /// At most this many jobs may wait in all; `None` sets no bound.
    most: Option<u64>,
    known: Mutex<Known>,
}

impl Admission {
    pub(crate) fn new(most: Option<u64>) -> Self {
        Self { most, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next submit read settings and counts anew.
    pub(crate) fn forget(&self) {
        self.known().counted = None;
    }

    /// Counts these jobs in, or refuses them with the numbers.
    pub(crate) async fn admit(&self, store: &dyn Store, jobs: &[NewJob]) -> Result<(), ApiError> {
        let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
        for job in jobs {
            *wanted.entry(job.spec.queue.as_ref().map_or("", QueueName::as_str)).or_default() += 1;
        }
        if self.is_stale(FRESH) && (self.most.is_some() || self.has_limits_or_unknown()) {
            self.count(store).await?;
        }
        let Err(refusal) = self.enter(&wanted) else { return Ok(()) };
        if !self.is_stale(RECOUNT) {
            return Err(refused(refusal));
        }
        self.count(store).await?;
        self.enter(&wanted).map_err(refused)
    }

    fn is_stale(&self, age: Duration) -> bool {
        let known = self.known();
        match known.counted {
            None => true,
            // A scheduler that is far from every bound need not count again.
            Some(at) => at.elapsed() > age && self.is_near(&known),
        }
    }

    fn is_near(&self, known: &Known) -> bool {
        !known.limits.is_empty() || self.most.is_some_and(|most| known.total.saturating_mul(2) > most)
    }

    fn has_limits_or_unknown(&self) -> bool {
        let known = self.known();
        known.counted.is_none() || !known.limits.is_empty()
    }

    async fn count(&self, store: &dyn Store) -> Result<(), ApiError> {
        let Reply::Queues(queues) = store.read(Query::Queues).await? else {
            return Err(ApiError::internal());
        };
        let counts = store.counts().await?;
        let mut known = self.known();
        known.limits = queues
            .iter()
            .filter_map(|queue| Some((queue.name.as_str().to_owned(), queue.max_queued?)))
            .collect();
        known.total = counts.waiting_by_queue.values().sum();
        known.by_queue = counts.waiting_by_queue.into_iter().collect();
        known.counted = Some(Instant::now());
        Ok(())
    }

    fn enter(&self, wanted: &BTreeMap<&str, u64>) -> Result<(), Rejection> {
        let mut known = self.known();
        let asked: u64 = wanted.values().sum();
        if let Some(limit) = self.most.filter(|most| known.total + asked > *most) {
            return Err(Rejection::TooManyQueued { queued: known.total, limit });
        }
        for (queue, asked) in wanted {
            let queued = known.by_queue.get(*queue).copied().unwrap_or(0);
            if let Some(limit) = known.limits.get(*queue).copied().filter(|limit| queued + asked > *limit) {
                let queue = if queue.is_empty() { "default" } else { queue };
                return Err(Rejection::QueueFull { queue: queue.to_owned(), queued, limit });
            }
        }
        known.total += asked;
        for (queue, asked) in wanted {
            *known.by_queue.entry((*queue).to_owned()).or_default() += asked;
        }
        Ok(())
    }
}

fn refused(rejection: Rejection) -> ApiError {
    ApiError { retry_after: Some(RETRY_AFTER), ..ApiError::from(rejection) }
}
