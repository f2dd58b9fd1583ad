//! Jobs as flat rows: the one translation between [`Job`] and the columns that SQL backends keep.
//!
//! Guarantee: `JobRow::try_from(&job)` followed by `Job::try_from(row)` gives the same job.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use muster_domain::image::ImageState;
use muster_domain::{
    ClosedLease, Device, EndReason, Exit, Grant, Hold, Job, JobId, JobSpec, JobSpent, Lease, Member, Needs,
    Phase, Preparation, ReportKind, Resources, Round, SetId, ShapeId, Span, Spent, Status, StopReason,
    Strays, Timestamp, Unit, Worker, WorkerId,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::StoreError;

/// One row of the table of jobs. Times are microseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub id: JobId,
    pub seq: i64,
    pub status: Status,
    pub priority: i32,
    pub shape: i64,
    pub queue: Option<String>,
    pub name: Option<String>,
    /// The worker of a reserved, running or stopping job, or the last one of a job that has ended.
    pub worker_id: Option<String>,
    pub attempts: i32,
    pub lease: i64,
    pub closed_lease: Option<i64>,
    pub closed_by: Option<&'static str>,
    pub waiting_on: Option<i32>,
    /// When the job itself asks to be looked at; what the sweep's index is built on.
    pub alarm_at: Option<i64>,
    /// JSON of what few jobs have: see [`Extra`].
    pub extra: Option<String>,
    pub concurrency_key: Option<String>,
    pub unique_key: Option<String>,
    pub set_id: Option<Uuid>,
    pub step: Option<String>,
    pub set_index: Option<i32>,
    pub created_at: i64,
    pub ready_at: i64,
    pub started_at: Option<i64>,
    pub last_heartbeat: Option<i64>,
    /// Last sign of life of a running job whose lease does not say how long it lasts; what the reaper's index is built on.
    pub sign_at: Option<i64>,
    /// When the lease of a running or stopping job ends, where it says how long it lasts; an index is built on it too.
    pub lease_ends_at: Option<i64>,
    pub reserved_at: Option<i64>,
    pub drain_started_at: Option<i64>,
    pub done_at: Option<i64>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<i32>,
    /// JSON of the end reason or of the stop reason, by status.
    pub reason: Option<String>,
    pub preemption_epoch: i32,
    pub reservation_epoch: i32,
    pub checkpoint_bytes: Option<i64>,
    pub idempotency_key: Option<String>,
    pub gang_id: Option<String>,
    pub gang_index: Option<i32>,
    /// The place in the line; what the index of pending jobs is built on.
    pub rank: i64,
    /// Microseconds.
    pub served: i64,
    pub waited: i64,
    pub pinned: bool,
    /// JSON of the spec; never updated.
    pub spec: String,
}

/// What few jobs have, kept together so that the others pay nothing for it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Extra {
    /// End of the delay of a delayed or held job.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<Hold>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tried: Vec<WorkerId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost_on: Vec<WorkerId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strays: Option<Strays>,
    /// The dependencies of a blocked job, where their number does not say it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    needs: Option<Needs>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_file: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    round: Option<Round>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_worker: Option<WorkerId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_span: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    claim_key: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Grant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_for: Option<Unit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Span>,
    /// When an exit of a stopping job was reported by somebody who could not prove it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_reported_at: Option<Timestamp>,
    /// The preempted task said itself that its work is done.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    finished: bool,
    /// When the process of a finished task ended. (`done_at` is of jobs that have ended for good.)
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Timestamp>,
    /// A reserved task is claimed, and when its worker had it prepared.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    claimed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    prepared_at: Option<Timestamp>,
    /// What its last attempt used, and all those before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    spent: Option<Spent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spent_before: Option<Spent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Box<ImageState>>,
}

impl Extra {
    fn of(job: &Job) -> Result<Option<String>, StoreError> {
        let needs = match &job.phase {
            Phase::Blocked { needs } if !needs.is_plain() => Some(needs.clone()),
            _ => None,
        };
        let extra = Self {
            until: job.delayed_until(),
            hold: job.hold.clone(),
            tried: job.tried.clone(),
            lost_on: job.lost_on.clone(),
            strays: job.strays.clone(),
            needs,
            outputs: job.outputs.clone(),
            checkpoint_at: job.checkpoint_at,
            checkpoint_file: job.checkpoint_file.clone(),
            round: job.round.clone(),
            last_worker: job.last_worker.clone(),
            lease_span: job.lease_span,
            claim_key: job.claim_key.clone(),
            devices: job.devices.clone(),
            stopped_for: job.stopped_for,
            expected: job.expected,
            exit_reported_at: match job.phase {
                Phase::Preempting { exit_reported_at, .. } => exit_reported_at,
                _ => None,
            },
            finished: matches!(job.phase, Phase::Preempted { finished: true, .. }),
            finished_at: job.finished_at(),
            claimed: job.preparation().is_some(),
            prepared_at: job.preparation().and_then(|claim| claim.prepared_at),
            spent: job.spent.as_ref().map(|spent| spent.last),
            spent_before: job.spent.as_ref().and_then(|spent| spent.earlier),
            image: job.image.clone(),
        };
        (extra != Self::default()).then(|| json(job, "extra", &extra)).transpose()
    }
}

const fn closed_by_name(kind: ReportKind) -> &'static str {
    match kind {
        ReportKind::Done => "done",
        ReportKind::Failed => "failed",
        ReportKind::TimedOut => "timed_out",
        ReportKind::OutOfMemory => "oom",
        ReportKind::Released => "released",
        ReportKind::Preempted => "preempted",
        ReportKind::Finished => "finished",
        ReportKind::Lost => "lost",
        ReportKind::Refused => "refused",
    }
}

impl JobRow {
    /// The stored form of `closed_by`, checked.
    pub fn parse_closed_by(text: &str) -> Option<&'static str> {
        ["done", "failed", "timed_out", "oom", "released", "preempted", "finished", "lost", "refused"]
            .into_iter()
            .find(|name| *name == text)
    }

    fn closed(&self) -> Result<Option<ClosedLease>, StoreError> {
        let by = match self.closed_by {
            None => None,
            Some("done") => Some(ReportKind::Done),
            Some("failed") => Some(ReportKind::Failed),
            Some("timed_out") => Some(ReportKind::TimedOut),
            Some("oom") => Some(ReportKind::OutOfMemory),
            Some("released") => Some(ReportKind::Released),
            Some("preempted") => Some(ReportKind::Preempted),
            Some("finished") => Some(ReportKind::Finished),
            Some("lost") => Some(ReportKind::Lost),
            Some("refused") => Some(ReportKind::Refused),
            Some(other) => return Err(self.corrupt(format!("closed_by {other:?}"))),
        };
        Ok(self.closed_lease.map(|lease| ClosedLease { lease: Lease(lease as u64), by }))
    }

    fn worker(&self) -> Option<WorkerId> {
        self.worker_id.as_ref().map(WorkerId::new)
    }

    fn corrupt(&self, detail: impl Into<String>) -> StoreError {
        StoreError::Corrupt { record: self.id.to_string(), detail: detail.into() }
    }

    fn reason<T: serde::de::DeserializeOwned>(&self) -> Result<T, StoreError> {
        let text = self.reason.as_deref().ok_or_else(|| self.corrupt("no reason"))?;
        serde_json::from_str(text).map_err(|error| self.corrupt(format!("reason: {error}")))
    }

    fn extra(&self) -> Result<Extra, StoreError> {
        let Some(text) = &self.extra else { return Ok(Extra::default()) };
        serde_json::from_str(text).map_err(|error| self.corrupt(format!("extra: {error}")))
    }

    fn member(&self) -> Option<Member> {
        Some(Member {
            set: SetId::from_uuid(self.set_id?),
            step: self.step.as_deref().map(Arc::from),
            index: self.set_index.map(|index| index as u32),
        })
    }

    fn time(&self, value: Option<i64>, column: &str) -> Result<Timestamp, StoreError> {
        value.map(Timestamp::from_micros).ok_or_else(|| self.corrupt(format!("no {column}")))
    }

    fn phase(&self, extra: &Extra) -> Result<Phase, StoreError> {
        let last_heartbeat = self.last_heartbeat.map(Timestamp::from_micros);
        let drain = || self.time(self.drain_started_at, "drain_started_at");
        let ended = || self.time(self.done_at, "done_at");
        Ok(match self.status {
            Status::Pending => Phase::Pending,
            Status::Delayed => {
                Phase::Delayed { until: extra.until.ok_or_else(|| self.corrupt("delayed without an end"))? }
            }
            Status::Held => Phase::Held { until: extra.until },
            Status::Blocked => Phase::Blocked {
                needs: extra
                    .needs
                    .clone()
                    .unwrap_or_else(|| Needs::all_success(self.waiting_on.unwrap_or(0) as u32)),
            },
            Status::Reserved => Phase::Reserved {
                worker: self.worker().ok_or_else(|| self.corrupt("reserved without a worker"))?,
                reserved_at: match (&extra.round, extra.claimed) {
                    (Some(round), true) => round.reserved_at,
                    _ => self.time(self.reserved_at, "reserved_at")?,
                },
                claim: extra
                    .claimed
                    .then_some(Preparation { last_heartbeat, prepared_at: extra.prepared_at }),
            },
            Status::Running => Phase::Running { worker: self.worker(), last_heartbeat },
            Status::Preempting => Phase::Preempting {
                worker: self.worker(),
                last_heartbeat,
                drain_started_at: drain()?,
                stop: self.reason::<StopReason>()?,
                exit_reported_at: extra.exit_reported_at,
            },
            Status::Preempted => Phase::Preempted {
                drain_started_at: drain()?,
                stop: self.reason::<StopReason>()?,
                finished: extra.finished,
            },
            Status::Finished => Phase::Finished {
                at: extra.finished_at.ok_or_else(|| self.corrupt("finished without a time"))?,
            },
            Status::Done => Phase::Done { at: ended()? },
            Status::Failed => Phase::Failed { at: ended()?, reason: self.reason::<EndReason>()? },
            Status::Cancelled => Phase::Cancelled { at: ended()?, reason: self.reason::<EndReason>()? },
        })
    }
}

/// A part of a job that cannot be written is an error: an empty text would be read as another job.
fn json<T: serde::Serialize>(job: &Job, part: &str, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt {
        record: job.id.to_string(),
        detail: format!("{part} cannot be written: {error}"),
    })
}

impl JobRow {
    /// What an update writes. The columns that never change are left empty: to make them up costs more than the rest.
    pub fn changing(job: &Job) -> Result<Self, StoreError> {
        let reason = match &job.phase {
            Phase::Failed { reason, .. } | Phase::Cancelled { reason, .. } => {
                Some(json(job, "reason", reason)?)
            }
            Phase::Preempting { stop, .. } | Phase::Preempted { stop, .. } => {
                Some(json(job, "reason", stop)?)
            }
            _ => None,
        };
        let (waiting_on, reserved_at) = match &job.phase {
            Phase::Blocked { needs } => (Some(needs.unfinished() as i32), None),
            // What is claimed is no longer waited for by that time.
            Phase::Reserved { reserved_at, claim: None, .. } => (None, Some(reserved_at.as_micros())),
            _ => (None, None),
        };
        let micros = |time: Option<Timestamp>| time.map(Timestamp::as_micros);
        Ok(Self {
            id: job.id,
            seq: job.seq as i64,
            status: job.status(),
            priority: job.spec.priority,
            shape: job.shape.0,
            queue: None,
            name: None,
            worker_id: job.worker().or(job.ran_on.as_ref()).map(|worker| worker.as_str().to_owned()),
            attempts: job.attempts as i32,
            lease: job.lease.0 as i64,
            closed_lease: job.closed.map(|closed| closed.lease.0 as i64),
            closed_by: job.closed.and_then(|closed| closed.by).map(closed_by_name),
            waiting_on,
            alarm_at: micros(job.alarm()),
            extra: Extra::of(job)?,
            unique_key: None,
            set_id: None,
            step: None,
            set_index: None,
            concurrency_key: None,
            created_at: job.created_at.as_micros(),
            ready_at: job.ready_at.as_micros(),
            started_at: micros(job.started_at),
            last_heartbeat: micros(job.last_heartbeat()),
            sign_at: (job.must_be_heard() && job.own_lease().is_none())
                .then(|| job.last_sign_of_life().as_micros()),
            lease_ends_at: micros(job.lease_ends_at()),
            reserved_at,
            drain_started_at: micros(job.drain_started_at()),
            done_at: micros(job.done_at()),
            exit_code: job.exit.and_then(|exit| exit.code),
            exit_signal: job.exit.and_then(|exit| exit.signal),
            reason,
            preemption_epoch: job.preemption_epoch as i32,
            reservation_epoch: job.reservation_epoch as i32,
            checkpoint_bytes: job.checkpoint_bytes.map(|bytes| bytes as i64),
            idempotency_key: None,
            gang_id: None,
            gang_index: None,
            rank: job.rank,
            served: job.served.as_micros() as i64,
            waited: job.waited.as_micros() as i64,
            pinned: job.pinned,
            spec: String::new(),
        })
    }
}

impl TryFrom<&Job> for JobRow {
    type Error = StoreError;

    fn try_from(job: &Job) -> Result<Self, StoreError> {
        let (spec, member) = (job.spec.as_ref(), job.member.as_ref());
        Ok(Self {
            queue: spec.queue.as_ref().map(|queue| queue.as_str().to_owned()),
            name: spec.name.clone(),
            unique_key: spec.unique.as_ref().map(|unique| unique.key.clone()),
            set_id: member.map(|member| member.set.as_uuid()),
            step: member.and_then(|member| member.step.as_deref().map(str::to_owned)),
            set_index: member.and_then(|member| member.index).map(|index| index as i32),
            concurrency_key: spec.concurrency.as_ref().map(|limit| limit.key.clone()),
            idempotency_key: spec.idempotency_key.clone(),
            gang_id: spec.gang.as_ref().map(|gang| gang.id.to_string()),
            gang_index: spec.gang.as_ref().map(|gang| gang.index as i32),
            spec: json(job, "spec", spec)?,
            ..Self::changing(job)?
        })
    }
}

/// The GPUs of a job, from what is stored of it apart from columns.
pub fn devices(extra: Option<&str>, id: JobId) -> Result<Option<Grant>, StoreError> {
    let Some(text) = extra else { return Ok(None) };
    let extra: Extra = serde_json::from_str(text)
        .map_err(|error| StoreError::Corrupt { record: id.to_string(), detail: format!("extra: {error}") })?;
    Ok(extra.devices)
}

/// What a worker has and where it is, as one column keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stock {
    #[serde(flatten)]
    pub resources: Resources,
    #[serde(default, rename = "d", skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    #[serde(default, rename = "l", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, rename = "a", skip_serializing_if = "std::ops::Not::not")]
    pub assumed: bool,
    #[serde(default, rename = "i", skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    #[serde(default, rename = "r", skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
}

impl From<&Worker> for Stock {
    fn from(worker: &Worker) -> Self {
        Self {
            resources: worker.resources.clone(),
            devices: worker.devices.clone(),
            labels: worker.labels.clone(),
            assumed: worker.assumed,
            isolation: worker.isolation.clone(),
            run_as: worker.run_as.clone(),
        }
    }
}

/// The specification that a text stands for. Jobs that are read one after another often have the same, as the elements of an
/// array do: a text that was the last one of this thread is not parsed again.
fn specification(text: String) -> Result<Arc<JobSpec>, serde_json::Error> {
    thread_local! {
        static LAST: RefCell<Option<(String, Arc<JobSpec>)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| {
        if let Some((known, spec)) = last
            && *known == text
        {
            return Ok(Arc::clone(spec));
        }
        let spec: Arc<JobSpec> = Arc::new(serde_json::from_str(&text)?);
        *last = Some((text, Arc::clone(&spec)));
        Ok(spec)
    })
}

impl TryFrom<JobRow> for Job {
    type Error = StoreError;

    fn try_from(mut row: JobRow) -> Result<Self, StoreError> {
        let spec = std::mem::take(&mut row.spec);
        let spec = specification(spec).map_err(|error| row.corrupt(format!("spec: {error}")))?;
        let extra = row.extra()?;
        let exit = Exit { code: row.exit_code, signal: row.exit_signal };
        Ok(Self {
            id: row.id,
            seq: row.seq as u64,
            phase: row.phase(&extra)?,
            attempts: row.attempts as u32,
            lease: Lease(row.lease as u64),
            closed: row.closed()?,
            created_at: Timestamp::from_micros(row.created_at),
            ready_at: Timestamp::from_micros(row.ready_at),
            started_at: row.started_at.map(Timestamp::from_micros),
            exit: (exit != Exit::default()).then_some(exit),
            ran_on: row.status.is_terminal().then(|| row.worker()).flatten(),
            preemption_epoch: row.preemption_epoch as u32,
            reservation_epoch: row.reservation_epoch as u32,
            member: row.member(),
            hold: extra.hold,
            tried: extra.tried,
            lost_on: extra.lost_on,
            strays: extra.strays,
            outputs: extra.outputs,
            checkpoint_bytes: row.checkpoint_bytes.map(|bytes| bytes as u64),
            checkpoint_at: extra.checkpoint_at,
            checkpoint_file: extra.checkpoint_file,
            round: extra.round,
            last_worker: extra.last_worker,
            lease_span: extra.lease_span,
            claim_key: extra.claim_key,
            devices: extra.devices,
            stopped_for: extra.stopped_for,
            expected: extra.expected,
            shape: ShapeId(row.shape),
            served: Span::from_micros(row.served as u64),
            waited: Span::from_micros(row.waited as u64),
            spent: extra.spent.map(|last| Box::new(JobSpent { last, earlier: extra.spent_before })),
            image: extra.image,
            pinned: row.pinned,
            rank: row.rank,
            spec,
        })
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{KeptRoom, Unit};

    use super::*;

    #[test]
    fn a_text_that_was_read_before_stands_for_the_same_and_a_wrong_one_changes_nothing() {
        let text = |name: &str| {
            let spec = JobSpec { name: Some(name.to_owned()), ..JobSpec::shell("true") };
            (serde_json::to_string(&spec).unwrap(), spec)
        };
        let ((a, of_a), (b, of_b)) = (text("a"), text("b"));
        for (text, spec) in [(&a, &of_a), (&a, &of_a), (&b, &of_b), (&a, &of_a)] {
            assert_eq!(*specification(text.clone()).unwrap(), *spec);
            assert!(specification("{".to_owned()).is_err());
        }
    }

    #[test]
    fn kept_room_that_was_written_before_there_were_ranks_is_read() {
        let room = KeptRoom {
            unit: Unit::Job(JobId::from_random([1; 16])),
            priority: 5,
            pool: muster_domain::PoolAt::default(),
            rank: 77,
            seq: 10,
            tasks: 1,
            resources: Resources::default(),
            until: None,
            spare: Resources::default(),
            spare_slots: None,
        };
        let mut old = serde_json::to_value(&room).unwrap();
        assert!(old.as_object_mut().unwrap().remove("rank").is_some());
        assert_eq!(serde_json::from_value::<KeptRoom>(old).unwrap(), KeptRoom { rank: 0, ..room });
    }
}
