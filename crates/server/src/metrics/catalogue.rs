//! Every metric by name, and how committed events move them.

use std::time::Duration;

use muster_domain::Role;
use muster_domain::{EndReason, Event, EventKind, RequeueCause};
use muster_store::{DrainCause, GangNote, GangStep};
use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, Result,
};

use super::blobs::BlobMetrics;
use super::bounds::BoundMetrics;
use super::gangs::GangMetrics;
use super::output::OutputMetrics;
use super::queues::QueueMetrics;
use super::room::RoomMetrics;
use super::usage::UsageMetrics;
use super::webhooks::WebhookMetrics;

const EXECUTION_BUCKETS: [f64; 8] = [0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];
const QUEUE_WAIT_BUCKETS: [f64; 9] = [0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
const LATENCY_BUCKETS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];
const BATCH_BUCKETS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 32.0, 128.0, 512.0, 2048.0];

/// All metrics of one scheduler.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(super) registry: Registry,
    /// Gauges that only mean something when the store has just answered.
    pub(super) store_registry: Registry,
    jobs: JobMetrics,
    loops: LoopMetrics,
    traffic: TrafficMetrics,
    pub(super) gauges: StoreGauges,
    pub(crate) bounds: BoundMetrics,
    pub(crate) blobs: BlobMetrics,
    pub(crate) output: OutputMetrics,
    pub(crate) webhooks: WebhookMetrics,
    gangs: GangMetrics,
    pub(super) queues: QueueMetrics,
    pub(crate) room: RoomMetrics,
    pub(crate) usage: UsageMetrics,
    pub(super) store_up: Gauge,
    pub(crate) parked: IntGauge,
    pub(crate) unplaceable: IntGauge,
}

#[derive(Debug)]
struct JobMetrics {
    submitted: IntCounter,
    claimed: IntCounter,
    completed: IntCounter,
    failed: IntCounter,
    retried: IntCounter,
    released: IntCounter,
    cancelled: IntCounter,
    unblocked: IntCounter,
    dependency_failures: IntCounter,
    reaped: IntCounterVec,
    stops_forced: IntCounter,
    stale_reports: IntCounter,
    execution: Histogram,
    queue_wait: Histogram,
}

#[derive(Debug)]
struct LoopMetrics {
    reaper_leader: IntGauge,
    planner_leader: IntGauge,
    retention_leader: IntGauge,
    webhooks_leader: IntGauge,
    tick_seconds: HistogramVec,
}

#[derive(Debug)]
struct TrafficMetrics {
    store_errors: IntCounter,
    log_bytes: IntCounter,
    log_readers_dropped: IntCounter,
    event_readers_dropped: IntCounter,
    event_readers_refused: IntCounter,
    commit_seconds: Histogram,
    commit_commands: Histogram,
    http_requests: IntCounterVec,
    handshake_failures: IntCounterVec,
    http_seconds: HistogramVec,
}

#[derive(Debug)]
pub(super) struct StoreGauges {
    pub(super) jobs: Vec<(muster_domain::Status, IntGauge)>,
    pub(super) workers: IntGaugeVec,
    pub(super) queue_depth: IntGaugeVec,
    pub(super) capacity_total: GaugeVec,
    pub(super) capacity_used: GaugeVec,
}

pub(super) fn register<C: Collector + Clone + 'static>(registry: &Registry, collector: C) -> Result<C> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

pub(super) fn counter(registry: &Registry, name: &str, help: &str) -> Result<IntCounter> {
    register(registry, IntCounter::new(name, help)?)
}

pub(super) fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec> {
    register(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
}

pub(super) fn gauge(registry: &Registry, name: &str, help: &str) -> Result<IntGauge> {
    register(registry, IntGauge::new(name, help)?)
}

pub(super) fn gauges(registry: &Registry, name: &str, help: &str, label: &str) -> Result<IntGaugeVec> {
    register(registry, IntGaugeVec::new(Opts::new(name, help), &[label])?)
}

fn amounts(registry: &Registry, name: &str, help: &str) -> Result<GaugeVec> {
    register(registry, GaugeVec::new(Opts::new(name, help), &["resource"])?)
}

pub(super) fn histogram(registry: &Registry, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram> {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    register(registry, Histogram::with_opts(options)?)
}

fn histograms(registry: &Registry, name: &str, help: &str, label: &str) -> Result<HistogramVec> {
    let options = HistogramOpts::new(name, help).buckets(LATENCY_BUCKETS.to_vec());
    register(registry, HistogramVec::new(options, &[label])?)
}

fn job_gauges(r: &Registry) -> Result<Vec<(muster_domain::Status, IntGauge)>> {
    let open = muster_domain::Status::ALL.into_iter().filter(|status| !status.is_terminal());
    open.map(|status| {
        let name = format!("muster_jobs_{status}");
        Ok((status, gauge(r, &name, &format!("Jobs that are {status}."))?))
    })
    .collect()
}

#[cfg(target_os = "linux")]
fn process_metrics(r: &Registry) -> Result<()> {
    r.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))
}

#[cfg(not(target_os = "linux"))]
fn process_metrics(_: &Registry) -> Result<()> {
    Ok(())
}

impl JobMetrics {
    fn new(r: &Registry) -> Result<Self> {
        Ok(Self {
            submitted: counter(r, "muster_jobs_submitted_total", "Jobs accepted.")?,
            claimed: counter(r, "muster_jobs_claimed_total", "Claims granted.")?,
            completed: counter(r, "muster_jobs_completed_total", "Jobs that ended well.")?,
            failed: counter(r, "muster_jobs_failed_total", "Jobs that failed for good by a report.")?,
            retried: counter(r, "muster_jobs_retried_total", "Failed attempts that were requeued.")?,
            released: counter(r, "muster_jobs_released_total", "Attempts handed back without cost.")?,
            cancelled: counter(r, "muster_jobs_cancelled_total", "Jobs cancelled.")?,
            unblocked: counter(r, "muster_jobs_unblocked_total", "Jobs released by their dependencies.")?,
            dependency_failures: counter(
                r,
                "muster_dependency_failures_total",
                "Jobs ended because a dependency failed or was cancelled.",
            )?,
            reaped: counters(r, "muster_jobs_reaped_total", "Jobs taken from silent workers.", &["outcome"])?,
            stops_forced: counter(
                r,
                "muster_stops_forced_total",
                "Stop orders that nobody answered within the preempt timeout.",
            )?,
            stale_reports: counter(
                r,
                "muster_stale_reports_total",
                "Reports refused because their lease was lost or belongs to another.",
            )?,
            execution: histogram(
                r,
                "muster_job_execution_duration_seconds",
                "From claim to the report of a good end.",
                &EXECUTION_BUCKETS,
            )?,
            queue_wait: histogram(
                r,
                "muster_job_queue_wait_seconds",
                "From becoming runnable to the claim.",
                &QUEUE_WAIT_BUCKETS,
            )?,
        })
    }
}

impl LoopMetrics {
    fn new(r: &Registry) -> Result<Self> {
        Ok(Self {
            reaper_leader: gauge(r, "muster_reaper_leader", "1 while this instance reaps.")?,
            planner_leader: gauge(r, "muster_admission_leader", "1 while this instance plans.")?,
            retention_leader: gauge(r, "muster_retention_leader", "1 while this instance removes old jobs.")?,
            webhooks_leader: gauge(
                r,
                "muster_webhooks_leader",
                "1 while this instance delivers to webhooks.",
            )?,
            tick_seconds: histograms(r, "muster_tick_seconds", "Duration of a pass of a loop.", "loop")?,
        })
    }
}

impl TrafficMetrics {
    fn new(r: &Registry) -> Result<Self> {
        let labels = ["method", "route", "code"];
        Ok(Self {
            store_errors: counter(r, "muster_store_errors_total", "Failed calls to the store.")?,
            log_bytes: counter(r, "muster_log_bytes_total", "Bytes of output that workers sent.")?,
            event_readers_dropped: counter(
                r,
                "muster_event_readers_dropped_total",
                "Readers of events that were too slow and let go.",
            )?,
            event_readers_refused: counter(
                r,
                "muster_event_readers_refused_total",
                "Readers of events that were turned away because there were too many.",
            )?,
            log_readers_dropped: counter(
                r,
                "muster_log_readers_dropped_total",
                "Readers of live output that were let go because they were too slow.",
            )?,
            commit_seconds: histogram(
                r,
                "muster_commit_seconds",
                "Duration of a transaction.",
                &LATENCY_BUCKETS,
            )?,
            commit_commands: histogram(
                r,
                "muster_commit_commands",
                "Commands that shared a transaction.",
                &BATCH_BUCKETS,
            )?,
            handshake_failures: counters(
                r,
                "muster_tls_handshake_failures_total",
                "Connections that came to nothing before their first request.",
                &["reason"],
            )?,
            http_requests: counters(r, "muster_http_requests_total", "Requests answered.", &labels)?,
            http_seconds: histograms(r, "muster_http_request_seconds", "Time to the answer.", "route")?,
        })
    }
}

impl StoreGauges {
    fn new(s: &Registry) -> Result<Self> {
        Ok(Self {
            jobs: job_gauges(s)?,
            workers: gauges(s, "muster_workers", "Registered workers.", "status")?,
            queue_depth: gauges(s, "muster_queue_depth", "Pending jobs by queue.", "queue")?,
            capacity_total: amounts(s, "muster_capacity_total", "What active workers have.")?,
            capacity_used: amounts(s, "muster_capacity_used", "What their jobs hold.")?,
        })
    }
}

impl Metrics {
    /// Registers everything.
    pub(crate) fn new() -> Result<Self> {
        let registry = Registry::new();
        let store_registry = Registry::new();
        let r = &registry;
        process_metrics(r)?;
        Ok(Self {
            jobs: JobMetrics::new(r)?,
            loops: LoopMetrics::new(r)?,
            traffic: TrafficMetrics::new(r)?,
            gauges: StoreGauges::new(&store_registry)?,
            store_up: register(r, Gauge::new("muster_store_up", "1 when the store answered this scrape.")?)?,
            parked: gauge(r, "muster_parked_requests", "Long polls that wait for work or orders.")?,
            unplaceable: gauge(
                r,
                "muster_jobs_unplaceable",
                "Pending jobs that no registered worker could ever run.",
            )?,
            bounds: BoundMetrics::new(r)?,
            blobs: BlobMetrics::new(r)?,
            output: OutputMetrics::new(r)?,
            webhooks: WebhookMetrics::new(r, &store_registry)?,
            gangs: GangMetrics::new(r)?,
            queues: QueueMetrics::new(&store_registry)?,
            room: RoomMetrics::new(r)?,
            usage: UsageMetrics::new(r)?,
            registry,
            store_registry,
        })
    }

    /// Counts a connection whose handshake failed.
    pub(crate) fn handshake_failed(&self, reason: &str) {
        self.traffic.handshake_failures.with_label_values(&[reason]).inc();
    }

    /// Counts what happened to a gang. One attempt is lost with each failure, whatever the number of tasks.
    pub(crate) fn note_gang(&self, note: &GangNote) {
        self.gangs.note(note);
        if let GangStep::DrainStarted { cause, .. } = &note.step {
            match cause {
                DrainCause::Failed => self.jobs.retried.inc(),
                DrainCause::Lost => self.jobs.reaped.with_label_values(&["requeued"]).inc(),
                DrainCause::Stopped => {}
            }
        }
    }

    fn note_requeued(&self, cause: &RequeueCause) {
        match cause {
            RequeueCause::Failed { .. }
            | RequeueCause::Timeout
            | RequeueCause::OutOfMemory { .. }
            | RequeueCause::AskedFor { .. } => self.jobs.retried.inc(),
            RequeueCause::WorkerLost | RequeueCause::Poison { .. } => {
                self.jobs.reaped.with_label_values(&["requeued"]).inc();
            }
            RequeueCause::Released | RequeueCause::Preempted { .. } => self.jobs.released.inc(),
            // Counted with the drain.
            RequeueCause::Gang { .. } => {}
        }
    }

    /// Counts what a committed event says.
    pub(crate) fn note(&self, event: &Event) {
        match &event.kind {
            EventKind::Submitted { .. } => self.jobs.submitted.inc(),
            EventKind::Claimed { waited, .. } => {
                self.jobs.claimed.inc();
                self.jobs.queue_wait.observe(waited.as_secs_f64());
                event.job.into_iter().for_each(|job| self.room.started(job, event.at));
            }
            EventKind::RoomMade { .. } => {
                event.job.into_iter().for_each(|job| self.room.made(job, event.at));
            }
            EventKind::Done { ran, .. } => {
                self.jobs.completed.inc();
                self.jobs.execution.observe(ran.as_secs_f64());
            }
            EventKind::Requeued { cause, .. } => self.note_requeued(cause),
            EventKind::Failed { reason, .. } => match reason {
                EndReason::WorkerLost { .. } => self.jobs.reaped.with_label_values(&["failed"]).inc(),
                EndReason::DependencyFailed { .. } | EndReason::DependencyCancelled { .. } => {
                    self.jobs.dependency_failures.inc();
                }
                EndReason::Attempt { .. }
                | EndReason::Timeout
                | EndReason::OutOfMemory { .. }
                | EndReason::Deadline
                | EndReason::Skipped { .. }
                | EndReason::Gang { .. }
                | EndReason::NotNeeded
                | EndReason::Cancelled { .. } => self.jobs.failed.inc(),
            },
            EventKind::Cancelled { reason } => {
                self.jobs.cancelled.inc();
                if matches!(reason, EndReason::DependencyCancelled { .. }) {
                    self.jobs.dependency_failures.inc();
                }
            }
            EventKind::Unblocked => self.jobs.unblocked.inc(),
            EventKind::Due
            | EventKind::Pinned { .. }
            | EventKind::Held { .. }
            | EventKind::Released
            | EventKind::RetryRequested
            | EventKind::Edited { .. }
            | EventKind::QueueChanged
            | EventKind::WorkerQuarantined { .. }
            | EventKind::WorkerReleased { .. }
            | EventKind::Prepared { .. }
            | EventKind::Started { .. }
            | EventKind::Finished { .. }
            | EventKind::StopRequested { .. }
            | EventKind::Reserved { .. }
            | EventKind::Unreserved { .. }
            | EventKind::Drained { .. }
            | EventKind::CheckpointSaved { .. }
            | EventKind::TerminalOpened { .. }
            | EventKind::ImagePulling { .. }
            | EventKind::ImagePulled { .. }
            | EventKind::WorkerRegistered
            | EventKind::WorkerOffline => {}
        }
    }

    pub(crate) fn stale_report(&self) {
        self.jobs.stale_reports.inc();
    }

    pub(crate) fn stops_forced(&self, count: u32) {
        self.jobs.stops_forced.inc_by(u64::from(count));
    }

    pub(crate) fn store_error(&self) {
        self.traffic.store_errors.inc();
    }

    pub(crate) fn log_received(&self, bytes: usize) {
        self.traffic.log_bytes.inc_by(bytes as u64);
    }

    pub(crate) fn event_reader_dropped(&self) {
        self.traffic.event_readers_dropped.inc();
    }

    pub(crate) fn event_reader_refused(&self) {
        self.traffic.event_readers_refused.inc();
    }

    pub(crate) fn log_reader_dropped(&self) {
        self.traffic.log_readers_dropped.inc();
    }

    pub(crate) fn committed(&self, commands: usize, took: Duration) {
        self.traffic.commit_commands.observe(commands as f64);
        self.traffic.commit_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn leads(&self, role: Role, leads: bool) {
        let gauge = match role {
            Role::Reaper => &self.loops.reaper_leader,
            Role::Planner => &self.loops.planner_leader,
            Role::Retention => &self.loops.retention_leader,
            Role::Webhooks => &self.loops.webhooks_leader,
        };
        gauge.set(i64::from(leads));
    }

    pub(crate) fn ticked(&self, role: Role, took: Duration) {
        self.loops.tick_seconds.with_label_values(&[role.name()]).observe(took.as_secs_f64());
    }

    pub(crate) fn answered(&self, method: &str, route: &str, code: &str, took: Duration) {
        self.traffic.http_requests.with_label_values(&[method, route, code]).inc();
        self.traffic.http_seconds.with_label_values(&[route]).observe(took.as_secs_f64());
    }
}
