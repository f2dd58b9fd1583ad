//! No primitive reads all jobs: the rows that each of them touches are counted, with statistics and without.

use muster_domain::{Job, JobId, JobSpec, Phase, QueueName, ShapeId, Status, Timestamp, WorkerId};
use muster_pg_testkit::Postgres;
use muster_store::{EventFilter, JobFilter, Tx};
use uuid::Uuid;

use crate::migrations;
use crate::pool::{self, PostgresOptions};
use crate::tx::{PostgresTx, Scope};

/// Thousands of jobs that wait and that are done, and ten of each other kind.
const SEED: &str = "INSERT INTO jobs (id, shape, lease, created_at, ready_at, priority, rank, attempts, \
        preemption_epoch, reservation_epoch, status, spec, worker_id, sign_at, drain_started_at, done_at, reason, queue) \
    SELECT md5(n::text)::uuid, n % 3, 0, 0, 0, n % 2, 1 - n % 2, 0, 0, 0, status, \
        '{\"p\":{\"sh\":\"x\"},\"max_attempts\":1}', \
        CASE WHEN status IN ('running', 'preempting') THEN 'w' END, \
        CASE WHEN status = 'running' THEN n END, CASE WHEN status = 'preempting' THEN n END, \
        CASE WHEN status = 'done' THEN n END, \
        CASE WHEN status = 'preempting' THEN '{\"Cancel\":{\"message\":null}}' END, \
        CASE WHEN n % 2 = 1 THEN 'q' END \
    FROM (SELECT n, CASE WHEN n % 800 = 1 THEN 'running' WHEN n % 800 = 2 THEN 'preempting' \
            WHEN n % 800 = 3 THEN 'blocked' WHEN n % 2 = 0 THEN 'pending' ELSE 'done' END AS status \
          FROM generate_series(1, 8000) n) AS seed; \
    INSERT INTO ids SELECT id, seq FROM jobs; \
    INSERT INTO shapes SELECT n, '{\"resources\":{},\"tags\":[]}' FROM generate_series(0, 2) n; \
    INSERT INTO events (at, job, kind) SELECT 0, seq, '{\"type\":\"unblocked\"}' FROM jobs; \
    INSERT INTO edges SELECT seq, seq + 1 FROM jobs WHERE seq <= 10 OR seq > 4000";

async fn rows_read(tx: &mut PostgresTx) -> i64 {
    let sql = "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint \
               FROM pg_stat_xact_user_tables";
    tx.query("count", sql, &[]).await.unwrap()[0].get(0)
}

/// Asserts that `call` on `tx` reads at most `bound` rows.
macro_rules! reads_at_most {
    ($bound:expr, $tx:ident.$call:ident($($argument:expr),*)) => {{
        let before = rows_read(&mut $tx).await;
        let result = $tx.$call($($argument),*).await.unwrap();
        let read = rows_read(&mut $tx).await - before;
        assert!(read <= $bound, "{} read {read} rows", stringify!($call));
        result
    }};
}

async fn check(mut tx: PostgresTx) {
    let id = |n: u32| JobId::from_uuid(Uuid::from_bytes(md5_of(n)));
    let (ids, workers, late) = ([id(1), id(2)], [WorkerId::new("w")], Timestamp::from_micros(1 << 40));
    let jobs = reads_at_most!(4, tx.lock_jobs(&ids));
    assert_eq!(jobs.len(), 2);
    reads_at_most!(4, tx.read_jobs(&ids));
    reads_at_most!(2, tx.update_jobs(&jobs));
    assert_eq!(reads_at_most!(6, tx.dependants(&ids)).len(), 2);
    assert_eq!(reads_at_most!(12, tx.pending_shapes()).len(), 3);
    let shapes = [ShapeId(0), ShapeId(1)];
    assert_eq!(reads_at_most!(20, tx.lock_heads(&shapes, 5)).len(), 10);
    assert_eq!(reads_at_most!(20, tx.heads(&shapes)).len(), 2);
    assert_eq!(reads_at_most!(20, tx.line_heads(10)).len(), 3);
    assert_eq!(reads_at_most!(0, tx.pinned_jobs()).len(), 0);
    assert_eq!(reads_at_most!(10, tx.unfinished_after(1, 3)).len(), 3);
    reads_at_most!(0, tx.jobs_by_key(&["k".to_owned()]));
    reads_at_most!(2, tx.shapes(&shapes));
    assert_eq!(reads_at_most!(40, tx.usage(&workers)).iter().map(|usage| usage.jobs).sum::<u32>(), 20);
    assert_eq!(reads_at_most!(40, tx.held_jobs(&workers)).len(), 20);
    assert_eq!(reads_at_most!(20, tx.stopping_jobs(&workers)).len(), 10);
    assert_eq!(reads_at_most!(12, tx.silent_jobs(late, 5)).len(), 5);
    assert_eq!(reads_at_most!(12, tx.overdue_stops(late, 5)).len(), 5);
    reads_at_most!(4, tx.oldest());
    assert_eq!(reads_at_most!(40, tx.finished_jobs(late, 3)).len(), 3);
    let running = JobFilter { statuses: vec![Status::Running], ..JobFilter::default() };
    assert_eq!(reads_at_most!(20, tx.list_jobs(&running)).len(), 10);
    let waiting = vec![Status::Blocked, Status::Held];
    reads_at_most!(
        20,
        tx.list_jobs(&JobFilter { statuses: waiting, limit: Some(5), ..JobFilter::default() })
    );
    let ended_badly = vec![Status::Failed, Status::Cancelled];
    reads_at_most!(
        20,
        tx.list_jobs(&JobFilter { statuses: ended_badly, limit: Some(5), ..JobFilter::default() })
    );
    let page = JobFilter { limit: Some(5), ..JobFilter::default() };
    assert_eq!(reads_at_most!(5, tx.list_jobs(&page)).len(), 5);
    let of_job = EventFilter { job: Some(ids[0]), after: 0, limit: 5 };
    assert_eq!(reads_at_most!(4, tx.events(&of_job)).len(), 1);
    let of_all = EventFilter { job: None, after: 100, limit: 5 };
    assert_eq!(reads_at_most!(12, tx.events(&of_all)).len(), 5);
    reads_at_most!(2, tx.last_event());
    let last = Job { seq: 1, ..Job::new(id(2), JobSpec::shell("x").into(), Phase::Pending, late) };
    // One job goes before it in one of the three shapes; to see that, the index is enough.
    let shapes: Vec<ShapeId> = tx.pending_shapes().await.unwrap().into_iter().map(|(id, _)| id).collect();
    reads_at_most!(8_000, tx.count_ahead(&last, &shapes));
    let gangs = [muster_domain::GangId::from_random([7; 16])];
    reads_at_most!(0, tx.gang_tasks(&gangs));
    reads_at_most!(4, tx.siblings(&ids));
    reads_at_most!(0, tx.waiting_gangs(5));
    reads_at_most!(0, tx.stale_gangs(late, 5));
    reads_at_most!(20, tx.lock_reserved(&workers));
    assert_eq!(reads_at_most!(40, tx.running_jobs(&workers[0])).len(), 10);
    assert_eq!(reads_at_most!(40, tx.held_jobs(&workers[..1])).len(), 20);
    reads_at_most!(0, tx.gangs(None, 5));
    let queues = [QueueName::new("q")];
    let held = reads_at_most!(20, tx.held_by_queue(&queues));
    assert_eq!(held.iter().map(|(_, jobs)| jobs).sum::<u32>(), 10);
    let waiting = reads_at_most!(20, tx.waiting_by_shape(&[ShapeId(7)], &queues));
    assert_eq!(waiting.iter().map(|(_, jobs)| jobs).sum::<u64>(), 10);
    reads_at_most!(1, tx.lock_trees(&queues));
    reads_at_most!(20, tx.delete_jobs(&ids));
    tx.roll_back().await;
}

/// The ids of the seed, which the database made of the same numbers.
fn md5_of(n: u32) -> [u8; 16] {
    const ONE: u128 = 0xc4ca_4238_a0b9_2382_0dcc_509a_6f75_849b;
    const TWO: u128 = 0xc81e_728d_9d4c_2f63_6f06_7f89_cc14_862c;
    if n == 1 { ONE } else { TWO }.to_be_bytes()
}

#[tokio::test]
async fn no_primitive_reads_all_jobs() {
    let database = Postgres::shared().database();
    let options = PostgresOptions::default();
    let pool = pool::build(pool::configure(&database.url(), &options).unwrap(), &options).unwrap();
    migrations::migrate(pool.get().await.unwrap()).await.unwrap();
    // Plans are made while the tables are empty, as they are when a scheduler starts, and kept.
    let open = async || PostgresTx::new(pool.get().await.unwrap(), Scope::Write);
    let mut first = open().await;
    first.pending_shapes().await.unwrap();
    first.line_heads(10).await.unwrap();
    first.lock_heads(&[ShapeId(0)], 1).await.unwrap();
    first.lock_jobs(&[JobId::from_uuid(Uuid::nil())]).await.unwrap();
    first.roll_back().await;
    pool.get().await.unwrap().batch_execute(SEED).await.unwrap();
    check(open().await).await;
    pool.get().await.unwrap().batch_execute("ANALYZE").await.unwrap();
    check(open().await).await;
}
