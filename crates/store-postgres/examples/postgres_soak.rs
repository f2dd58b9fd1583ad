//! Whether the work of the database for a job grows with time: submits, claims and reports for as long as asked, on a
//! cluster of its own, with a leader that renews its lease as a scheduler does. One line a minute:
//! `cargo run --example postgres_soak -p muster-store-postgres [MINUTES [pinned]]`.
//!
//! With `pinned` a transaction stays open meanwhile, which keeps the server from removing dead rows: what happened while
//! leadership was a lock held by such a transaction.

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant, SystemTime};

use muster_domain::{Bid, Caller, Exit, JobId, JobSpec, ReportKind, Role, Span, Timestamp};
use muster_pg_testkit::{Database, Options, Postgres};
use muster_store::engine::Policy;
use muster_store::{Ask, Claimed, Command, NewJob, Outcome, Report, StoreExt, Submit};
use muster_store_postgres::{PostgresOptions, PostgresStore};

type Done<T> = Result<T, Box<dyn Error>>;

/// Jobs of one round, and how often the leader bids.
const ROUND: u32 = 50;
const BID: Duration = Duration::from_millis(500);
const LINE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Done<()> {
    let minutes: u64 = std::env::args().nth(1).map_or(Ok(15), |text| text.parse())?;
    let pinned = std::env::args().nth(2).is_some_and(|word| word == "pinned");
    let cluster = Postgres::start_with(Options { durable: false, everywhere: false });
    let database = cluster.database();
    let store =
        PostgresStore::connect(&database.url(), PostgresOptions::default(), Policy::default()).await?;
    let (mut client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let pin = if pinned { Some(client.transaction().await?) } else { None };
    if let Some(pin) = &pin {
        pin.execute("SELECT pg_advisory_xact_lock(1), txid_current()", &[]).await?;
    }
    println!("minute  jobs    server us a job  dead rows  vacuums  index reads a job");
    let (began, mut line, mut bid) = (Instant::now(), Meter::read(&database), Instant::now());
    while began.elapsed() < Duration::from_secs(minutes * 60) {
        if bid.elapsed() >= BID {
            bid = Instant::now();
            let command = Bid { holder: "soak".into(), roles: Role::ALL.to_vec(), lease: Span::from_secs(3) };
            store.apply_one(now(), Command::Lead(command)).await?.0?;
        }
        line.jobs += round(&store).await?;
        if line.at.elapsed() >= LINE {
            line = line.print(began.elapsed(), Meter::read(&database));
        }
    }
    Ok(())
}

fn now() -> Timestamp {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
}

/// Submits, claims and reports some jobs, each in a transaction, as a batcher under load would.
async fn round(store: &PostgresStore) -> Done<u64> {
    let spec = std::sync::Arc::new(JobSpec::shell("true"));
    let new = |_| NewJob {
        id: JobId::from_random(rand::random()),
        spec: std::sync::Arc::clone(&spec),
        hold: None,
        reference: None,
        depends_on: Vec::new(),
        rules: Vec::new(),
        member: None,
        first_task: None,
    };
    let submit = Submit { jobs: (0..ROUND).map(new).collect(), atomic: false, set: None };
    store.apply_one(now(), Command::Submit(submit)).await?.0?;
    let ask = Ask { max: ROUND, ..Ask::default() };
    let Outcome::Claimed(jobs) = store.apply_one(now(), Command::Claim(ask)).await?.0? else { return Ok(0) };
    let done = |claimed: &Claimed| {
        Command::Report(Report {
            job: claimed.job.id,
            caller: Caller { lease: Some(claimed.job.lease), worker: None },
            kind: ReportKind::Done,
            exit: Exit::default(),
            message: None,
            outputs: None,
            spent: None,
        })
    };
    muster_store::Store::apply(store, now(), jobs.iter().map(done).collect()).await?;
    Ok(jobs.len() as u64)
}

/// What the server has done up to a moment.
struct Meter {
    at: Instant,
    jobs: u64,
    ticks: u64,
    dead: u64,
    vacuums: u64,
    reads: u64,
}

impl Meter {
    fn read(database: &Database<'_>) -> Self {
        let sum = |column: &str| {
            let sql = format!("SELECT coalesce(sum({column}), 0)::bigint FROM pg_stat_user_tables");
            database.execute(&sql).parse().unwrap_or(0)
        };
        let entries = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes";
        Self {
            at: Instant::now(),
            jobs: 0,
            ticks: server_ticks(database),
            dead: sum("n_dead_tup"),
            vacuums: sum("autovacuum_count"),
            reads: database.execute(entries).parse().unwrap_or(0),
        }
    }

    fn print(&self, after: Duration, next: Self) -> Self {
        // A tick is a hundredth of a second on every Linux that runs this.
        let server_us = (next.ticks - self.ticks) * 10_000;
        let jobs = self.jobs.max(1);
        println!(
            "{:6}  {:7} {:14.1} {:11} {:8} {:12.1}",
            after.as_secs() / 60,
            self.jobs,
            server_us as f64 / jobs as f64,
            next.dead,
            next.vacuums,
            (next.reads - self.reads) as f64 / jobs as f64
        );
        next
    }
}

/// Processor time of the sessions of the store, in ticks. They live as long as the run.
fn server_ticks(database: &Database<'_>) -> u64 {
    let sql =
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'muster' AND datname = current_database()";
    let pids = database.execute(sql);
    pids.lines().filter_map(|pid| ticks(pid.trim())).sum()
}

fn ticks(pid: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in brackets, may hold spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}
