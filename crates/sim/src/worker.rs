//! A worker that is made up: processes that only have a time to end, and the habits of the real one. It
//! sends a report until it has an answer, asks again for a claim whose answer was lost, kills what the
//! scheduler no longer knows, and keeps everything through a time without network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_domain::{
    Caller, Device, Exit, GangId, Grant, Health, Job, JobId, Lease, Ports, ReportKind, Resources, Span,
    Status, Timestamp, Worker, WorkerId, WorkerStatus,
};
use muster_store::{Ask, Command, Content, Report};

/// A process is known by the job and the lease that it runs for.
pub(crate) type ProcessKey = (JobId, Lease);

/// Ports that a worker keeps for gangs.
const KEPT_PORTS: usize = 16;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Well,
    Badly,
    /// Asks to be run again.
    NotNow,
    /// The worker gives it back.
    GivenBack,
    /// It was told to stop.
    Told,
    /// It was told to stop and says that its work is done.
    ToldButDone,
}

impl End {
    fn report(self) -> (ReportKind, i32) {
        match self {
            Self::Well => (ReportKind::Done, 0),
            Self::Badly => (ReportKind::Failed, 1),
            Self::NotNow => (ReportKind::Failed, 75),
            Self::GivenBack => (ReportKind::Released, 143),
            Self::Told => (ReportKind::Preempted, 143),
            Self::ToldButDone => (ReportKind::Finished, 0),
        }
    }
}

/// A process that runs.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) gang: Option<GangId>,
    /// The round of its gang that it belongs to.
    pub(crate) round: u32,
    /// Where its peers find it.
    pub(crate) address: String,
    /// The GPUs that it was told to use.
    pub(crate) devices: Option<Grant>,
    /// It was told to stop, in the stop with this epoch.
    pub(crate) told: Option<u32>,
    /// It does not listen to that.
    pub(crate) hangs: bool,
    /// When the scheduler last heard of it, and the longest time without.
    pub(crate) heard: Timestamp,
    pub(crate) silent_for: Span,
    /// When that was said which renewed its lease last, and how long the lease lasts.
    pub(crate) renewed: Timestamp,
    pub(crate) lease: Option<Span>,
}

impl Process {
    pub(crate) fn is_heard(&mut self, now: Timestamp) {
        self.silent_for = self.silent_for.max(now.since(self.heard));
        self.heard = now;
    }

    /// Whether the scheduler had reason to take it for gone.
    pub(crate) fn was_silent(&self, now: Timestamp, bound: Span) -> bool {
        self.silent_for.max(now.since(self.heard)) > bound
    }
}

/// Whether a worker can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    Up,
    /// Its processes run on, but nothing gets through.
    Cut,
    /// Gone with all its processes.
    Down,
}

#[derive(Debug)]
pub(crate) struct SimWorker {
    pub(crate) id: WorkerId,
    pub(crate) resources: Resources,
    pub(crate) slots: Option<u32>,
    pub(crate) reach: Reach,
    /// Until then it beats, but asks for nothing.
    pub(crate) shuns_until: Timestamp,
    pub(crate) processes: BTreeMap<ProcessKey, Process>,
    /// Whether it prepares tasks of gangs and starts them when it is told to, or starts them at their claim.
    pub(crate) prepares: bool,
    /// Tasks that are prepared, as they will be once they start.
    pub(crate) prepared: BTreeMap<ProcessKey, Process>,
    /// What it has to report and got no answer to.
    pub(crate) outbox: BTreeMap<ProcessKey, Command>,
    /// The claim that it got no answer to.
    open_claim: Option<Arc<str>>,
    claims: u64,
    beats: u64,
    ports: BTreeSet<u16>,
    next_port: u16,
    /// The scheduler may not know yet which ports it keeps now.
    pub(crate) unannounced: bool,
    /// Until then something that it said of its ports and that got no answer may still be heard.
    pub(crate) doubted_until: Timestamp,
    /// How much of that is said and not answered yet.
    pub(crate) announcing: u32,
    /// It stops each process before its lease ends.
    pub(crate) fenced: bool,
    /// When the claim that it got no answer to was made first.
    claimed_at: Timestamp,
}

impl SimWorker {
    pub(crate) fn new(name: &str, resources: Resources, slots: Option<u32>) -> Self {
        let mut worker = Self {
            id: WorkerId::new(name),
            resources,
            slots,
            reach: Reach::Up,
            shuns_until: Timestamp::default(),
            processes: BTreeMap::new(),
            prepares: true,
            prepared: BTreeMap::new(),
            outbox: BTreeMap::new(),
            open_claim: None,
            claims: 0,
            beats: 0,
            ports: BTreeSet::new(),
            next_port: 20_000,
            unannounced: false,
            doubted_until: Timestamp::default(),
            announcing: 0,
            fenced: false,
            claimed_at: Timestamp::default(),
        };
        worker.keep_ports();
        worker
    }

    fn keep_ports(&mut self) {
        while self.ports.len() < KEPT_PORTS {
            self.ports.insert(self.next_port);
            self.next_port = if self.next_port == 60_000 { 20_000 } else { self.next_port + 1 };
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.reach == Reach::Up
    }

    /// As many as it has GPUs, each with its part of their memory.
    fn devices(&self) -> Vec<Device> {
        let (count, vram_mb) = (self.resources.gpus, self.resources.vram_mb);
        let device =
            |index: u64| Device { index: index as u32, vram_mb: vram_mb / count, ..Device::default() };
        (0..count).map(device).collect()
    }

    pub(crate) fn registration(&self) -> Command {
        Command::RegisterWorker(Worker {
            kept: None,
            id: self.id.clone(),
            exec_addr: self.id.to_string(),
            resources: self.resources.clone(),
            tags: BTreeSet::new(),
            devices: self.devices(),
            labels: BTreeMap::new(),
            slots: self.slots,
            hostname: None,
            isolation: None,
            run_as: None,
            version: None,
            status: WorkerStatus::Active,
            last_heartbeat: Timestamp::default(),
            registered_at: Timestamp::default(),
            assumed: false,
            health: Health::default(),
            ports: Ports { kept: self.ports.iter().copied().collect(), ..Ports::default() },
        })
    }

    /// A sign of life of the worker with the ports that it keeps.
    pub(crate) fn announcement(&self) -> Command {
        let ports = Some(self.ports.iter().copied().collect());
        Command::WorkerHeartbeat { worker: self.id.clone(), ports }
    }

    /// An announcement has arrived, and the answer to it too.
    pub(crate) fn is_announced(&mut self, ports: &[u16]) {
        self.unannounced &= !self.ports.iter().eq(ports);
    }

    /// Signs of life of itself and its processes, and what it still has to say.
    pub(crate) fn beat(&mut self) -> Vec<Command> {
        self.beats += 1;
        let mut commands = Vec::new();
        if self.beats.is_multiple_of(2) {
            commands.push(self.announcement());
        }
        for (job, lease) in self.processes.keys() {
            commands.push(Command::Heartbeat { job: *job, caller: caller(*lease) });
            if (self.beats + lease.0).is_multiple_of(8) {
                commands.push(checkpoint((*job, *lease), self.beats, None));
            }
        }
        commands.extend(self.prepared.keys().map(|key| prepared(*key)));
        commands.extend(self.outbox.values().cloned());
        commands
    }

    /// Whether the scheduler may know less of its ports, or what it knew before.
    pub(crate) fn is_doubted(&self, now: Timestamp) -> bool {
        self.unannounced || self.announcing > 0 || now < self.doubted_until
    }

    /// Whether something waits to be said.
    pub(crate) fn has_news(&self) -> bool {
        !self.outbox.is_empty() || self.unannounced
    }

    /// A wish for work; the one that got no answer first.
    pub(crate) fn ask(&mut self, now: Timestamp, max: u32) -> Option<Command> {
        if now < self.shuns_until {
            return None;
        }
        let again = self.open_claim.is_some();
        if !again {
            self.claimed_at = now;
        }
        let key = self.open_claim.clone().unwrap_or_else(|| {
            self.claims += 1;
            Arc::from(format!("{}-{}", self.id, self.claims))
        });
        self.open_claim = Some(Arc::clone(&key));
        let (worker, key, prepares) = (Some(self.id.clone()), Some(key), self.prepares);
        Some(Command::Claim(Ask { worker, max, key, again, prepares, ..Ask::default() }))
    }

    /// No lease that the next claim brings is younger.
    pub(crate) fn claimed_since(&self, now: Timestamp) -> Timestamp {
        if self.open_claim.is_some() { self.claimed_at.min(now) } else { now }
    }

    /// The processes whose lease has ended by then, unless it is renewed.
    pub(crate) fn lapsed(&self, then: Timestamp) -> Vec<ProcessKey> {
        let ended = |process: &Process| process.lease.is_some_and(|lease| process.renewed + lease < then);
        self.processes.iter().filter(|(_, process)| ended(process)).map(|(key, _)| *key).collect()
    }

    /// The answer to a claim: the processes that are new. Tasks that are to wait for others are prepared.
    pub(crate) fn starts(&mut self, key: Option<&Arc<str>>, jobs: &[Job]) -> Vec<ProcessKey> {
        if self.open_claim.as_ref() == key {
            self.open_claim = None;
        }
        let mut new = Vec::new();
        for job in jobs {
            let process = (job.id, job.lease);
            let known = [&self.processes, &self.prepared].into_iter().any(|held| held.contains_key(&process));
            if known || self.outbox.contains_key(&process) {
                continue;
            }
            let round = job.round.as_ref();
            if let Some(port) = round.and_then(|round| round.port) {
                self.unannounced |= self.ports.remove(&port);
            }
            let state = Process {
                gang: job.spec.gang.as_ref().map(|gang| gang.id),
                round: job.reservation_epoch,
                devices: job.devices.clone(),
                address: round.map(|round| round.address.clone()).unwrap_or_default(),
                told: None,
                hangs: false,
                // A claim that was answered late was made long before its process starts.
                heard: job.last_sign_of_life(),
                silent_for: Span::ZERO,
                renewed: job.last_sign_of_life(),
                lease: job.lease_span,
            };
            if job.status() == Status::Reserved {
                self.prepared.insert(process, state);
                continue;
            }
            self.processes.insert(process, state);
            new.push(process);
        }
        self.keep_ports();
        new
    }

    /// A prepared task is told to start; whether it does.
    pub(crate) fn goes(&mut self, task: ProcessKey) -> bool {
        let Some(process) = self.prepared.remove(&task) else { return false };
        self.processes.insert(task, process);
        true
    }

    /// A prepared task is not to be started any more; what the worker has to report of it.
    pub(crate) fn withdraws(&mut self, task: ProcessKey, how: End) -> Option<Command> {
        self.prepared.remove(&task)?;
        let report = report(task, how);
        self.outbox.insert(task, report.clone());
        Some(report)
    }

    /// A process is over; what the worker has to report of it.
    pub(crate) fn ends(&mut self, process: ProcessKey, how: End) -> Option<Command> {
        let gone = self.processes.remove(&process)?;
        let how = match how {
            End::Well | End::Badly | End::NotNow | End::GivenBack if gone.told.is_some() => End::Told,
            how => how,
        };
        let report = match (how, gone.told) {
            (End::Told, Some(epoch)) if process.1.0 % 4 == 3 => acknowledgement(process, epoch),
            _ => report(process, how),
        };
        self.outbox.insert(process, report.clone());
        Some(report)
    }

    /// Whatever the answer was, it need not be said again.
    pub(crate) fn is_answered(&mut self, command: &Command) {
        self.outbox.retain(|_, said| said != command);
    }

    /// The machine stops; everything on it is gone.
    pub(crate) fn crash(&mut self) {
        self.reach = Reach::Down;
        self.processes.clear();
        self.prepared.clear();
        self.outbox.clear();
        self.open_claim = None;
    }
}

pub(crate) const fn caller(lease: Lease) -> Caller {
    Caller { lease: Some(lease), worker: None }
}

/// Nothing but the start is left to do.
pub(crate) const fn prepared((job, lease): ProcessKey) -> Command {
    Command::Prepared { job, caller: caller(lease) }
}

fn report(process: ProcessKey, how: End) -> Command {
    let (kind, code) = how.report();
    Command::Report(Report {
        job: process.0,
        caller: caller(process.1),
        kind,
        exit: Exit { code: Some(code), signal: None },
        message: None,
        outputs: None,
        spent: None,
    })
}

/// What old workers say about a stop, some of them without proof of who they are.
fn acknowledgement((job, lease): ProcessKey, epoch: u32) -> Command {
    let caller = if lease.0 % 8 == 3 { Caller::default() } else { caller(lease) };
    Command::AcknowledgeStop { job, caller, epoch: i64::from(epoch) }
}

/// What a process leaves for its next attempt, as it runs or, with the epoch, as it stops.
pub(crate) fn checkpoint((job, lease): ProcessKey, number: u64, epoch: Option<u32>) -> Command {
    let mut bytes = vec![0, 255];
    bytes.extend(lease.0.to_be_bytes());
    bytes.extend(number.to_be_bytes());
    let caller = if epoch.is_some() { Caller::default() } else { caller(lease) };
    let (epoch, content) = (epoch.map(i64::from), Content::Bytes(bytes));
    Command::SaveCheckpoint { job, caller, epoch, content }
}
