//! A whole drill on one store: a cluster under load in a storm, then calm, then the promises one by one.
//!
//! Nothing here panics because a promise was broken: that is what the account tells.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::checker::{self, Observer, Torn};
use super::faults::{self, Faults};
use super::is_final;
use super::ledger::{Entry, Ledger};
use super::leftovers::{Calm, Watch};
use super::load::{Load, Mix, Submitted};
use super::operator::Operator;
use super::results;
use super::storm::{self, Bounds, Cluster, Deed};
use serde_json::Value;

use muster_s3_testkit::Seaweed;

use crate::container_engine::ContainerEngine;
use crate::{Backing, Http, Postgres, Scheduler, Settings, StoreKind, Worker, WorkerSettings, id_of};

/// What a drill must have had before it may end, and how long it may take to get there.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub kills: usize,
    pub jobs: usize,
    pub gangs: usize,
    pub limit: Duration,
}

/// What happened, and every promise that was broken.
#[derive(Debug, Default)]
pub struct Account {
    pub seconds: u64,
    pub deeds: Vec<Deed>,
    pub jobs: usize,
    pub gangs: usize,
    pub starts: usize,
    pub rounds: usize,
    pub saved: usize,
    pub resumed: usize,
    /// Quarantines of workers that the operator ended, and jobs that it released.
    pub lifted: usize,
    pub released: usize,
    /// Rounds that a fault in the moment of their start left incomplete.
    pub incomplete: usize,
    /// Jobs whose artifacts and output were compared.
    pub artifacts: usize,
    pub outputs: usize,
    pub offences: Vec<String>,
    /// Whether there was as much of everything as planned.
    pub is_complete: bool,
}

impl Account {
    /// The deeds by kind.
    pub fn kinds(&self) -> BTreeMap<&'static str, usize> {
        let mut kinds = BTreeMap::new();
        for deed in &self.deeds {
            *kinds.entry(deed.what).or_default() += 1;
        }
        kinds
    }

    /// The broken promises by kind.
    pub fn offences_by_kind(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for offence in &self.offences {
            let kind = offence.split(':').next().unwrap_or_default();
            kinds.entry(kind).or_default().push(offence);
        }
        kinds
    }
}

const WORKERS: usize = 4;
const SLOTS: u32 = 8;
const MIX: Mix =
    Mix { gangs: 0.12, checkpoints: 0.05, children: 0.1, artifacts: 0.1, uploads: 0.08, containers: 0.15 };

/// How long nothing may end, in calm, before what is left counts as stuck.
const STUCK: Duration = Duration::from_secs(120);

/// Plays a drill. What a broken promise can be understood by is copied into `evidence`.
pub fn run(kind: StoreKind, plan: &Plan, evidence: &Path) -> Account {
    let start = Instant::now();
    let database = (kind == StoreKind::Postgres).then(Postgres::start);
    let backing = database.as_ref().map_or_else(|| Backing::new(kind), Backing::on);
    let ledger = Ledger::new(&backing.directory());
    let mut cluster = assemble(&backing, database, &ledger);
    let schedulers: Vec<Http> = cluster.schedulers.iter().map(Scheduler::http).collect();
    let calm = Arc::new(Calm::default());
    for worker in &cluster.workers {
        calm.whole(&worker.directory());
    }
    let observer = Observer::start(schedulers.clone());
    let watch = Watch::start(schedulers.clone(), Arc::clone(&calm));
    let operator = Operator::start(schedulers.clone());
    let load = Load::start(&schedulers, &ledger, plan.seed, MIX);
    let progress = load.progress();
    let enough = || {
        progress.jobs.load(Ordering::Relaxed) >= plan.jobs
            && progress.gangs.load(Ordering::Relaxed) >= plan.gangs
    };
    let bounds = Bounds { seed: plan.seed, kills: plan.kills, limit: plan.limit };
    let began = faults::now();
    let log = storm::rage(&mut cluster, &calm, bounds, &enough);
    let is_complete = log.deeds.len() >= plan.kills && enough();
    let acknowledged = load.stop();
    let mut offences = log.offences;
    offences.extend(await_ends(&schedulers, &acknowledged));
    offences.extend(watch.stop(&calm));
    offences.extend(results::containers_left(&cluster));
    let judged = results::judge(&schedulers, &acknowledged);
    offences.extend(judged.offences);
    let seen = observer.stop();
    let (lifted, released) = operator.stop();
    for scheduler in &mut cluster.schedulers {
        scheduler.kill9();
        scheduler.restart();
    }
    let lines = ledger.read();
    let jobs = cluster.schedulers[0].jobs();
    let mut faults = Faults::new(&log.deeds, began);
    let torn = checker::torn_rounds(&lines);
    find_workers(schedulers[0], &jobs, &torn, &mut faults);
    offences.extend(checker::compare(&jobs, &acknowledged, &seen, &lines, &faults));
    offences.extend(judge_checkpoints(schedulers[0], &ledger, &acknowledged));
    let logs = logs(&backing, &cluster);
    offences.extend(logs.iter().filter_map(|log| panics(log)));
    if !offences.is_empty() {
        keep(evidence, &logs, &ledger, &log.deeds);
    }
    Account {
        seconds: start.elapsed().as_secs(),
        deeds: log.deeds,
        offences,
        is_complete,
        lifted,
        released,
        artifacts: judged.artifacts,
        outputs: judged.outputs,
        incomplete: torn.iter().filter(|torn| torn.is_excused(&faults)).count(),
        ..count(&acknowledged, &lines)
    }
}

/// Finds out on which worker each task was to run that did not start with its round.
fn find_workers(http: Http, jobs: &[Value], torn: &[Torn], faults: &mut Faults) {
    for task in torn.iter().flat_map(|torn| &torn.missing) {
        let is_it = |job: &&Value| {
            job["gang_id"] == task.gang.as_str() && job["gang_index"].as_u64().unwrap_or(0) == task.index
        };
        let Some(job) = jobs.iter().find(is_it) else { continue };
        let events = http.get(&format!("/jobs/{}/events", id_of(job))).json();
        let reserved = events
            .as_array()
            .into_iter()
            .flatten()
            .find(|event| event["type"] == "reserved" && event["data"]["round"] == task.round);
        if let Some(worker) = reserved.and_then(|event| event["worker_id"].as_str()) {
            faults.note(task.clone(), worker.to_owned());
        }
    }
}

/// With PostgreSQL two schedulers share it and a bucket, and nothing else.
fn assemble(backing: &Backing, database: Option<Postgres>, ledger: &Ledger) -> Cluster {
    let mut settings = Settings::default()
        .set("job-heartbeat-timeout", "4s")
        .set("reaper-interval", "300ms")
        .set("worker-stale-timeout", "10s")
        .set("preempt-grace", "5s");
    let bucket = database.as_ref().map(|_| Seaweed::start());
    if let Some(bucket) = &bucket {
        settings = results::on_bucket(settings, bucket, &backing.directory());
    }
    let names: &[&'static str] = if database.is_some() { &["one", "two"] } else { &["data"] };
    let start = |name: &&'static str| Scheduler::start_apart(backing, settings.clone(), name);
    let schedulers: Vec<Scheduler> = names.iter().map(start).collect();
    let engine = ContainerEngine::start(&[]);
    let (socket, books) = (engine.socket().display().to_string(), ledger.directory().display().to_string());
    let workers = (0..WORKERS).map(|number| {
        // Nothing else on this machine has a worker of that name.
        let name = format!("w{number}-{}", std::process::id());
        let settings = WorkerSettings::new(&name, SLOTS)
            .set("job-heartbeat-interval", "500ms")
            .set("containers", "docker")
            .set("container-socket", &socket)
            .set("allow-mount", &books);
        Worker::start(&schedulers[number % schedulers.len()], settings)
    });
    Cluster { workers: workers.collect(), schedulers, database, engine, bucket }
}

/// Waits until every acknowledged job has ended; says what is stuck.
fn await_ends(schedulers: &[Http], acknowledged: &[Submitted]) -> Vec<String> {
    let mut open: Vec<&String> = acknowledged.iter().flat_map(Submitted::jobs).collect();
    let mut moved = Instant::now();
    while !open.is_empty() && moved.elapsed() < STUCK {
        let before = open.len();
        open.retain(|id| !status(schedulers[0], id).is_some_and(|status| is_final(&status)));
        if open.len() < before {
            moved = Instant::now();
        }
        thread::sleep(Duration::from_millis(200));
    }
    let stuck = |id: &&String| format!("has not ended: {id} is {:?}", status(schedulers[0], id));
    open.iter().map(stuck).collect()
}

fn status(http: Http, id: &str) -> Option<String> {
    let answer = http.request("GET", &format!("/jobs/{id}")).try_send().ok()?;
    (answer.status == 200).then(|| answer.json()["status"].as_str().unwrap_or_default().to_owned())
}

/// Every checkpoint that the store keeps is exact.
fn judge_checkpoints(http: Http, ledger: &Ledger, acknowledged: &[Submitted]) -> Vec<String> {
    let mut offences = Vec::new();
    for submitted in acknowledged {
        let Some(bytes) = submitted.checkpoints else { continue };
        let answer = http.get(&format!("/jobs/{}/checkpoint", submitted.id));
        let kept = Some(answer.body.as_slice()).filter(|_| answer.status == 200);
        offences.extend(ledger.judge_checkpoint(&submitted.id, bytes, kept));
    }
    offences
}

fn logs(backing: &Backing, cluster: &Cluster) -> Vec<PathBuf> {
    let places = cluster.workers.iter().map(Worker::directory).chain([backing.directory()]);
    let files = places.flat_map(|place| fs::read_dir(place).into_iter().flatten().flatten());
    let paths = files.map(|file| file.path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect()
}

fn panics(log: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let line = text.lines().find(|line| line.contains("panicked at"))?;
    Some(format!("a log tells of a panic: {}, {line}", log.display()))
}

fn count(acknowledged: &[Submitted], lines: &[Entry]) -> Account {
    let words = |word: &str| lines.iter().filter(|entry| entry.word == word).count();
    let rounds: std::collections::BTreeSet<_> =
        lines.iter().filter_map(|entry| entry.task.as_ref().map(|task| (&task.gang, task.round))).collect();
    let gangs = acknowledged.iter().filter(|submitted| !submitted.tasks.is_empty()).count();
    Account {
        jobs: acknowledged.len() - gangs,
        gangs,
        starts: words("start"),
        rounds: rounds.len(),
        saved: words("saved"),
        resumed: words("resumed"),
        ..Account::default()
    }
}

/// Copies what a broken promise can be understood by. Evidence that cannot be kept is no reason to lose the verdict.
fn keep(evidence: &Path, logs: &[PathBuf], ledger: &Ledger, deeds: &[Deed]) {
    let _ = fs::create_dir_all(evidence);
    for log in logs.iter().chain([&ledger.path()]) {
        let name: Vec<_> = log.iter().rev().take(2).filter_map(|part| part.to_str()).collect();
        let _ = fs::copy(log, evidence.join(name.into_iter().rev().collect::<Vec<_>>().join("-")));
    }
    let deeds: Vec<String> = deeds.iter().map(|deed| format!("{deed:?}")).collect();
    let _ = fs::write(evidence.join("deeds"), deeds.join("\n"));
}
