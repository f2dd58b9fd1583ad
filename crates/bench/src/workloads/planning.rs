//! How long the store's own planning takes in clusters and queues of several sizes: what a pass costs should
//! follow what changed, not what exists.
//!
//! Every worker is full when the clock starts. The shapes are mixed, among fifty queues with quotas; some of
//! what waits are gangs that do not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use muster_domain::limits::Timeouts;
use muster_domain::{
    Caller, Dimension, Exit, GangId, GangMembership, Health, Job, JobId, JobSpec, Ports, QueueName,
    ReportKind, Resources, Span, Timestamp, Worker, WorkerId, WorkerStatus,
};
use muster_store::{
    Allowances, Ask, Command, NewJob, Outcome, PlanPass, PlanSummary, QueueSettings, Report, Store, Submit,
};
use tokio::runtime;

use super::store::{now, scattered};
use super::{Measured, Setting};
use crate::metric::{Act, Metric, Scale, Share};
use crate::process;
use crate::stats::percentile;

const QUEUES: u64 = 50;
/// One of so many jobs is the first task of a gang.
const GANG_EVERY: u64 = 1_000;
const GANG_SIZE: u32 = 16;
const BATCH: u64 = 1_000;
/// Workers that ask in one transaction while the cluster is filled.
const ASKING: usize = 16;
/// GPUs and cores of a job; a worker has 8 and 64.
const KINDS: [(u64, u64); 8] = [(1, 4), (1, 8), (2, 8), (4, 16), (8, 32), (0, 2), (0, 8), (0, 16)];

/// Measures each size on new data.
pub(super) fn at_scale(setting: &Setting<'_>) -> Result<Measured> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut measured = Measured::new();
    for scale in Scale::ALL {
        let directory =
            tempfile::Builder::new().prefix("muster-bench-").tempdir_in(&setting.ground.directory)?;
        measured.extend(runtime.block_on(async {
            let store = setting.ground.store(directory.path()).await?;
            let size = Size::of(scale, setting.sizes.planning_part);
            let found = measure(store.as_ref(), scale, size, setting.sizes.planning_changes).await;
            store.close().await;
            found
        })?);
    }
    Ok(measured)
}

/// How much there is of everything.
#[derive(Debug, Clone, Copy)]
struct Size {
    workers: usize,
    queued: u64,
}

impl Size {
    /// The whole of a scale, or one of so many parts of it.
    fn of(scale: Scale, part: usize) -> Self {
        let (workers, queued) = scale.size();
        Self { workers: workers.div_ceil(part), queued: (queued / part).max(2_000) as u64 }
    }
}

async fn measure(store: &dyn Store, scale: Scale, size: Size, changes: usize) -> Result<Measured> {
    let mut crowd = Crowd { store, size, sent: 0, running: Vec::new(), names: names(size.workers) };
    crowd.prepare().await?;
    let begun = Instant::now();
    crowd.fill().await?;
    let rate = crowd.running.len() as f64 / begun.elapsed().as_secs_f64();
    ensure!(crowd.running.len() >= size.workers, "only {} jobs run", crowd.running.len());
    let mut measured = vec![(Metric::PlanningRate(scale), rate)];
    for act in Act::ALL {
        let mut times = Vec::with_capacity(changes);
        for _ in 0..changes {
            times.push(crowd.timed(act).await?);
        }
        for share in [Share::Median, Share::Tail] {
            let value = percentile(&times, share.of_all()).unwrap_or_default();
            measured.push((Metric::Planning(scale, act, share), value));
        }
    }
    let bytes = process::resident_bytes(std::process::id()).unwrap_or_default();
    measured.push((Metric::PlanningMemory(scale), bytes as f64 / f64::from(1 << 20)));
    Ok(measured)
}

/// A store with a full cluster and a long queue.
struct Crowd<'s> {
    store: &'s dyn Store,
    size: Size,
    sent: u64,
    running: Vec<Job>,
    names: Vec<WorkerId>,
}

impl Crowd<'_> {
    /// Queues, workers, and everything that waits.
    async fn prepare(&mut self) -> Result<()> {
        // Lent and borrowed at will, so that the quotas are checked and stop nobody.
        let gpus = (self.size.workers as u64 * 8).div_ceil(QUEUES);
        let queue = |number: u64| {
            let mut settings = QueueSettings::new(queue_name(number));
            settings.terms.parent = Some(Some(QueueName::new("lab")));
            settings.terms.nominal = Some(Some([(Dimension::Gpus, gpus)].into_iter().collect()));
            settings.terms.weight_milli = Some(Some(1000 + (number as u32 % 3) * 500));
            Command::PutQueue(settings)
        };
        self.apply((0..QUEUES).map(queue).collect()).await?;
        for some in self.names.clone().chunks(BATCH as usize) {
            let known = some.iter().map(|id| Command::RegisterWorker(worker(id)));
            self.apply(known.collect()).await?;
        }
        while self.sent < self.size.queued {
            let jobs = self.some_jobs(BATCH);
            self.apply(vec![Command::Submit(Submit { jobs, atomic: true, set: None })]).await?;
        }
        Ok(())
    }

    /// Jobs one after the other, and now and then a gang.
    fn some_jobs(&mut self, count: u64) -> Vec<NewJob> {
        let mut jobs = Vec::new();
        while (jobs.len() as u64) < count {
            let first = jobs.len();
            let gang = self.sent.is_multiple_of(GANG_EVERY).then(|| GangMembership {
                id: GangId::from_random(scattered(self.sent)),
                size: GANG_SIZE,
                index: 0,
                min: None,
                per_worker: 1,
                keep_done: false,
                topology: None,
            });
            let spec = spec(self.sent, gang.is_some());
            for index in 0..gang.as_ref().map_or(1, |gang| gang.size) {
                let gang = gang.clone().map(|gang| GangMembership { index, ..gang });
                let later = (index > 0).then_some(first);
                jobs.push(new_job(self.sent, JobSpec { gang, ..spec.clone() }, later));
                self.sent += 1;
            }
        }
        jobs
    }

    /// All workers ask until they get nothing more.
    async fn fill(&mut self) -> Result<()> {
        for some in self.names.clone().chunks(ASKING) {
            let asks = some.iter().map(|worker| ask(worker, 32)).collect();
            for outcome in self.apply(asks).await? {
                if let Outcome::Claimed(claimed) = outcome {
                    self.running.extend(claimed.into_iter().map(|claimed| claimed.job));
                }
            }
        }
        Ok(())
    }

    /// Milliseconds that a pass takes after one change.
    async fn timed(&mut self, act: Act) -> Result<f64> {
        let done = self.one_that_ends()?;
        let worker = done.worker().cloned().unwrap_or_else(|| self.names[0].clone());
        // Heard of just now, as all are that poll.
        self.apply(vec![Command::WorkerHeartbeat { worker: worker.clone(), ports: None }]).await?;
        match act {
            Act::EndAndClaim => {
                let begun = Instant::now();
                let outcomes = self.apply(vec![report(&done), ask(&worker, 1)]).await?;
                let took = begun.elapsed();
                let claimed = outcomes.into_iter().filter_map(|outcome| match outcome {
                    Outcome::Claimed(claimed) => Some(claimed),
                    _ => None,
                });
                self.running.extend(claimed.flatten().map(|claimed| claimed.job));
                Ok(took.as_secs_f64() * 1000.0)
            }
            Act::Gangs | Act::Look => {
                self.apply(vec![report(&done)]).await?;
                let pass = PlanPass {
                    timeouts: Timeouts { worker_stale: Span::from_secs(86_400), ..Timeouts::default() },
                    listening_since: now(),
                    limit: 100,
                    look: act == Act::Look,
                    allowances: Allowances::default(),
                };
                let begun = Instant::now();
                let outcomes = self.apply(vec![Command::Plan(pass)]).await?;
                let took = begun.elapsed();
                let Some(Outcome::Planned(PlanSummary { waiting, .. })) = outcomes.first() else {
                    bail!("a pass was answered with {outcomes:?}");
                };
                ensure!(*waiting > 0, "no gang waits any more");
                Ok(took.as_secs_f64() * 1000.0)
            }
            Act::Submit => {
                let jobs = self.some_jobs(1);
                let begun = Instant::now();
                self.apply(vec![Command::Submit(Submit { jobs, atomic: true, set: None }), ask(&worker, 1)])
                    .await?;
                Ok(begun.elapsed().as_secs_f64() * 1000.0)
            }
        }
    }

    fn one_that_ends(&mut self) -> Result<Job> {
        ensure!(!self.running.is_empty(), "nothing runs any more");
        let scattered = self.sent.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.sent += 1;
        let position = scattered as usize % self.running.len();
        Ok(self.running.swap_remove(position))
    }

    /// Every command has to succeed.
    async fn apply(&self, commands: Vec<Command>) -> Result<Vec<Outcome>> {
        let applied = self.store.apply(now(), commands).await?;
        Ok(applied.answers.into_iter().collect::<Result<Vec<Outcome>, _>>()?)
    }
}

fn names(count: usize) -> Vec<WorkerId> {
    (0..count).map(|number| WorkerId::new(format!("w{number}"))).collect()
}

fn queue_name(number: u64) -> QueueName {
    QueueName::new(format!("team-{:02}", number % QUEUES))
}

fn spec(number: u64, gang: bool) -> JobSpec {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let (gpus, cpus) = if gang { (8, 32) } else { KINDS[(mixed % KINDS.len() as u64) as usize] };
    let resources = Resources { gpus, cpu_millis: cpus * 1000, memory_mb: 8_000, ..Resources::default() };
    JobSpec {
        resources: Some(resources),
        queue: Some(queue_name(mixed / 64)),
        priority: (mixed / 8192 % 3) as i32,
        timeout: Some(Span::from_secs(3600 + (mixed / 65_536 % 86_400) as u32)),
        ..JobSpec::shell("train")
    }
}

fn new_job(number: u64, spec: JobSpec, first_task: Option<usize>) -> NewJob {
    NewJob {
        first_task,
        id: JobId::from_random(scattered(number)),
        spec: Arc::new(spec),
        reference: None,
        depends_on: Vec::new(),
        hold: None,
        rules: Vec::new(),
        member: None,
    }
}

fn worker(id: &WorkerId) -> Worker {
    Worker {
        kept: None,
        ports: Ports::default(),
        id: id.clone(),
        exec_addr: String::new(),
        resources: Resources { gpus: 8, cpu_millis: 64_000, memory_mb: 512_000, ..Resources::default() },
        tags: BTreeSet::new(),
        devices: Vec::new(),
        labels: BTreeMap::new(),
        slots: None,
        hostname: None,
        isolation: None,
        run_as: None,
        version: None,
        status: WorkerStatus::Active,
        last_heartbeat: Timestamp::default(),
        registered_at: Timestamp::default(),
        assumed: false,
        health: Health::default(),
    }
}

fn ask(worker: &WorkerId, max: u32) -> Command {
    Command::Claim(Ask { worker: Some(worker.clone()), max, ..Ask::default() })
}

fn report(job: &Job) -> Command {
    Command::Report(Report {
        job: job.id,
        caller: Caller { lease: Some(job.lease), worker: None },
        kind: ReportKind::Done,
        exit: Exit { code: Some(0), signal: None },
        message: None,
        outputs: None,
        spent: None,
    })
}

#[cfg(test)]
mod tests {
    use muster_store::MemoryStore;

    use super::*;

    #[test]
    fn every_act_is_measured_on_a_small_cluster() {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        let size = Size { workers: 6, queued: 3_000 };
        let store = MemoryStore::default();
        let measured = runtime.block_on(measure(&store, Scale::Small, size, 3)).unwrap();
        assert_eq!(measured.len(), 2 + Act::ALL.len() * 2);
        assert!(measured.iter().all(|(_, value)| *value > 0.0), "{measured:?}");
    }
}
