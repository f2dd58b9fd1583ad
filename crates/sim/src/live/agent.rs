//! Workers that are made up, speaking the real protocol: one long poll for work and orders, and signs of life and
//! reports beside it.

use std::sync::Arc;
use std::time::Duration;

use muster_domain::{Job, JobId, Lease, ReportKind, Span, Timestamp};
use muster_protocol::{JobReport, LeaseRef, RegisterRequest, SyncRequest, SyncResponse};
use muster_store::{Command, Content};

use super::network::{Lost, Message, Reply};
use super::stage::{Stage, World};
use crate::cluster::MOST_AT_ONCE;
use crate::worker::{End, ProcessKey, checkpoint, prepared};

/// Signs of life.
const BEAT: Duration = Duration::from_secs(10);
/// How long a message may be on its way after its sender has given up.
const DOUBT: Span = Span::from_secs(60);
/// How long the word to start is waited for, before what is prepared is said again.
const GO_WAIT: Duration = Duration::from_secs(3);
/// How often leases are looked at, and how long before its end a process is stopped.
const FENCE_TICK: Duration = Duration::from_millis(500);
const FENCE_SAFETY: Span = Span::from_secs(2);
/// How long a poll waits.
const WAIT: Duration = Duration::from_secs(20);

/// A request of a worker, and what the answer to it is about.
struct Said {
    message: Message,
    life: u64,
    /// In the order of the results.
    commands: Vec<Command>,
    claim: Option<Arc<str>>,
    ports: Option<Vec<u16>>,
    /// When it was said: no lease in the answer is younger.
    at: Timestamp,
}

impl Stage {
    /// Lets a worker begin.
    pub(crate) fn employ(&self, index: usize, fenced: bool) {
        self.world().ledger.workers[index].fenced = fenced;
        tokio::spawn(self.clone().polls(index));
        tokio::spawn(self.clone().beats(index));
        tokio::spawn(self.clone().assembles(index));
        if fenced {
            tokio::spawn(self.clone().fences(index));
        }
    }

    /// Says which tasks are prepared and waits for the word to start them.
    async fn assembles(self, index: usize) {
        let mut home = (index + 2) % self.world().instances.len();
        loop {
            let pause = match self.awaited(index) {
                Some(said) => self.exchange(index, &mut home, said).await,
                None => Duration::from_millis(100),
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn awaited(&self, index: usize) -> Option<Said> {
        let (life, commands) = {
            let world = self.world();
            let worker = &world.ledger.workers[index];
            if !worker.is_up() || worker.prepared.is_empty() {
                return None;
            }
            (world.lives[index], worker.prepared.keys().map(|task| prepared(*task)).collect::<Vec<_>>())
        };
        let request = SyncRequest {
            prepared: commands.iter().filter_map(lease_ref).collect(),
            wait_ms: GO_WAIT.as_millis() as u64,
            ..SyncRequest::default()
        };
        let message = self.sync(index, &request, GO_WAIT + Duration::from_secs(5), true);
        let at = self.world().now();
        Some(Said { message, life, commands, claim: None, ports: None, at })
    }

    /// Stops what has not been renewed for almost as long as its lease lasts, whether or not anybody can be reached.
    async fn fences(self, index: usize) {
        loop {
            tokio::time::sleep(FENCE_TICK).await;
            let mut world = self.world();
            let now = world.now();
            let due = world.ledger.workers[index].lapsed(now + FENCE_SAFETY);
            world.fenced += due.len() as u64;
            for process in due {
                world.ledger.workers[index].ends(process, End::GivenBack);
            }
        }
    }

    async fn polls(self, index: usize) {
        let mut home = index % self.world().instances.len();
        // Who asks before it is known gets whatever there is; a worker does not.
        while !self.register(index, home).await {
            home = (home + 1) % self.world().instances.len();
            let pause = self.world().pause(200, 2_000);
            tokio::time::sleep(pause).await;
        }
        loop {
            let pause = match self.poll(index) {
                Some(said) => self.exchange(index, &mut home, said).await,
                None => Duration::from_millis(700),
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn beats(self, index: usize) {
        let mut home = (index + 1) % self.world().instances.len();
        loop {
            tokio::select! {
                biased;
                () = self.urgent(index).notified() => {}
                () = tokio::time::sleep(BEAT) => {}
            }
            // Reports wait a moment for others.
            tokio::time::sleep(Duration::from_millis(20)).await;
            let Some((said, others)) = self.beat(index) else { continue };
            let pause = self.exchange(index, &mut home, said).await;
            for (command, message) in others {
                self.tell(index, home, &command, &message).await;
            }
            if self.world().ledger.workers[index].has_news() {
                tokio::time::sleep(pause).await;
                self.urgent(index).notify_one();
            }
        }
    }

    /// Says something and acts on the answer; returns how long to rest.
    async fn exchange(&self, index: usize, home: &mut usize, said: Said) -> Duration {
        let reply = match &said.ports {
            Some(_) => self.announce(index, *home, &said.message).await,
            None => self.call(index, *home, &said.message).await,
        };
        match reply {
            Ok(reply) if reply.status == 200 => {
                if let Ok(response) = serde_json::from_slice::<SyncResponse>(&reply.body) {
                    self.take(index, &said, &response);
                }
                self.world().pause(5, 60)
            }
            Ok(reply) if reply.status == 404 => {
                self.register(index, *home).await;
                self.world().pause(50, 500)
            }
            _ => {
                let mut world = self.world();
                let schedulers = world.instances.len();
                *home = world.random.below(schedulers);
                world.pause(200, 2_000)
            }
        }
    }

    /// Says what the worker has; whether that was answered.
    pub(crate) async fn register(&self, index: usize, home: usize) -> bool {
        let message = {
            let world = self.world();
            let worker = &world.ledger.workers[index];
            let Command::RegisterWorker(row) = worker.registration() else { return false };
            let gpu = |device: &muster_domain::Device| muster_protocol::Gpu {
                index: device.index,
                vram_mb: device.vram_mb,
                ..muster_protocol::Gpu::default()
            };
            let request = RegisterRequest {
                id: row.id.to_string(),
                exec_addr: row.exec_addr.clone(),
                resources: Some(muster_protocol::Resources {
                    memory_mb: row.resources.memory_mb,
                    ..muster_protocol::Resources::default()
                }),
                gpus: row.devices.iter().map(gpu).collect(),
                slots: row.slots,
                ports: row.ports.kept.clone(),
                ..RegisterRequest::default()
            };
            let body = serde_json::to_vec(&request).unwrap_or_default();
            Message { once: true, ..Message::new("POST", "/workers/register".to_owned(), body) }
        };
        self.announce(index, home, &message).await.is_ok_and(|reply| (200..300).contains(&reply.status))
    }

    /// Says something about the ports. Without an answer, or beside something else of the kind, it may be heard later
    /// than what was said after it.
    async fn announce(&self, index: usize, home: usize, message: &Message) -> Result<Reply, Lost> {
        let before = {
            let mut world = self.world();
            let worker = &mut world.ledger.workers[index];
            worker.announcing += 1;
            worker.announcing
        };
        let reply = self.call(index, home, message).await;
        let mut world = self.world();
        let until = world.now() + DOUBT;
        let worker = &mut world.ledger.workers[index];
        worker.announcing -= 1;
        if reply.is_err() || before > 1 || worker.announcing > 0 {
            worker.doubted_until = until;
        }
        reply
    }

    fn sync(&self, index: usize, request: &SyncRequest, patience: Duration, once: bool) -> Message {
        let path = format!("/workers/{}/sync", self.world().ledger.workers[index].id);
        let body = serde_json::to_vec(request).unwrap_or_default();
        Message { patience, once, ..Message::new("POST", path, body) }
    }

    /// The wish for work and orders.
    fn poll(&self, index: usize) -> Option<Said> {
        let (life, ask) = {
            let mut world = self.world();
            let now = world.now();
            if !world.ledger.workers[index].is_up() {
                return None;
            }
            (world.lives[index], world.ledger.workers[index].ask(now, MOST_AT_ONCE))
        };
        let (claim, again) = match ask {
            Some(Command::Claim(ask)) => (ask.key, ask.again),
            _ => (None, false),
        };
        let (prepares, own_leases, at) = {
            let world = self.world();
            let worker = &world.ledger.workers[index];
            (worker.prepares, worker.fenced, worker.claimed_since(world.now()))
        };
        let request = SyncRequest {
            max: claim.as_ref().map_or(0, |_| MOST_AT_ONCE),
            wait_ms: WAIT.as_millis() as u64,
            orders: true,
            claim_key: claim.as_deref().map(str::to_owned),
            claim_again: again,
            prepares,
            own_leases,
            ..SyncRequest::default()
        };
        let message = self.sync(index, &request, WAIT + Duration::from_secs(5), true);
        Some(Said { message, life, commands: Vec::new(), claim, ports: None, at })
    }

    /// Signs of life, reports, and what does not fit in with them.
    fn beat(&self, index: usize) -> Option<(Said, Vec<(Command, Message)>)> {
        let (life, all) = {
            let mut world = self.world();
            let worker = &mut world.ledger.workers[index];
            if !worker.is_up() {
                return None;
            }
            let mut all = worker.beat();
            all.push(worker.announcement());
            (world.lives[index], all)
        };
        let mut request = SyncRequest::default();
        let (mut reports, mut beats, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for command in all {
            match &command {
                Command::Report(report) => {
                    request.reports.push(job_report(report));
                    reports.push(command);
                }
                Command::Heartbeat { job, caller } => {
                    let lease = caller.lease.map_or(0, |lease| lease.0);
                    request.heartbeats.push(LeaseRef { job_id: job.to_string(), lease });
                    beats.push(command);
                }
                // Said where the answer is waited for.
                Command::Prepared { .. } => {
                    request.heartbeats.extend(lease_ref(&command));
                    beats.push(command);
                }
                Command::WorkerHeartbeat { ports, .. } => request.ports.clone_from(ports),
                _ => others.extend(aside(&command).map(|message| (command, message))),
            }
        }
        let spoken = !request.reports.is_empty();
        // What the ports are is said in order, and once; the rest may come twice and late.
        request.ports = request.ports.filter(|_| !spoken);
        let ports = request.ports.clone();
        let mut message = self.sync(index, &request, Duration::from_secs(8), false);
        if spoken {
            self.world().remember(index, &message);
        }
        message.once = !spoken;
        reports.extend(beats);
        let at = self.world().now();
        Some((Said { message, life, commands: reports, claim: None, ports, at }, others))
    }

    /// Says what has a request of its own; whatever the answer is, it need not be said again.
    async fn tell(&self, index: usize, home: usize, command: &Command, message: &Message) {
        let life = self.world().lives[index];
        let Ok(reply) = self.call(index, home, message).await else { return };
        let mut world = self.world();
        if reply.status < 500 && world.lives[index] == life {
            world.ledger.workers[index].is_answered(command);
        }
    }

    fn take(&self, index: usize, said: &Said, response: &SyncResponse) {
        {
            let mut world = self.world();
            if world.lives[index] != said.life || !world.ledger.workers[index].is_up() {
                return;
            }
            let worker = &mut world.ledger.workers[index];
            for (command, result) in said.commands.iter().zip(&response.results) {
                match command {
                    Command::Heartbeat { job, caller } if result.status != 200 => {
                        if let Some(lease) = caller.lease {
                            worker.processes.remove(&(*job, lease));
                        }
                    }
                    Command::Heartbeat { job, caller } => {
                        let process = caller.lease.and_then(|lease| worker.processes.get_mut(&(*job, lease)));
                        if let Some(process) = process {
                            process.renewed = process.renewed.max(said.at);
                        }
                    }
                    Command::Prepared { job, caller } => {
                        let Some(key) = caller.lease.map(|lease| (*job, lease)) else { continue };
                        if result.status != 200 {
                            worker.prepared.remove(&key);
                        } else if let Some(held) = worker.prepared.get_mut(&key) {
                            held.renewed = held.renewed.max(said.at);
                        }
                    }
                    command => worker.is_answered(command),
                }
            }
            if let Some(ports) = &said.ports {
                worker.is_announced(ports);
            }
        }
        for task in &response.go {
            if let Ok(job) = task.job_id.parse::<JobId>() {
                self.go(index, (job, Lease(task.lease)));
            }
        }
        for order in &response.stop {
            if let Ok(job) = order.job_id.parse::<JobId>() {
                self.stop(index, (job, Lease(order.lease)), order.preemption_epoch);
            }
        }
        if said.claim.is_some() {
            self.begin(index, said, response);
        }
    }

    /// Starts what was handed over.
    fn begin(&self, index: usize, said: &Said, response: &SyncResponse) {
        let mut world = self.world();
        let key = |job: &muster_protocol::Job| Some((job.id.parse::<JobId>().ok()?, Lease(job.lease)));
        let found: Vec<ProcessKey> = response.jobs.iter().filter_map(key).collect();
        let known: Vec<Job> = found.iter().filter_map(|key| Some(world.handed.get(key)?.0.clone())).collect();
        let new = world.ledger.workers[index].starts(said.claim.as_ref(), &known);
        for process in found {
            let handed_at = world.handed.get(&process).map(|(_, at)| *at);
            let worker = &mut world.ledger.workers[index];
            let held = worker.processes.get_mut(&process).filter(|_| new.contains(&process));
            let held = held.or_else(|| worker.prepared.get_mut(&process));
            if let (Some(at), Some(held)) = (handed_at, held) {
                held.heard = held.heard.max(at);
                held.renewed = said.at;
            }
        }
        for process in new {
            self.lasts(&mut world, index, process);
        }
        self.urgent(index).notify_one();
    }

    /// A prepared task starts.
    fn go(&self, index: usize, task: ProcessKey) {
        let mut world = self.world();
        let now = world.now();
        match world.ledger.goes(now, index, task) {
            Ok(true) => self.lasts(&mut world, index, task),
            Ok(false) => {}
            Err(broken) => self.breaks(&mut world, broken),
        }
    }

    /// Decides how long a process runs and how it ends.
    fn lasts(&self, world: &mut World, index: usize, process: ProcessKey) {
        let Some((low, high)) = world.mischief.lasts else { return };
        let how = match world.random.below(1000) as u32 {
            n if n < world.mischief.fails => End::Badly,
            n if n < world.mischief.fails + world.mischief.asks_again => End::NotNow,
            n if n < world.mischief.fails + world.mischief.asks_again + 10 => End::GivenBack,
            _ => End::Well,
        };
        let lasts = world.random.millis(low, high);
        self.ends_after(index, process, how, lasts);
    }

    /// A process is told to stop.
    fn stop(&self, index: usize, key: ProcessKey, epoch: u32) {
        let mut world = self.world();
        let (hangs, finishes) = (world.mischief.hangs, world.mischief.finishes);
        let (hangs, done, slow) =
            (world.random.chance(hangs), world.random.chance(finishes), world.random.chance(100));
        let (low, high) = world.mischief.grace;
        let takes = world.random.millis(low, if slow { high } else { high / 20 });
        if world.ledger.workers[index].withdraws(key, End::Told).is_some() {
            return self.urgent(index).notify_one();
        }
        let Some(process) = world.ledger.workers[index].processes.get_mut(&key) else { return };
        if process.told.is_some() {
            return;
        }
        // What does not listen is killed when its grace is over, where the worker fences.
        let hangs = hangs && process.lease.is_none();
        process.told = Some(epoch);
        process.hangs = hangs;
        let home = index % world.instances.len();
        drop(world);
        if key.1.0 % 4 == 1
            && let Some(message) = aside(&checkpoint(key, 0, Some(epoch)))
        {
            let stage = self.clone();
            tokio::spawn(async move {
                let _ = stage.call(index, home, &message).await;
            });
        }
        if !hangs {
            let how = if done { End::ToldButDone } else { End::Told };
            self.ends_after(index, key, how, takes);
        }
    }

    fn ends_after(&self, index: usize, process: ProcessKey, how: End, takes: Span) {
        let stage = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(takes.as_micros())).await;
            let ended = stage.world().ledger.workers[index].ends(process, how);
            if ended.is_some() {
                stage.urgent(index).notify_one();
            }
        });
    }
}

fn lease_ref(command: &Command) -> Option<LeaseRef> {
    let (Command::Heartbeat { job, caller } | Command::Prepared { job, caller }) = command else {
        return None;
    };
    Some(LeaseRef { job_id: job.to_string(), lease: caller.lease?.0 })
}

fn job_report(report: &muster_store::Report) -> JobReport {
    let kind = match report.kind {
        ReportKind::Done => muster_protocol::ReportKind::Done,
        ReportKind::Failed => muster_protocol::ReportKind::Failed,
        ReportKind::Refused => muster_protocol::ReportKind::Refused,
        ReportKind::TimedOut => muster_protocol::ReportKind::TimedOut,
        ReportKind::OutOfMemory => muster_protocol::ReportKind::Oom,
        ReportKind::Released => muster_protocol::ReportKind::Released,
        ReportKind::Preempted => muster_protocol::ReportKind::Preempted,
        ReportKind::Finished => muster_protocol::ReportKind::Finished,
        ReportKind::Lost => muster_protocol::ReportKind::Lost,
    };
    JobReport {
        job_id: report.job.to_string(),
        lease: report.caller.lease.map_or(0, |lease| lease.0),
        kind,
        exit_code: report.exit.code,
        signal: None,
        message: None,
        rule: None,
        outputs: None,
        usage: None,
    }
}

/// What has a request of its own.
fn aside(command: &Command) -> Option<Message> {
    match command {
        Command::AcknowledgeStop { job, caller, epoch } => {
            let lease = caller.lease.map_or(String::new(), |lease| format!("&lease={lease}"));
            let path = format!("/jobs/{job}/preempted?epoch={epoch}{lease}");
            Some(Message::new("POST", path, ""))
        }
        Command::SaveCheckpoint { job, caller, epoch, content: Content::Bytes(bytes) } => {
            let proof = match (caller.lease, epoch) {
                (Some(lease), _) => format!("lease={lease}"),
                (None, Some(epoch)) => format!("epoch={epoch}"),
                (None, None) => String::new(),
            };
            Some(Message::new("POST", format!("/jobs/{job}/checkpoint?{proof}"), bytes.clone()))
        }
        _ => None,
    }
}
