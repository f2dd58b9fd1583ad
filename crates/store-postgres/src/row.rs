//! Rows of the database as values of the domain, and back. The only file that knows column positions.
//!
//! Guarantee: what is written here is read back equal, except that the character NUL, which `PostgreSQL`
//! cannot hold in a text, is replaced in names (a specification keeps it: its JSON writes it escaped).

use std::borrow::Cow;

use muster_domain::{
    By, Event, Health, Job, JobId, Ports, Shape, ShapeId, Status, Timestamp, Worker, WorkerId, WorkerStatus,
};
use muster_store::row::{JobRow, Stock};
use muster_store::{StoreError, event_text};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::{corrupt, during, failed};

/// The columns of a job, in the order in which [`read_job`] takes them. Prefixed, so that joins can use it.
pub(crate) const JOB_COLUMNS: &str = "jobs.seq, jobs.id, jobs.status, jobs.priority, jobs.shape, \
    jobs.attempts, jobs.lease, jobs.preemption_epoch, jobs.reservation_epoch, jobs.created_at, jobs.ready_at, \
    jobs.started_at, jobs.last_heartbeat, jobs.sign_at, jobs.reserved_at, jobs.drain_started_at, jobs.done_at, \
    jobs.waiting_on, jobs.closed_lease, jobs.closed_by, jobs.exit_code, jobs.exit_signal, \
    jobs.checkpoint_bytes, jobs.worker_id, jobs.queue, jobs.name, jobs.idempotency_key, jobs.gang_id, \
    jobs.reason, jobs.spec, jobs.alarm_at, jobs.extra, jobs.concurrency_key, jobs.unique_key, \
    jobs.set_id, jobs.step, jobs.set_index, jobs.rank, jobs.served, jobs.waited, jobs.pinned, jobs.lease_ends_at";

/// How many they are: where what a query adds to them begins.
pub(crate) const JOB_COLUMN_COUNT: usize = 42;

/// Rows as columns: what `unnest` takes.
pub(crate) fn column<'r, T>(rows: &'r [JobRow], value: impl Fn(&'r JobRow) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

pub(crate) fn job_rows(jobs: &[Job]) -> Result<Vec<JobRow>, StoreError> {
    jobs.iter().map(JobRow::try_from).collect()
}

pub(crate) fn uuids(ids: &[JobId]) -> Vec<Uuid> {
    ids.iter().map(JobId::as_uuid).collect()
}

pub(crate) fn worker_names(ids: &[WorkerId]) -> Vec<Cow<'_, str>> {
    ids.iter().map(|id| storable(id.as_str())).collect()
}

/// The text without the one character that a column of text refuses.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[expect(clippy::ref_option, reason = "called on fields of a borrowed row")]
pub(crate) fn storable_option(text: &Option<String>) -> Option<Cow<'_, str>> {
    text.as_deref().map(storable)
}

/// The same in place.
pub(crate) fn make_storable(text: &mut Option<String>) {
    if let Some(text) = text.as_mut().filter(|text| text.contains('\0')) {
        *text = storable(text).into_owned();
    }
}

pub(crate) fn read_jobs(rows: &[Row]) -> Result<Vec<Job>, StoreError> {
    rows.iter().map(read_job).collect()
}

fn read_job(row: &Row) -> Result<Job, StoreError> {
    let (status, closed_by, row) = read_job_row(row).map_err(during("read a job"))?;
    let record = || row.id.to_string();
    let status = Status::parse(&status).ok_or_else(|| corrupt(record(), format!("status {status:?}")))?;
    let closed_by = match closed_by {
        None => None,
        Some(text) => Some(
            JobRow::parse_closed_by(&text).ok_or_else(|| corrupt(record(), format!("closed_by {text:?}")))?,
        ),
    };
    Job::try_from(JobRow { status, closed_by, ..row })
}

/// Everything as it is stored; the two texts that have to be checked come apart.
fn read_job_row(row: &Row) -> Result<(String, Option<String>, JobRow), tokio_postgres::Error> {
    let values = JobRow {
        seq: row.try_get(0)?,
        id: JobId::from_uuid(row.try_get(1)?),
        status: Status::Pending,
        priority: row.try_get(3)?,
        shape: row.try_get(4)?,
        attempts: row.try_get(5)?,
        lease: row.try_get(6)?,
        preemption_epoch: row.try_get(7)?,
        reservation_epoch: row.try_get(8)?,
        created_at: row.try_get(9)?,
        ready_at: row.try_get(10)?,
        started_at: row.try_get(11)?,
        last_heartbeat: row.try_get(12)?,
        sign_at: row.try_get(13)?,
        reserved_at: row.try_get(14)?,
        drain_started_at: row.try_get(15)?,
        done_at: row.try_get(16)?,
        waiting_on: row.try_get(17)?,
        closed_lease: row.try_get(18)?,
        closed_by: None,
        exit_code: row.try_get(20)?,
        exit_signal: row.try_get(21)?,
        checkpoint_bytes: row.try_get(22)?,
        worker_id: row.try_get(23)?,
        queue: row.try_get(24)?,
        name: row.try_get(25)?,
        idempotency_key: row.try_get(26)?,
        gang_id: row.try_get(27)?,
        // The specification has it too.
        gang_index: None,
        reason: row.try_get(28)?,
        spec: row.try_get(29)?,
        alarm_at: row.try_get(30)?,
        extra: row.try_get(31)?,
        concurrency_key: row.try_get(32)?,
        unique_key: row.try_get(33)?,
        set_id: row.try_get(34)?,
        step: row.try_get(35)?,
        set_index: row.try_get(36)?,
        rank: row.try_get(37)?,
        served: row.try_get(38)?,
        waited: row.try_get(39)?,
        pinned: row.try_get(40)?,
        lease_ends_at: row.try_get(41)?,
    };
    Ok((row.try_get(2)?, row.try_get(19)?, values))
}

/// Job ids from rows whose only column they are.
pub(crate) fn read_ids(operation: &'static str, rows: &[Row]) -> Result<Vec<JobId>, StoreError> {
    rows.iter().map(|row| row.try_get(0).map(JobId::from_uuid).map_err(during(operation))).collect()
}

/// The columns of a worker, in the order of [`read_worker`].
pub(crate) const WORKER_COLUMNS: &str = "id, exec_addr, resources, tags, slots, hostname, version, status, \
    last_heartbeat, registered_at, health, ports, kept";

pub(crate) fn read_worker(row: &Row) -> Result<Worker, StoreError> {
    let fail = during("read a worker");
    let id: String = row.try_get(0).map_err(&fail)?;
    let json = |column: usize| row.try_get::<_, String>(column).map_err(&fail);
    let slots: Option<i64> = row.try_get(4).map_err(&fail)?;
    let status: String = row.try_get(7).map_err(&fail)?;
    let known = [WorkerStatus::Active, WorkerStatus::Offline];
    let status = known.into_iter().find(|known| known.as_str() == status);
    let stock: Stock = from_json(&json(2)?, &id)?;
    Ok(Worker {
        exec_addr: row.try_get(1).map_err(&fail)?,
        resources: stock.resources,
        devices: stock.devices,
        labels: stock.labels,
        isolation: stock.isolation,
        run_as: stock.run_as,
        tags: from_json(&json(3)?, &id)?,
        slots: slots.map(|slots| slots as u32),
        hostname: row.try_get(5).map_err(&fail)?,
        version: row.try_get(6).map_err(&fail)?,
        status: status.ok_or_else(|| corrupt(format!("worker {id}"), "unknown status"))?,
        last_heartbeat: Timestamp::from_micros(row.try_get(8).map_err(&fail)?),
        registered_at: Timestamp::from_micros(row.try_get(9).map_err(&fail)?),
        assumed: stock.assumed,
        health: match row.try_get::<_, Option<String>>(10).map_err(&fail)? {
            Some(text) => from_json(&text, &id)?,
            None => Health::default(),
        },
        ports: match row.try_get::<_, Option<String>>(11).map_err(&fail)? {
            Some(text) => from_json(&text, &id)?,
            None => Ports::default(),
        },
        kept: match row.try_get::<_, Option<String>>(12).map_err(&fail)? {
            Some(text) => Some(from_json(&text, &id)?),
            None => None,
        },
        id: WorkerId::new(id),
    })
}

/// An event of a row of `seq, at, job's id, worker_id, kind`.
pub(crate) fn read_event(row: &Row) -> Result<Event, StoreError> {
    let fail = during("read an event");
    let seq: i64 = row.try_get(0).map_err(&fail)?;
    let kind: String = row.try_get(4).map_err(&fail)?;
    let (kind, measured) =
        event_text::read(&kind).map_err(|error| corrupt(format!("event {seq}"), error.to_string()))?;
    Ok(Event {
        seq: seq as u64,
        at: Timestamp::from_micros(row.try_get(1).map_err(&fail)?),
        job: row.try_get::<_, Option<Uuid>>(2).map_err(&fail)?.map(JobId::from_uuid),
        worker: row.try_get::<_, Option<String>>(3).map_err(&fail)?.map(WorkerId::new),
        noted_by: row.try_get::<_, Option<String>>(5).map_err(&fail)?.as_deref().and_then(By::parse),
        measured,
        kind,
    })
}

/// A shape of a row of `id, requirement`.
pub(crate) fn read_shape(row: &Row) -> Result<(ShapeId, Shape), StoreError> {
    let fail = during("read a shape");
    let id: i64 = row.try_get(0).map_err(&fail)?;
    let text: String = row.try_get(1).map_err(&fail)?;
    Ok((ShapeId(id), from_json(&text, &format!("shape {id}"))?))
}

pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| failed("write JSON", error.to_string()))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str, record: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt(record, error.to_string()))
}

/// A limit as SQL takes it.
pub(crate) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
