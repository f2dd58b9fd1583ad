//! Jobs that do nothing, pushed through a store as fast as it takes them: submit, claim, done.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use muster_domain::{Caller, Exit, Job, JobId, JobSpec, ReportKind, Spent, Timestamp};
use muster_store::{Ask, Command, NewJob, Outcome, Report, Store, StoreError, Submit};

const BATCH: usize = 1_000;
/// What a worker says that a short job used.
const SPENT: Spent = Spent {
    cpu_user_ms: Some(1),
    cpu_system_ms: Some(1),
    peak_memory_bytes: Some(2_306_867),
    read_bytes: Some(0),
    written_bytes: Some(0),
    peak_gpu_memory_bytes: None,
};

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(since.as_micros() as i64)
}

fn say(what: &str, count: usize, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    println!("{what:<44} {:>9.0} /s   ({count} in {seconds:.2} s)", count as f64 / seconds);
}

fn submission(count: usize) -> Command {
    let spec = Arc::new(JobSpec::shell("true"));
    let job = |_| {
        let (high, low) = (rand_u64().to_be_bytes(), rand_u64().to_be_bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high);
        bytes[8..].copy_from_slice(&low);
        let id = JobId::from_random(bytes);
        NewJob {
            first_task: None,
            id,
            spec: Arc::clone(&spec),
            hold: None,
            reference: None,
            depends_on: Vec::new(),
            rules: Vec::new(),
            member: None,
        }
    };
    Command::Submit(Submit { jobs: (0..count).map(job).collect(), atomic: true, set: None })
}

/// Ids need only differ, between runs too: a keyed hash of nothing is random enough.
fn rand_u64() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(Instant::now())
}

fn claim(max: usize) -> Command {
    Command::Claim(Ask { worker: Some("bench".into_id()), max: max as u32, ..Ask::default() })
}

trait IntoId {
    fn into_id(self) -> muster_domain::WorkerId;
}

impl IntoId for &str {
    fn into_id(self) -> muster_domain::WorkerId {
        muster_domain::WorkerId::new(self)
    }
}

fn done(job: &Job) -> Command {
    Command::Report(Report {
        job: job.id,
        caller: Caller { lease: Some(job.lease), worker: None },
        kind: ReportKind::Done,
        exit: Exit { code: Some(0), signal: None },
        message: None,
        outputs: None,
        spent: Some(SPENT),
    })
}

/// Applies a batch and returns the jobs that its claims were given.
async fn apply(store: &dyn Store, commands: Vec<Command>) -> Result<Vec<Job>, StoreError> {
    let applied = store.apply(now(), commands).await?;
    let claimed = applied.answers.into_iter().filter_map(|answer| match answer {
        Ok(Outcome::Claimed(jobs)) => Some(jobs),
        _ => None,
    });
    Ok(claimed.flatten().map(|claimed| claimed.job).collect())
}

/// Runs all measurements with `count` jobs.
pub(crate) async fn run(store: &dyn Store, count: usize) -> Result<(), StoreError> {
    let start = Instant::now();
    for _ in 0..count / BATCH {
        apply(store, vec![submission(BATCH)]).await?;
    }
    say("submit, batches of 1000", count, start);

    let start = Instant::now();
    let mut held = apply(store, vec![claim(BATCH)]).await?;
    let mut finished = 0;
    while !held.is_empty() {
        finished += held.len();
        let commands = held.iter().map(done).chain([claim(BATCH)]).collect();
        held = apply(store, commands).await?;
    }
    say("report 1000 and claim 1000 a batch", finished, start);

    let start = Instant::now();
    let mut held: Vec<Job> = Vec::new();
    let mut finished = 0;
    while finished < count {
        finished += held.len();
        let reports = held.iter().map(done);
        held = apply(store, reports.chain([submission(BATCH), claim(BATCH)]).collect()).await?;
    }
    say("submit, claim, done; 1000 each a batch", finished, start);

    let singles = 2_000;
    let start = Instant::now();
    for _ in 0..singles {
        let mut job = apply(store, vec![submission(1), claim(1)]).await?;
        apply(store, job.drain(..).map(|job| done(&job)).collect()).await?;
    }
    say("one job at a time, two transactions each", singles, start);
    Ok(())
}
