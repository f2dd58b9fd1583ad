//! What only a store in a file promises: it survives its process, and belongs to one process at a time.
#![expect(clippy::unwrap_used, reason = "test code, also outside of the test functions")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::sync::{Arc, Mutex};

use futures::executor::block_on;
use muster_domain::{JobSpec, ReportKind, Span, Status};
use muster_store::compliance::Stage;
use muster_store::compliance::band::membership;
use muster_store::compliance::stage::memory;
use muster_store::engine::{Policies, Policy, PolicyName, Pool};
use muster_store::{Command, EventFilter, Outcome, StoreError, StoreExt};
use muster_store_sqlite::SqliteStore;

/// Held while a process is made, which between its fork and its exec has what this one has open, locks of
/// other tests' files included.
static FORK: Mutex<()> = Mutex::new(());

fn open(path: &Path) -> Stage {
    open_with(path, Policy::default())
}

fn open_with(path: &Path, policies: impl Into<Policies>) -> Stage {
    let _nobody_forks = FORK.lock();
    Stage::new(Arc::new(SqliteStore::open(path, policies).unwrap()))
}

#[test]
fn everything_survives_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    block_on(async {
        let stage = open(&path);
        stage.register("w1", memory(1_000), Some(4)).await;
        let running = stage.shell("sleep").await;
        stage.claim_by("w1").await.unwrap();
        stage.cancel(running.id).await.unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        let caller = muster_domain::Caller { lease: Some(stage.get(running.id).await.lease), worker: None };
        let save = Command::SaveCheckpoint {
            job: running.id,
            caller,
            epoch: Some(1),
            content: muster_store::Content::Bytes(bytes.clone()),
        };
        stage.one(save).await.unwrap();
        let done = stage.run_to_done().await;
        let all = EventFilter { job: None, after: 0, limit: 100 };
        let before = (stage.all().await, stage.store.workers().await.unwrap());
        let events = stage.store.events(all).await.unwrap();
        stage.store.close().await;
        drop(stage);

        assert!(!dir.path().join("muster.db-wal").exists(), "a closed store is one file");
        let stage = open(&path);
        assert_eq!((stage.all().await, stage.store.workers().await.unwrap()), before);
        assert_eq!(stage.store.events(all).await.unwrap(), events);
        let view = stage.store.job(running.id).await.unwrap().unwrap();
        assert_eq!(view.checkpoint.as_deref(), Some(bytes.as_slice()));
        assert_eq!(stage.status(done.id).await, Status::Done);
        stage.check().await;
    });
}

#[test]
fn other_pools_rank_what_waits_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    let tags: BTreeSet<String> = BTreeSet::from(["gpu".to_owned()]);
    let rank = async |stage: &Stage| {
        let ranked = stage.one(Command::Rank { after: 0, limit: 100 }).await.unwrap();
        assert!(matches!(ranked, Outcome::Ranked { next: None }));
    };
    block_on(async {
        let stage = open(&path);
        let mut jobs = Vec::new();
        for (priority, tags) in
            [(0, tags.clone()), (0, BTreeSet::new()), (5, tags.clone()), (5, BTreeSet::new())]
        {
            jobs.push(stage.submit(JobSpec { priority, tags, ..JobSpec::shell("x") }).await.id);
        }
        rank(&stage).await;
        stage.store.close().await;
        drop(stage);

        let pool = Pool { name: "gpu".to_owned(), tags, policy: Policy::named(PolicyName::Fifo) };
        let stage = open_with(&path, Policies::new(Policy::default(), vec![pool]).unwrap());
        rank(&stage).await;
        for expected in [0, 2, 3, 1] {
            assert_eq!(stage.claim().await.unwrap().id, jobs[expected], "the pool by age, then the others");
        }
        stage.check().await;
    });
}

#[test]
fn another_policy_ranks_what_waits_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    let open_with = |name| open_with(&path, Policy::named(name));
    block_on(async {
        let stage = open_with(PolicyName::Muster);
        let mut jobs = Vec::new();
        for (priority, seconds) in [(0, Some(30)), (5, None), (1, Some(10)), (9, Some(20))] {
            let timeout = seconds.map(Span::from_secs);
            jobs.push(stage.submit(JobSpec { priority, timeout, ..JobSpec::shell("x") }).await.id);
        }
        let gang = stage.submit_gang(JobSpec::shell("x"), membership(3)).await;
        let rank = async |stage: &Stage| {
            let mut after = 0;
            loop {
                match stage.one(Command::Rank { after, limit: 2 }).await.unwrap() {
                    Outcome::Ranked { next: Some(next) } => after = next,
                    Outcome::Ranked { next: None } => return,
                    other => panic!("{other:?}"),
                }
            }
        };
        rank(&stage).await;
        stage.store.close().await;
        drop(stage);

        let stage = open_with(PolicyName::Sjf);
        assert_eq!(stage.claim().await.unwrap().id, jobs[3], "nobody has ranked anew yet");
        rank(&stage).await;
        assert_eq!(stage.claim().await.unwrap().id, jobs[2], "the shortest first");
        assert!(stage.tasks(gang).await.iter().all(|task| task.rank == i64::MAX), "of unknown length");
        stage.store.close().await;
        drop(stage);

        let stage = open_with(PolicyName::Fifo);
        rank(&stage).await;
        assert_eq!(stage.claim().await.unwrap().id, jobs[0]);
        assert_eq!(stage.claim().await.unwrap().id, jobs[1]);
        stage.check().await;
    });
}

#[test]
fn dependencies_survive_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    block_on(async {
        let stage = open(&path);
        let parent = stage.shell("first").await;
        let child = stage.after(&[parent.id]).await;
        drop(stage);

        let stage = open(&path);
        assert_eq!(stage.get(child.id).await.spec.depends_on, [parent.id]);
        let claimed = stage.claim().await.unwrap();
        assert_eq!(claimed.id, parent.id);
        stage.report(&claimed, ReportKind::Done).await.unwrap();
        assert_eq!(stage.status(child.id).await, Status::Pending);
    });
}

#[test]
fn numbers_are_never_used_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    block_on(async {
        let stage = open(&path);
        let first = stage.run_to_done().await;
        let last_event = stage.store.last_event().await.unwrap();
        stage.advance(Span::from_secs(60));
        stage.sweep_with(stage.now(), Some(Span::from_secs(1))).await;
        assert!(stage.all().await.is_empty());
        drop(stage);

        let stage = open(&path);
        let second = stage.shell("again").await;
        assert!(second.seq > first.seq);
        assert!(stage.store.last_event().await.unwrap() > last_event, "a reader would miss the new events");
    });
}

#[test]
fn a_closed_store_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path().join("muster.db"), Policy::default()).unwrap();
    block_on(async {
        use muster_store::Store;
        store.ping().await.unwrap();
        store.close().await;
        store.close().await;
        assert!(matches!(store.ping().await, Err(StoreError::Closed)));
        assert!(matches!(store.counts().await, Err(StoreError::Closed)));
    });
}

#[test]
fn a_newer_schema_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    drop(open(&path));
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("INSERT INTO schema_migrations (version, name) VALUES (1000, 'later')", []).unwrap();
    drop(connection);
    let error = SqliteStore::open(&path, Policy::default()).unwrap_err();
    assert!(matches!(error, StoreError::SchemaTooNew { found: 1000, .. }), "{error}");
}

#[test]
fn what_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    std::fs::write(&path, "these are only words, and rather more than a hundred of them ".repeat(100))
        .unwrap();
    let error = SqliteStore::open(&path, Policy::default()).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    let error = SqliteStore::open(dir.path().join("missing/muster.db"), Policy::default()).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

const HELD: &str = "MUSTER_TEST_HOLD_DATABASE";

/// Another process that has the database open, with one job in it.
struct Holder(Child);

impl Holder {
    /// Runs this test program again, with only the test below.
    fn start(path: &Path) -> Self {
        let fork = FORK.lock();
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "one_process_at_a_time", "--nocapture"])
            .env(HELD, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(fork);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("holding")), "the other process ended early");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn one_process_at_a_time() {
    if let Some(path) = std::env::var_os(HELD) {
        let stage = open(Path::new(&path));
        block_on(stage.submit(JobSpec::shell("from the other process")));
        println!("holding");
        std::io::stdout().flush().unwrap();
        // Held until this process is killed.
        std::io::stdin().lines().for_each(drop);
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("muster.db");
    let holder = Holder::start(&path);
    let error = SqliteStore::open(&path, Policy::default()).unwrap_err().to_string();
    for part in
        ["muster.db is in use", &format!("process {}", holder.0.id()), "muster.db.lock", "stop that process"]
    {
        assert!(error.contains(part), "{part:?} is missing: {error}");
    }
    // Killed without warning: the lock goes with the process, what was acknowledged stays.
    drop(holder);
    let jobs = block_on(open(&path).all());
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0].spec.program.to_line(), "from the other process");
}
