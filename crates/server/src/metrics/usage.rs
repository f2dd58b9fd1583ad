//! Metrics of what jobs used: time, CPU time and GPU time by queue, counted when an attempt ends.
//!
//! Guarantee: no more than a fixed number of queues is shown, so that nobody can make a scrape grow without end; what
//! belongs to others is counted as `(others)`.

use std::collections::BTreeSet;
use std::sync::Mutex;

use muster_store::UsageEntry;
use prometheus::{CounterVec, Opts, Registry, Result};

use super::catalogue::register;

/// The most queues that are shown, by the time at which they were first seen.
const SHOWN: usize = 200;
const OTHERS: &str = "(others)";

#[derive(Debug)]
pub(crate) struct UsageMetrics {
    attempts: CounterVec,
    wall_seconds: CounterVec,
    cpu_seconds: CounterVec,
    cpu_requested_seconds: CounterVec,
    gpu_seconds: CounterVec,
    known: Mutex<BTreeSet<String>>,
}

impl UsageMetrics {
    pub(super) fn new(r: &Registry) -> Result<Self> {
        let by_queue =
            |name: &str, help: &str| register(r, CounterVec::new(Opts::new(name, help), &["queue"])?);
        Ok(Self {
            attempts: by_queue("muster_usage_attempts_total", "Attempts that have ended.")?,
            wall_seconds: by_queue("muster_usage_wall_seconds_total", "How long these attempts ran.")?,
            cpu_seconds: by_queue("muster_usage_cpu_seconds_total", "CPU time that they used.")?,
            cpu_requested_seconds: by_queue(
                "muster_usage_cpu_requested_seconds_total",
                "CPUs that they requested times the time for which they held them.",
            )?,
            gpu_seconds: by_queue(
                "muster_usage_gpu_seconds_total",
                "GPUs that they held times the time for which they held them.",
            )?,
            known: Mutex::new(BTreeSet::new()),
        })
    }

    /// Counts what was committed.
    pub(crate) fn note(&self, entries: &[UsageEntry]) {
        for entry in entries {
            let label = [self.label(&entry.queue)];
            let seconds = |millis: u64| millis as f64 / 1e3;
            self.attempts.with_label_values(&label).inc_by(entry.sum.attempts as f64);
            self.wall_seconds.with_label_values(&label).inc_by(seconds(entry.sum.wall_ms));
            self.cpu_seconds.with_label_values(&label).inc_by(seconds(entry.sum.cpu_ms));
            let requested = seconds(entry.sum.cpu_requested_ms);
            self.cpu_requested_seconds.with_label_values(&label).inc_by(requested);
            self.gpu_seconds.with_label_values(&label).inc_by(seconds(entry.sum.gpu_ms));
        }
    }

    fn label<'q>(&self, queue: &'q str) -> &'q str {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if known.contains(queue) {
            return queue;
        }
        if known.len() >= SHOWN {
            return OTHERS;
        }
        known.insert(queue.to_owned());
        queue
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::UsageSum;

    use super::*;

    #[test]
    fn too_many_queues_are_counted_together() {
        let registry = Registry::new();
        let metrics = UsageMetrics::new(&registry).unwrap();
        let sum = UsageSum { attempts: 1, cpu_ms: 500, ..UsageSum::default() };
        let entry = |queue: usize| UsageEntry {
            hour: 1,
            user: String::new(),
            queue: format!("q{queue}"),
            private: false,
            sum,
        };
        for queue in 0..SHOWN + 3 {
            metrics.note(&[entry(queue)]);
        }
        metrics.note(&[entry(0)]);
        assert!((metrics.attempts.with_label_values(&["q0"]).get() - 2.0).abs() < 1e-9);
        assert!((metrics.cpu_seconds.with_label_values(&[OTHERS]).get() - 1.5).abs() < 1e-9);
    }
}
