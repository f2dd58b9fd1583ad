//! Metrics of room that was made: how many units stopped for others, and how long those waited for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use muster_domain::{JobId, Timestamp};
use muster_store::Stopped;
use prometheus::{Histogram, IntCounterVec, IntGauge, Registry, Result};

use super::catalogue::{counters, gauge, histogram};

const BUCKETS: [f64; 10] = [0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0];
/// Decisions that are remembered until the work that they were made for starts.
const REMEMBERED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct RoomMetrics {
    stopped: IntCounterVec,
    seconds: Histogram,
    keeping: IntGauge,
    /// For whom room was made, and when that was decided.
    awaited: Mutex<BTreeMap<JobId, Timestamp>>,
}

impl RoomMetrics {
    pub(super) fn new(r: &Registry) -> Result<Self> {
        Ok(Self {
            stopped: counters(
                r,
                "muster_preempted_for_others_total",
                "Jobs and gangs that were told to stop so that others could start, by cause: priority, quota \
                 (an owner takes back what it lent) or level (the other one has had less service).",
                &["cause"],
            )?,
            seconds: histogram(
                r,
                "muster_preemption_seconds",
                "From the decision to stop others to the start of the work that it was made for.",
                &BUCKETS,
            )?,
            keeping: gauge(
                r,
                "muster_workers_keeping_room",
                "Workers that keep room for work which goes first and does not fit yet.",
            )?,
            awaited: Mutex::new(BTreeMap::new()),
        })
    }

    /// Units were told to stop for others.
    pub(crate) fn stopped(&self, stopped: Stopped) {
        let causes = [("priority", stopped.priority), ("quota", stopped.quota), ("level", stopped.level)];
        for (cause, units) in causes {
            self.stopped.with_label_values(&[cause]).inc_by(u64::from(units));
        }
    }

    /// Others were told to stop for this job, or for its gang.
    pub(crate) fn made(&self, job: JobId, at: Timestamp) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        if awaited.len() < REMEMBERED {
            awaited.entry(job).or_insert(at);
        }
    }

    /// The job, or the first task of the gang, was started.
    pub(crate) fn started(&self, job: JobId, at: Timestamp) {
        let decided = self.awaited.lock().unwrap_or_else(PoisonError::into_inner).remove(&job);
        if let Some(decided) = decided {
            self.seconds.observe(at.since(decided).as_secs_f64());
        }
    }

    pub(crate) fn keeping(&self, workers: u32) {
        self.keeping.set(i64::from(workers));
    }
}
