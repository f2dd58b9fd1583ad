//! Rows of the database as values of the domain, and back. The only file that knows column positions.
//!
//! Guarantee: what is written here is read back equal.

use muster_domain::{
    By, Event, Health, Job, JobId, Ports, Shape, ShapeId, Status, Timestamp, Worker, WorkerId, WorkerStatus,
};
use muster_store::row::{JobRow, Stock};
use muster_store::{StoreError, event_text};
use rusqlite::{Row, Statement, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::{corrupt, during, failed};
use crate::extent::Extent;

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

pub(crate) const INSERT_JOB: &str = "INSERT INTO jobs (seq, id, status, priority, shape, attempts, lease, \
    preemption_epoch, reservation_epoch, created_at, ready_at, started_at, last_heartbeat, sign_at, reserved_at, \
    drain_started_at, done_at, waiting_on, closed_lease, closed_by, exit_code, exit_signal, checkpoint_bytes, \
    worker_id, queue, name, idempotency_key, gang_id, reason, spec, alarm_at, extra, concurrency_key, \
    unique_key, set_id, step, set_index, gang_index, rank, served, waited, pinned, \
    lease_ends_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
    ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, \
    ?31, ?32, ?33, ?34, ?35, ?36, ?37, ?38, ?39, ?40, ?41, ?42, ?43)";

pub(crate) const RUN_JOB: &str = "UPDATE jobs SET status = ?2, attempts = ?3, lease = ?4, ready_at = ?5, \
    started_at = ?6, last_heartbeat = ?7, sign_at = ?8, worker_id = ?9, extra = ?10, rank = ?11, served = ?12, \
    waited = ?13, lease_ends_at = ?14 WHERE seq = ?1";

pub(crate) const END_JOB: &str = "UPDATE jobs SET status = ?2, attempts = ?3, lease = ?4, ready_at = ?5, \
    started_at = ?6, last_heartbeat = ?7, sign_at = ?8, worker_id = ?9, extra = ?10, rank = ?11, served = ?12, \
    waited = ?13, done_at = ?14, closed_lease = ?15, closed_by = ?16, exit_code = ?17, exit_signal = ?18, \
    lease_ends_at = ?19 WHERE seq = ?1";

/// Names all that may change; indexes on the rest are left alone.
pub(crate) const UPDATE_JOB: &str = "UPDATE jobs SET status = ?2, attempts = ?3, lease = ?4, \
    preemption_epoch = ?5, reservation_epoch = ?6, ready_at = ?7, started_at = ?8, last_heartbeat = ?9, \
    sign_at = ?10, reserved_at = ?11, drain_started_at = ?12, done_at = ?13, waiting_on = ?14, \
    closed_lease = ?15, closed_by = ?16, exit_code = ?17, exit_signal = ?18, checkpoint_bytes = ?19, \
    worker_id = ?20, reason = ?21, alarm_at = ?22, extra = ?23, \
    rank = ?24, served = ?25, waited = ?26, pinned = ?27, lease_ends_at = ?28 WHERE seq = ?1";

/// What changes only when a waiting job is edited.
pub(crate) const REWRITE_JOB: &str = "UPDATE jobs SET priority = ?2, shape = ?3, alarm_at = ?4, spec = ?5, \
    rank = ?6 WHERE seq = ?1";

pub(crate) const fn id_bytes(id: JobId) -> [u8; 16] {
    id.as_uuid().into_bytes()
}

pub(crate) fn insert_job(statement: &mut Statement<'_>, job: &Job) -> Result<(), StoreError> {
    let row = JobRow::try_from(job)?;
    let inserted = statement.execute(params![
        row.seq,
        id_bytes(row.id),
        row.status.as_str(),
        row.priority,
        row.shape,
        row.attempts,
        row.lease,
        row.preemption_epoch,
        row.reservation_epoch,
        row.created_at,
        row.ready_at,
        row.started_at,
        row.last_heartbeat,
        row.sign_at,
        row.reserved_at,
        row.drain_started_at,
        row.done_at,
        row.waiting_on,
        row.closed_lease,
        row.closed_by,
        row.exit_code,
        row.exit_signal,
        row.checkpoint_bytes,
        row.worker_id,
        row.queue,
        row.name,
        row.idempotency_key,
        row.gang_id,
        row.reason,
        row.spec,
        row.alarm_at,
        row.extra,
        row.concurrency_key,
        row.unique_key,
        row.set_id.map(Uuid::into_bytes),
        row.step,
        row.set_index,
        row.gang_index,
        row.rank,
        row.served,
        row.waited,
        row.pinned,
        row.lease_ends_at,
    ]);
    inserted.map(|_| ()).map_err(during("insert jobs"))
}

/// The statement that names so many columns.
pub(crate) const fn update_sql(extent: Extent) -> &'static str {
    match extent {
        Extent::Run => RUN_JOB,
        Extent::End => END_JOB,
        Extent::All => UPDATE_JOB,
    }
}

/// Writes that much of a job with the statement for it; an error when there is no such job.
pub(crate) fn update_job(statement: &mut Statement<'_>, extent: Extent, job: &Job) -> Result<(), StoreError> {
    let row = JobRow::changing(job)?;
    let updated = match extent {
        Extent::Run => write_run(statement, &row),
        Extent::End => write_end(statement, &row),
        Extent::All => write_all(statement, &row),
    };
    match updated.map_err(during("update jobs"))? {
        1 => Ok(()),
        _ => Err(failed("update jobs", format!("{} is not stored", job.id))),
    }
}

fn write_run(statement: &mut Statement<'_>, row: &JobRow) -> Result<usize, rusqlite::Error> {
    statement.execute(params![
        row.seq,
        row.status.as_str(),
        row.attempts,
        row.lease,
        row.ready_at,
        row.started_at,
        row.last_heartbeat,
        row.sign_at,
        row.worker_id,
        row.extra,
        row.rank,
        row.served,
        row.waited,
        row.lease_ends_at,
    ])
}

fn write_end(statement: &mut Statement<'_>, row: &JobRow) -> Result<usize, rusqlite::Error> {
    statement.execute(params![
        row.seq,
        row.status.as_str(),
        row.attempts,
        row.lease,
        row.ready_at,
        row.started_at,
        row.last_heartbeat,
        row.sign_at,
        row.worker_id,
        row.extra,
        row.rank,
        row.served,
        row.waited,
        row.done_at,
        row.closed_lease,
        row.closed_by,
        row.exit_code,
        row.exit_signal,
        row.lease_ends_at,
    ])
}

fn write_all(statement: &mut Statement<'_>, row: &JobRow) -> Result<usize, rusqlite::Error> {
    statement.execute(params![
        row.seq,
        row.status.as_str(),
        row.attempts,
        row.lease,
        row.preemption_epoch,
        row.reservation_epoch,
        row.ready_at,
        row.started_at,
        row.last_heartbeat,
        row.sign_at,
        row.reserved_at,
        row.drain_started_at,
        row.done_at,
        row.waiting_on,
        row.closed_lease,
        row.closed_by,
        row.exit_code,
        row.exit_signal,
        row.checkpoint_bytes,
        row.worker_id,
        row.reason,
        row.alarm_at,
        row.extra,
        row.rank,
        row.served,
        row.waited,
        row.pinned,
        row.lease_ends_at,
    ])
}

/// Writes what an edit changes.
pub(crate) fn rewrite_job(statement: &mut Statement<'_>, job: &Job) -> Result<(), StoreError> {
    let row = JobRow::try_from(job)?;
    let rewritten =
        statement.execute(params![row.seq, row.priority, row.shape, row.alarm_at, row.spec, row.rank]);
    rewritten.map(|_| ()).map_err(during("rewrite jobs"))
}

pub(crate) fn read_job(row: &Row<'_>) -> Result<Job, StoreError> {
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
fn read_job_row(row: &Row<'_>) -> Result<(String, Option<String>, JobRow), rusqlite::Error> {
    let values = JobRow {
        seq: row.get(0)?,
        id: job_id(row, 1)?,
        status: Status::Pending,
        priority: row.get(3)?,
        shape: row.get(4)?,
        attempts: row.get(5)?,
        lease: row.get(6)?,
        preemption_epoch: row.get(7)?,
        reservation_epoch: row.get(8)?,
        created_at: row.get(9)?,
        ready_at: row.get(10)?,
        started_at: row.get(11)?,
        last_heartbeat: row.get(12)?,
        sign_at: row.get(13)?,
        reserved_at: row.get(14)?,
        drain_started_at: row.get(15)?,
        done_at: row.get(16)?,
        waiting_on: row.get(17)?,
        closed_lease: row.get(18)?,
        closed_by: None,
        exit_code: row.get(20)?,
        exit_signal: row.get(21)?,
        checkpoint_bytes: row.get(22)?,
        worker_id: row.get(23)?,
        queue: row.get(24)?,
        name: row.get(25)?,
        idempotency_key: row.get(26)?,
        gang_id: row.get(27)?,
        // The specification has it too.
        gang_index: None,
        reason: row.get(28)?,
        spec: row.get(29)?,
        alarm_at: row.get(30)?,
        extra: row.get(31)?,
        concurrency_key: row.get(32)?,
        unique_key: row.get(33)?,
        set_id: row.get::<_, Option<[u8; 16]>>(34)?.map(Uuid::from_bytes),
        step: row.get(35)?,
        set_index: row.get(36)?,
        rank: row.get(37)?,
        served: row.get(38)?,
        waited: row.get(39)?,
        pinned: row.get(40)?,
        lease_ends_at: row.get(41)?,
    };
    Ok((row.get(2)?, row.get(19)?, values))
}

/// A job's id from a column of 16 bytes.
pub(crate) fn job_id(row: &Row<'_>, column: usize) -> Result<JobId, rusqlite::Error> {
    Ok(JobId::from_uuid(Uuid::from_bytes(row.get(column)?)))
}

/// The columns of a worker, in the order of [`read_worker`] and [`insert_worker`].
pub(crate) const WORKER_COLUMNS: &str = "id, exec_addr, resources, tags, slots, hostname, version, status, \
    last_heartbeat, registered_at, health, ports, kept";

pub(crate) fn insert_worker(statement: &mut Statement<'_>, worker: &Worker) -> Result<(), StoreError> {
    let inserted = statement.execute(params![
        worker.id.as_str(),
        worker.exec_addr,
        to_json(&Stock::from(worker))?,
        to_json(&worker.tags)?,
        worker.slots,
        worker.hostname,
        worker.version,
        worker.status.as_str(),
        worker.last_heartbeat.as_micros(),
        worker.registered_at.as_micros(),
        if worker.health.is_clean() { None } else { Some(to_json(&worker.health)?) },
        if worker.ports.is_empty() { None } else { Some(to_json(&worker.ports)?) },
        worker.kept.as_ref().map(to_json).transpose()?,
    ]);
    inserted.map(|_| ()).map_err(during("put workers"))
}

pub(crate) fn read_worker(row: &Row<'_>) -> Result<Worker, StoreError> {
    let fail = during("read a worker");
    let id: String = row.get(0).map_err(&fail)?;
    let json = |column| row.get::<_, String>(column).map_err(&fail);
    let status: String = row.get(7).map_err(&fail)?;
    let known = [WorkerStatus::Active, WorkerStatus::Offline];
    let status = known.into_iter().find(|known| known.as_str() == status);
    let stock: Stock = from_json(&json(2)?, &id)?;
    Ok(Worker {
        exec_addr: row.get(1).map_err(&fail)?,
        resources: stock.resources,
        devices: stock.devices,
        labels: stock.labels,
        isolation: stock.isolation,
        run_as: stock.run_as,
        tags: from_json(&json(3)?, &id)?,
        slots: row.get(4).map_err(&fail)?,
        hostname: row.get(5).map_err(&fail)?,
        version: row.get(6).map_err(&fail)?,
        status: status.ok_or_else(|| corrupt(format!("worker {id}"), "unknown status"))?,
        last_heartbeat: Timestamp::from_micros(row.get(8).map_err(&fail)?),
        registered_at: Timestamp::from_micros(row.get(9).map_err(&fail)?),
        assumed: stock.assumed,
        health: match row.get::<_, Option<String>>(10).map_err(&fail)? {
            Some(text) => from_json(&text, &id)?,
            None => Health::default(),
        },
        ports: match row.get::<_, Option<String>>(11).map_err(&fail)? {
            Some(text) => from_json(&text, &id)?,
            None => Ports::default(),
        },
        kept: match row.get::<_, Option<String>>(12).map_err(&fail)? {
            Some(text) => Some(from_json(&text, &id)?),
            None => None,
        },
        id: WorkerId::new(id),
    })
}

/// An event of a row of `seq, at, job's id, worker_id, kind`.
pub(crate) fn read_event(row: &Row<'_>) -> Result<Event, StoreError> {
    let fail = during("read an event");
    let seq: i64 = row.get(0).map_err(&fail)?;
    let job: Option<[u8; 16]> = row.get(2).map_err(&fail)?;
    let kind: String = row.get(4).map_err(&fail)?;
    let (kind, measured) =
        event_text::read(&kind).map_err(|error| corrupt(format!("event {seq}"), error.to_string()))?;
    Ok(Event {
        seq: seq as u64,
        at: Timestamp::from_micros(row.get(1).map_err(&fail)?),
        job: job.map(|bytes| JobId::from_uuid(Uuid::from_bytes(bytes))),
        worker: row.get::<_, Option<String>>(3).map_err(&fail)?.map(WorkerId::new),
        noted_by: row.get::<_, Option<String>>(5).map_err(&fail)?.as_deref().and_then(By::parse),
        measured,
        kind,
    })
}

/// A shape of a row of `id, requirement`.
pub(crate) fn read_shape(row: &Row<'_>) -> Result<(ShapeId, Shape), StoreError> {
    let fail = during("read a shape");
    let id: i64 = row.get(0).map_err(&fail)?;
    let text: String = row.get(1).map_err(&fail)?;
    Ok((ShapeId(id), from_json(&text, &format!("shape {id}"))?))
}

pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| failed("write JSON", error.to_string()))
}

pub(crate) fn from_json<T: DeserializeOwned>(text: &str, record: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|error| corrupt(record, error.to_string()))
}
