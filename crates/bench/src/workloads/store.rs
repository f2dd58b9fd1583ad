//! The verbs on a store with nothing around them: what is left of a database's speed when it keeps jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use muster_domain::{Caller, Exit, JobId, JobSpec, Program, ReportKind, Timestamp, WorkerId};
use muster_store::{Ask, Claimed, Command, NewJob, Outcome, Report, Store, Submit};
use tokio::runtime;

use super::{Measured, Setting};
use crate::metric::Metric;

const SUBMIT_BATCH: usize = 1_000;
const CLAIM_BATCH: u32 = 128;

/// Takes jobs from submit to done.
pub(super) fn verbs(setting: &Setting<'_>) -> Result<Measured> {
    let ground = setting.ground;
    let directory = tempfile::Builder::new().prefix("muster-bench-").tempdir_in(&ground.directory)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = ground.store(directory.path()).await?;
        let measured = through(store.as_ref(), setting.sizes.noop_jobs).await;
        store.close().await;
        measured
    })
}

/// Submits jobs, in thousands, claims them and reports them done.
pub(crate) async fn through(store: &dyn Store, jobs: usize) -> Result<Measured> {
    let jobs = jobs / SUBMIT_BATCH * SUBMIT_BATCH;
    let begin = Instant::now();
    for batch in 0..jobs / SUBMIT_BATCH {
        submit(store, (batch * SUBMIT_BATCH) as u64).await?;
    }
    let submitted = jobs as f64 / begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let mut done = 0;
    let mut held = turn(store, Vec::new()).await?;
    while !held.is_empty() {
        done += held.len();
        held = turn(store, held).await?;
    }
    ensure!(done == jobs, "{jobs} jobs were submitted and {done} were done");
    let rate = jobs as f64 / begin.elapsed().as_secs_f64();
    Ok(vec![(Metric::EngineSubmit, submitted), (Metric::EngineDone, rate)])
}

pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(since.as_micros() as i64)
}

async fn submit(store: &dyn Store, first: u64) -> Result<()> {
    let spec = JobSpec { program: Program::Argv(vec!["/bin/true".to_owned()]), ..JobSpec::shell("") };
    let spec = Arc::new(spec);
    let new = |number: u64| NewJob {
        first_task: None,
        id: JobId::from_random(scattered(number)),
        spec: Arc::clone(&spec),
        reference: None,
        depends_on: Vec::new(),
        hold: None,
        rules: Vec::new(),
        member: None,
    };
    let jobs = (first..first + SUBMIT_BATCH as u64).map(new).collect();
    store.apply(now(), vec![Command::Submit(Submit { jobs, atomic: true, set: None })]).await?;
    Ok(())
}

/// Bytes that are as scattered as those of a random id, and never the same for two numbers.
pub(super) fn scattered(number: u64) -> [u8; 16] {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(mixed ^ (mixed >> 29)).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// What a worker's request does under load: reports what it ran, takes as many again.
async fn turn(store: &dyn Store, held: Vec<Claimed>) -> Result<Vec<Claimed>> {
    let report = |claimed: Claimed| {
        Command::Report(Report {
            job: claimed.job.id,
            caller: Caller { lease: Some(claimed.job.lease), worker: None },
            kind: ReportKind::Done,
            exit: Exit { code: Some(0), signal: None },
            message: None,
            outputs: None,
            spent: None,
        })
    };
    let mut commands: Vec<Command> = held.into_iter().map(report).collect();
    let worker = Some(WorkerId::new("bench"));
    commands.push(Command::Claim(Ask { worker, max: CLAIM_BATCH, ..Ask::default() }));
    let applied = store.apply(now(), commands).await?;
    let mut answers: BTreeMap<usize, _> = applied.answers.into_iter().enumerate().collect();
    let last = answers.pop_last();
    for (_, answer) in answers {
        answer?;
    }
    match last {
        Some((_, Ok(Outcome::Claimed(jobs)))) => Ok(jobs),
        other => bail!("a claim was answered with {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use muster_store::MemoryStore;

    use super::*;

    #[test]
    fn every_job_goes_all_the_way() {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        let measured = runtime.block_on(through(&MemoryStore::default(), 2_000)).unwrap();
        assert!(measured.iter().all(|(_, rate)| *rate > 0.0), "{measured:?}");
    }

    #[test]
    fn no_two_numbers_give_the_same_id() {
        let ids: std::collections::HashSet<[u8; 16]> = (0..5_000).map(scattered).collect();
        assert_eq!(ids.len(), 5_000);
    }
}
