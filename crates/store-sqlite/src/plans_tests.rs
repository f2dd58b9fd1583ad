//! No primitive reads all jobs, and none is prepared anew for each call: every statement that the engine's verbs lead
//! to is explained and checked.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use muster_domain::{
    Event, EventKind, Job, JobId, JobSet, JobSpec, Phase, QueueName, Rule, SetId, SetKind, Shape, Span,
    Status, Timestamp, WorkerId,
};
use muster_store::{Edge, EventFilter, JobFilter, SetFilter, Tx};
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, StatementStatus};

use crate::connection::{ready, write};
use crate::tx::SqliteTx;
use crate::{connection, migrations};

async fn every_primitive(tx: &mut SqliteTx<'_>) -> Result<(), muster_store::StoreError> {
    let (now, worker) = (Timestamp::from_micros(1), WorkerId::new("w"));
    let job = |byte, phase| {
        let id = JobId::from_random([byte; 16]);
        Job::new(id, Arc::new(JobSpec::shell("x")), phase, now)
    };
    let mut jobs =
        [job(1, Phase::Pending), job(2, Phase::Blocked { needs: muster_domain::Needs::all_success(1) })];
    tx.insert_jobs(&mut jobs).await?;
    let ids = [jobs[0].id, jobs[1].id];
    let shape = jobs[0].shape;
    tx.insert_shapes(&[(shape, Shape::default())]).await?;
    tx.insert_edges(&[Edge { parent: ids[0], child: ids[1], rule: Rule::AllDone }]).await?;
    tx.append_events(&mut [Event::of_job(ids[0], now, EventKind::Unblocked)]).await?;
    tx.put_checkpoint(ids[0], &[0]).await?;
    tx.update_jobs(&jobs).await?;
    assert_eq!(tx.pending_shapes().await?.len(), 1);
    assert_eq!(tx.lock_heads(&[shape], 5).await?.len(), 1);
    assert_eq!(tx.heads(&[shape]).await?.len(), 1);
    assert_eq!(tx.line_heads(5).await?.len(), 1);
    assert_eq!(tx.pinned_jobs().await?.len(), 0);
    assert_eq!(tx.unfinished_after(0, 5).await?.len(), 2);
    tx.note_ranked_by("x").await?;
    assert_eq!(tx.ranked_by().await?.as_deref(), Some("x"));
    assert_eq!(tx.dependants(&ids).await?.len(), 1);
    tx.lock_jobs(&ids).await?;
    tx.jobs_by_key(&["k".to_owned()]).await?;
    tx.shapes(&[shape]).await?;
    tx.rewrite_jobs(&jobs).await?;
    tx.lock_unique(&["k".to_owned()]).await?;
    tx.lock_keys(&["k".to_owned()]).await?;
    tx.holders_of_key("k", 5).await?;
    let queues = [QueueName::new("q")];
    tx.lock_trees(&queues).await?;
    tx.held_by_queue(&queues).await?;
    tx.waiting_by_shape(&[shape], &queues).await?;
    tx.alarms(now, 5).await?;
    sets(tx).await?;
    gangs(tx, &ids, &worker, now).await?;
    tx.count_ahead(&jobs[0], &[shape]).await?;
    tx.usage(std::slice::from_ref(&worker)).await?;
    tx.held_jobs(std::slice::from_ref(&worker)).await?;
    tx.stopping_jobs(std::slice::from_ref(&worker)).await?;
    tx.silent_jobs(now, 5).await?;
    tx.overdue_stops(now, 5).await?;
    tx.ended_leases(now, Span::from_secs(1), 5).await?;
    tx.lease_ends(now).await?;
    tx.oldest().await?;
    tx.finished_jobs(now, 5).await?;
    tx.lock_workers(&[worker]).await?;
    tx.counts().await?;
    for statuses in [
        vec![Status::Running],
        vec![Status::Pending, Status::Held, Status::Running],
        vec![Status::Failed, Status::Cancelled],
    ] {
        tx.list_jobs(&JobFilter { statuses, limit: Some(5), ..JobFilter::default() }).await?;
    }
    tx.events(&EventFilter { job: Some(ids[0]), after: 0, limit: 5 }).await?;
    tx.events(&EventFilter { job: None, after: 0, limit: 5 }).await?;
    tx.last_event().await?;
    tx.checkpoints(&ids).await?;
    tx.delete_jobs(&ids).await
}

async fn gangs(
    tx: &mut SqliteTx<'_>,
    ids: &[JobId],
    worker: &WorkerId,
    now: Timestamp,
) -> Result<(), muster_store::StoreError> {
    let gang = muster_domain::GangId::from_random([7; 16]);
    tx.gang_tasks(&[gang]).await?;
    tx.siblings(ids).await?;
    tx.waiting_gangs(5).await?;
    tx.stale_gangs(now, 5).await?;
    tx.lock_reserved(std::slice::from_ref(worker)).await?;
    tx.running_jobs(worker).await?;
    tx.held_jobs(std::slice::from_ref(worker)).await?;
    tx.gangs(None, 5).await?;
    assert_eq!(tx.secret("first").await?, tx.secret("second").await?);
    Ok(())
}

async fn sets(tx: &mut SqliteTx<'_>) -> Result<(), muster_store::StoreError> {
    let id = SetId::from_random([9; 16]);
    let set = JobSet {
        id,
        seq: 0,
        kind: SetKind::Array,
        name: None,
        created_at: Timestamp::from_micros(1),
        size: 1,
        max_parallel: None,
        idempotency_key: Some("k".to_owned()),
        outline: Vec::new(),
    };
    tx.insert_sets(&mut [set]).await?;
    let sets = tx.lock_sets(&[id]).await?;
    assert_eq!(sets.len(), 1);
    tx.update_sets(&sets).await?;
    tx.count_sets(&[id]).await?;
    tx.list_jobs(&JobFilter { set: Some(id), limit: Some(5), ..JobFilter::default() }).await?;
    for filter in [
        SetFilter { ids: vec![id], ..SetFilter::default() },
        SetFilter { idempotency_key: Some("k".to_owned()), ..SetFilter::default() },
    ] {
        assert_eq!(tx.sets(&filter).await?.len(), 1);
    }
    assert_eq!(tx.delete_empty_sets(Timestamp::from_micros(2), 5).await?, 1);
    Ok(())
}

/// The steps of a statement that go over a table of jobs, edges or events without an index that is made
/// for a part of it.
fn scans(connection: &Connection, sql: &str) -> Vec<String> {
    const PARTIAL: [&str; 14] = [
        "jobs_pinned",
        "jobs_gang",
        "jobs_gang_waiting",
        "jobs_gang_first",
        "jobs_reserved",
        "jobs_pending",
        "jobs_waiting",
        "jobs_held",
        "jobs_sign",
        "jobs_drain",
        "jobs_done",
        "jobs_alarm",
        "jobs_unfinished",
        "jobs_unsuccessful",
    ];
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let step: String = row.get(3).unwrap();
        let whole_table = ["SCAN jobs", "SCAN edges", "SCAN events", "SCAN child"];
        if whole_table.iter().any(|start| step.starts_with(start))
            && !PARTIAL.iter().any(|index| step.contains(index))
        {
            steps.push(step);
        }
    }
    steps
}

#[test]
fn no_primitive_reads_all_jobs_or_is_prepared_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut connection = connection::open_writer(&dir.path().join("plans.db")).unwrap();
    migrations::migrate(&mut connection).unwrap();
    let texts: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let noted = Arc::clone(&texts);
    let note = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(statement, _) = event {
            noted.lock().unwrap().insert(statement.sql().into_owned());
        }
    };
    connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note)).unwrap();
    for _ in 0..3 {
        write(&connection, |tx| ready(every_primitive(tx))).unwrap();
    }
    connection.trace_v2(TraceEventCodes::empty(), None::<fn(TraceEvent<'_>)>).unwrap();
    let mut seen = std::mem::take(&mut *texts.lock().unwrap());
    seen.retain(|sql| !["BEGIN", "COMMIT"].iter().any(|word| sql.starts_with(word)));
    assert!(seen.len() > 30, "{seen:#?}");
    assert!(seen.len() < connection::STATEMENTS, "{} texts do not fit into the cache", seen.len());
    for sql in seen {
        let again = connection.prepare_cached(&sql).unwrap().get_status(StatementStatus::RePrepare);
        assert_eq!(again, 0, "{sql} was prepared {again} times more");
        let scans = scans(&connection, &sql);
        assert!(scans.is_empty(), "{sql}\n{scans:#?}");
    }
    assert!(
        !scans(&connection, "SELECT count(*) FROM jobs WHERE name = 'x'").is_empty(),
        "the check is blind"
    );
}
