//! Back-pressure: how many jobs may wait, in each queue, of each user of a queue, and in all.
//!
//! Guarantees: one number is compared for a submit that is far from its bounds, nothing is read from the
//! store; what is counted is at least what this instance has taken in since the last count, so that with one
//! scheduler the bound is kept; several schedulers may together exceed it by what they take in between two
//! counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_domain::{Queue, QueueName, Rejection};
use muster_store::{NewJob, Query, Reply, Store, StoreExt};
use tokio::time::Instant;

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
    /// The most that may wait of each user, and what waits, by queue.
    user_limits: HashMap<String, u64>,
    by_user: HashMap<(String, String), u64>,
    /// Jobs that waited at the last count, and those taken in since.
    by_queue: HashMap<String, u64>,
    /// Queues that an operator made, and others in which something runs.
    made: HashSet<String>,
    running: HashSet<String>,
    total: u64,
    counted: Option<Instant>,
}

/// The gate in front of submissions.
#[derive(Debug)]
pub(crate) struct Admission {
    /// At most this many jobs may wait in all; `None` sets no bound.
    most: Option<u64>,
    /// Whether jobs enter only queues that an operator made.
    closed: bool,
    known: Mutex<Known>,
}

impl Admission {
    pub(crate) fn new(most: Option<u64>, closed: bool) -> Self {
        Self { most, closed, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next submit read settings and counts anew.
    pub(crate) fn forget(&self) {
        self.known().counted = None;
    }

    /// Counts these jobs in, or refuses them with the numbers. Returns what the submitter should hear of its queues.
    pub(crate) async fn admit(&self, store: &dyn Store, jobs: &[NewJob]) -> Result<Vec<String>, ApiError> {
        let mut wanted = Wanted::default();
        for job in jobs {
            let queue = job.spec.queue.as_ref().map_or("", QueueName::as_str);
            *wanted.by_queue.entry(queue).or_default() += 1;
            if let Some(user) = &job.spec.user {
                *wanted.by_user.entry((queue, user)).or_default() += 1;
            }
        }
        if self.is_stale(FRESH) && (self.most.is_some() || self.has_limits_or_unknown()) {
            self.count(store).await?;
        }
        let remarks = self.judge_names(store, &wanted).await?;
        let Err(refusal) = self.enter(&wanted) else { return Ok(remarks) };
        if !self.is_stale(RECOUNT) {
            return Err(refused(refusal));
        }
        self.count(store).await?;
        self.enter(&wanted).map_err(refused)?;
        Ok(remarks)
    }

    /// A queue that nobody has heard of is probably a typing error: it is remarked on, or refused where the set of
    /// queues is closed.
    async fn judge_names(&self, store: &dyn Store, wanted: &Wanted<'_>) -> Result<Vec<String>, ApiError> {
        let names = || wanted.by_queue.keys().copied().filter(|name| !name.is_empty());
        let look = |known: &Known| {
            let old = known.counted.is_none_or(|at| at.elapsed() > RECOUNT);
            old && names().any(|name| known.is_strange(name, self.closed))
        };
        // Another scheduler may have made the queue since the last look.
        let again = look(&self.known());
        if again {
            self.count(store).await?;
        }
        let known = self.known();
        let mut remarks = Vec::new();
        for name in names().filter(|name| known.is_strange(name, self.closed)) {
            let others = known.made.iter().chain(&known.running).chain(known.by_queue.keys());
            let meant =
                muster_document::closest(name, others.map(String::as_str).filter(|other| *other != name));
            let hint = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            if self.closed {
                let message = format!(
                    "queue {name:?} does not exist, and only an operator makes queues here (--queues closed){hint}"
                );
                return Err(ApiError::bad_request("unknown_queue", message).at("queue_name"));
            }
            remarks.push(format!("queue {name:?} is new: it has no quota and no limits{hint}"));
        }
        Ok(remarks)
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
        known.is_bounded() || self.most.is_some_and(|most| known.total.saturating_mul(2) > most)
    }

    fn has_limits_or_unknown(&self) -> bool {
        let known = self.known();
        known.counted.is_none() || known.is_bounded()
    }

    async fn count(&self, store: &dyn Store) -> Result<(), ApiError> {
        let Reply::Queues(queues) = store.read(Query::Queues).await? else {
            return Err(ApiError::internal());
        };
        let counts = store.counts().await?;
        let bound_users = |queue: &Queue| Some((queue.name.clone(), queue.terms.max_queued_per_user?));
        let user_limits: HashMap<QueueName, u64> = queues.iter().filter_map(bound_users).collect();
        let mut by_user = BTreeMap::new();
        if !user_limits.is_empty() {
            let bounded = user_limits.keys().cloned().collect();
            if let Reply::WaitingByUser(users) = store.read(Query::WaitingByUser(bounded)).await? {
                by_user = users;
            }
        }
        let mut known = self.known();
        known.user_limits = user_limits.into_iter().map(|(name, most)| (name.into_string(), most)).collect();
        known.by_user =
            by_user.into_iter().map(|((queue, user), jobs)| ((queue.into_string(), user), jobs)).collect();
        known.limits = queues
            .iter()
            .filter_map(|queue| Some((queue.name.as_str().to_owned(), queue.max_queued?)))
            .collect();
        known.made = queues.iter().map(|queue| queue.name.as_str().to_owned()).collect();
        known.running = counts.held_by_queue.keys().cloned().collect();
        known.total = counts.waiting_by_queue.values().sum();
        known.by_queue = counts.waiting_by_queue.into_iter().collect();
        known.counted = Some(Instant::now());
        Ok(())
    }

    fn enter(&self, wanted: &Wanted<'_>) -> Result<(), Rejection> {
        let mut known = self.known();
        let asked: u64 = wanted.by_queue.values().sum();
        if let Some(limit) = self.most.filter(|most| known.total + asked > *most) {
            return Err(Rejection::TooManyQueued { queued: known.total, limit });
        }
        for (queue, asked) in &wanted.by_queue {
            let queued = known.by_queue.get(*queue).copied().unwrap_or(0);
            if let Some(limit) = known.limits.get(*queue).copied().filter(|limit| queued + asked > *limit) {
                let queue = if queue.is_empty() { "default" } else { queue };
                return Err(Rejection::QueueFull { queue: queue.to_owned(), queued, limit });
            }
        }
        if !known.user_limits.is_empty() {
            known.enter_users(&wanted.by_user)?;
        }
        known.total += asked;
        for (queue, asked) in &wanted.by_queue {
            *known.by_queue.entry((*queue).to_owned()).or_default() += asked;
        }
        Ok(())
    }
}

/// Jobs of one submission.
#[derive(Debug, Default)]
struct Wanted<'j> {
    by_queue: BTreeMap<&'j str, u64>,
    by_user: BTreeMap<(&'j str, &'j str), u64>,
}

impl Known {
    /// Whether the queue is none that an operator made, nor, in an open set, one that has jobs. Where nobody ever made
    /// a queue, names are only labels.
    fn is_strange(&self, name: &str, closed: bool) -> bool {
        let used = || self.running.contains(name) || self.by_queue.contains_key(name);
        !self.made.contains(name) && (closed || !(self.made.is_empty() || used()))
    }

    fn is_bounded(&self) -> bool {
        !self.limits.is_empty() || !self.user_limits.is_empty()
    }

    /// Counts the jobs of users in where that is bounded, all or none.
    fn enter_users(&mut self, wanted: &BTreeMap<(&str, &str), u64>) -> Result<(), Rejection> {
        let key = |queue: &str, user: &str| (queue.to_owned(), user.to_owned());
        for ((queue, user), asked) in wanted {
            let queued = self.by_user.get(&key(queue, user)).copied().unwrap_or(0);
            let limit = self.user_limits.get(*queue).copied();
            if let Some(limit) = limit.filter(|limit| queued + asked > *limit) {
                let (queue, user) = key(queue, user);
                return Err(Rejection::UserFull { queue, user, queued, limit });
            }
        }
        for ((queue, user), asked) in wanted {
            if self.user_limits.contains_key(*queue) {
                *self.by_user.entry(key(queue, user)).or_default() += asked;
            }
        }
        Ok(())
    }
}

fn refused(rejection: Rejection) -> ApiError {
    ApiError { retry_after: Some(RETRY_AFTER), ..ApiError::from(rejection) }
}
