//! What the statements of a job's life cost, in steps of `SQLite`'s machine: the same number on every computer, however busy.
//!
//! A bound that no longer holds means that a change made every job dearer. Look for the cause with `EXPLAIN`
//! before raising it.

use std::sync::Arc;

use muster_domain::limits::LeaseTerms;
use muster_domain::{
    Caller, Exit, Job, JobId, JobSpec, Phase, ReportKind, Span, Timestamp, Trigger, WorkerId, transition,
};
use rusqlite::{Connection, StatementStatus};

use crate::extent::{Extent, Mark};
use crate::row::{END_JOB, INSERT_JOB, REWRITE_JOB, RUN_JOB, UPDATE_JOB, insert_job, update_job, update_sql};
use crate::{connection, migrations};

fn empty_store(dir: &tempfile::TempDir) -> Connection {
    let mut connection = connection::open_writer(&dir.path().join("costs.db")).unwrap();
    migrations::migrate(&mut connection).unwrap();
    connection
}

/// The names of the machine's instructions that a statement is made of.
fn instructions(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut names = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        names.push(row.get(1).unwrap());
    }
    names
}

#[test]
fn no_index_builds_a_table_when_a_job_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let connection = empty_store(&dir);
    for sql in [INSERT_JOB, RUN_JOB, END_JOB, UPDATE_JOB, REWRITE_JOB] {
        let found = instructions(&connection, sql);
        assert!(found.len() > 20, "{sql}: {found:?}");
        assert!(!found.contains(&"OpenEphemeral".to_owned()), "{sql}");
    }
    connection
        .execute_batch(
            "CREATE INDEX dear ON jobs (seq) WHERE status IN ('reserved', 'running', 'preempting')",
        )
        .unwrap();
    let found = instructions(&connection, UPDATE_JOB);
    assert!(found.contains(&"OpenEphemeral".to_owned()), "the check is blind: {found:?}");
}

#[test]
fn writing_a_job_takes_few_steps() {
    let dir = tempfile::tempdir().unwrap();
    let connection = empty_store(&dir);
    let at = Timestamp::from_micros;
    let mut job =
        Job::new(JobId::from_random([1; 16]), Arc::new(JobSpec::shell("true")), Phase::Pending, at(1));
    job.seq = 1;
    let mut insert = connection.prepare(INSERT_JOB).unwrap();
    insert_job(&mut insert, &job).unwrap();
    let mut steps = vec![insert.reset_status(StatementStatus::VmStep)];
    let steps_of = |before: &Job, after: &Job, expected| {
        let extent = Extent::between(Some(&Mark::of(before)), &Mark::of(after));
        assert_eq!(extent, expected);
        let mut update = connection.prepare(update_sql(extent)).unwrap();
        update_job(&mut update, extent, after).unwrap();
        update.reset_status(StatementStatus::VmStep)
    };
    let before = job.clone();
    let claim = Trigger::Claim {
        worker: Some(WorkerId::new("w")),
        key: None,
        devices: None,
        prepares: false,
        terms: Some(LeaseTerms { shortest: Span::from_secs(30), keep: Span::from_secs(180) }),
    };
    transition(&mut job, &claim, at(2)).unwrap();
    steps.push(steps_of(&before, &job, Extent::Run));
    let before = job.clone();
    let caller = Caller { lease: Some(job.lease), worker: None };
    let exit = Exit { code: Some(0), signal: None };
    let done =
        Trigger::Report { caller, kind: ReportKind::Done, exit, message: None, outputs: None, spent: None };
    transition(&mut job, &done, at(3)).unwrap();
    steps.push(steps_of(&before, &job, Extent::End));
    let bounds = [185, 156, 178];
    assert!(steps.iter().zip(bounds).all(|(steps, bound)| *steps <= bound), "submit, claim, done: {steps:?}");
}
