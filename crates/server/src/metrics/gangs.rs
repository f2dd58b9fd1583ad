//! Metrics of gangs: how often they are placed and drained, how long a drain takes, and what it costs.

use muster_store::{GangNote, GangStep};
use prometheus::{Counter, Histogram, IntCounter, IntCounterVec, Registry, Result};

use super::catalogue::{counter, counters, histogram, register};

const DRAIN_BUCKETS: [f64; 10] = [0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 120.0];

#[derive(Debug)]
pub(crate) struct GangMetrics {
    placed: IntCounter,
    lapsed: IntCounter,
    preempted: IntCounter,
    forced: IntCounter,
    completed: IntCounterVec,
    drain_seconds: Histogram,
    wasted_task_seconds: Counter,
    wasted_gpu_seconds: Counter,
}

impl GangMetrics {
    pub(super) fn new(r: &Registry) -> Result<Self> {
        let wasted = |name: &str, help: &str| register(r, Counter::new(name, help)?);
        Ok(Self {
            placed: counter(r, "muster_gang_rounds_total", "Rounds of gangs that were placed.")?,
            lapsed: counter(
                r,
                "muster_gang_reservations_lapsed_total",
                "Placements taken back because a task was not claimed in time.",
            )?,
            preempted: counter(r, "muster_gangs_preempted_total", "Gang drains started.")?,
            forced: counter(
                r,
                "muster_gang_preemptions_force_drained_total",
                "Gang tasks taken for gone after the preempt timeout.",
            )?,
            completed: counters(
                r,
                "muster_gang_preemptions_completed_total",
                "Gang drains completed.",
                &["outcome"],
            )?,
            drain_seconds: histogram(
                r,
                "muster_gang_preemption_drain_seconds",
                "From the start of a gang drain to its verdict.",
                &DRAIN_BUCKETS,
            )?,
            wasted_task_seconds: wasted(
                "muster_gang_wasted_task_seconds_total",
                "Time that tasks had run in rounds that were drained.",
            )?,
            wasted_gpu_seconds: wasted(
                "muster_gang_wasted_gpu_seconds_total",
                "The same, times the GPUs of each task.",
            )?,
        })
    }

    /// Counts a step that was committed, and writes it down.
    pub(crate) fn note(&self, note: &GangNote) {
        let (gang_id, preemption_epoch) = (note.gang, note.epoch);
        match &note.step {
            GangStep::Placed { size, round } => {
                self.placed.inc();
                tracing::info!(%gang_id, gang_size = size, round, "gang reserved");
            }
            GangStep::Lapsed { size } => {
                self.lapsed.inc();
                tracing::info!(%gang_id, gang_size = size, "rolled back stale gang reservation");
            }
            GangStep::DrainStarted { trigger, tasks, reason, .. } => {
                self.preempted.inc();
                let trigger_job_id = trigger.map(tracing::field::display);
                let transitioned = tasks;
                tracing::info!(%gang_id, trigger_job_id, preemption_epoch, transitioned, reason, "gang drain started");
            }
            GangStep::Forced { task, age } => {
                self.forced.inc();
                let drain_age = age.as_secs_f64();
                tracing::warn!(job_id = %task, %gang_id, preemption_epoch, drain_age, "force-drained stuck preempting task");
            }
            GangStep::Completed { outcome, took, wasted, gpus } => {
                self.completed.with_label_values(&[outcome]).inc();
                self.drain_seconds.observe(took.as_secs_f64());
                self.wasted_task_seconds.inc_by(wasted.as_secs_f64());
                self.wasted_gpu_seconds.inc_by(wasted.as_secs_f64() * *gpus as f64);
                tracing::info!(%gang_id, preemption_epoch, outcome, "gang drain completed");
            }
        }
    }
}
