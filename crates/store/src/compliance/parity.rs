//! Two stores, one script: every outcome and the whole state must be equal after every step.
//!
//! A script is plain bytes, so that any property-testing tool can make and shrink it.

use std::sync::Arc;

use muster_domain::limits::Timeouts;
use muster_domain::{
    Caller, Concurrency, Device, Edit, Event, Exit, GangId, GangMembership, Hold, IfUnmet, Job, JobId,
    JobSpec, Lease, QueueName, RateLimit, ReportKind, Rule, Span, Spent, Timestamp, Topology, TopologyMode,
    Unique, Worker, WorkerId, WorkerStatus, invariants,
};

use super::quotas;
use super::stage::{memory, needing};
use crate::command::{
    Answer, Ask, Command, NewJob, Outcome, PlanPass, QueueSettings, Report, Submit, Sweep, TermsChange,
};
use crate::query::{EventFilter, JobFilter, WorkerUsage};
use crate::store::{Store, StoreExt};

/// One step: what to do, to which job, and two details.
pub type Step = [u8; 4];

/// Runs the script on both stores and compares them step by step.
pub async fn run(left: Arc<dyn Store>, right: Arc<dyn Store>, script: &[Step]) {
    let mut world = World { now: 1_700_000_000_000_000, jobs: Vec::new(), made: 0 };
    for (number, step) in script.iter().enumerate() {
        let mut commands = world.commands(&left, *step).await;
        if step[0] >= 128 {
            // Some steps put two commands into one transaction.
            commands.extend(world.commands(&left, [step[1], step[2], step[3], step[0]]).await);
        }
        let now = Timestamp::from_micros(world.now);
        let (a, b) = (left.apply(now, commands.clone()).await, right.apply(now, commands.clone()).await);
        let (a, b) = (a.unwrap(), b.unwrap());
        let (mut wake_a, mut wake_b) = (a.wake.clone(), b.wake.clone());
        wake_a.stops.sort();
        wake_b.stops.sort();
        assert_eq!(answers(a.answers), answers(b.answers), "step {number}: {commands:#?}");
        assert_eq!(wake_a, wake_b, "step {number}: {commands:#?}");
        let (state_a, state_b) = (state(&left).await, state(&right).await);
        assert_eq!(state_a, state_b, "step {number}: {commands:#?}");
        let violations = invariants::check(&state_a.jobs, &[]);
        assert!(violations.is_empty(), "step {number}: {violations:#?}");
    }
}

#[derive(Debug, PartialEq)]
struct State {
    jobs: Vec<Job>,
    workers: Vec<WorkerUsage>,
    events: Vec<Event>,
    counts: crate::query::Counts,
    queues: crate::query::Reply,
}

/// Everything that can be read, with the numbers that a backend may choose freely made equal.
async fn state(store: &Arc<dyn Store>) -> State {
    let jobs = store.jobs(JobFilter::default()).await.unwrap().jobs;
    let workers = store.workers().await.unwrap();
    let mut events = store.events(EventFilter { job: None, after: 0, limit: 100_000 }).await.unwrap();
    for (number, event) in events.iter_mut().enumerate() {
        event.seq = number as u64;
    }
    State {
        jobs: jobs.into_iter().map(|view| unnumbered(view.job)).collect(),
        workers,
        events,
        counts: store.counts().await.unwrap(),
        queues: store.read(crate::query::Query::Standings).await.unwrap(),
    }
}

fn unnumbered(job: Job) -> Job {
    Job { seq: 0, ..job }
}

fn answers(answers: Vec<Answer>) -> Vec<Answer> {
    let normal = |outcome: Outcome| match outcome {
        Outcome::Submitted(jobs) => Outcome::Submitted(
            jobs.into_iter()
                .map(|job| {
                    job.map(|mut submitted| {
                        submitted.job.seq = 0;
                        submitted
                    })
                })
                .collect(),
        ),
        Outcome::Claimed(mut jobs) => {
            for claimed in &mut jobs {
                claimed.job.seq = 0;
                for peer in &mut claimed.peers {
                    peer.seq = 0;
                }
            }
            Outcome::Claimed(jobs)
        }
        Outcome::Reported { job, repeated } => Outcome::Reported { job: unnumbered(job), repeated },
        Outcome::Heartbeat(mut reply) => {
            reply.job.seq = 0;
            Outcome::Heartbeat(reply)
        }
        Outcome::Changed { job, repeated } => Outcome::Changed { job: unnumbered(job), repeated },
        Outcome::Cancelled { mut cancelled, stopping } => {
            cancelled.sort();
            Outcome::Cancelled { cancelled, stopping }
        }
        other => other,
    };
    answers.into_iter().map(|answer| answer.map(normal)).collect()
}

/// Settings of the two queues that scripts use, one of which may be below the other.
fn queue(a: u8, b: u8) -> QueueSettings {
    let rate = RateLimit { starts: u32::from(b % 3) + 1, per: Span::from_secs(10) };
    let amount = |memory: u8| quotas::amount(u64::from(memory) * 100).flatten();
    if a % 2 == 1 {
        let terms = TermsChange {
            parent: Some((b % 3 == 1).then(|| QueueName::new("q"))),
            weight_milli: Some((b % 5 == 2).then_some(2000)),
            nominal: Some(if b.is_multiple_of(4) { None } else { amount(b % 7) }),
            borrow: Some(if b % 3 == 2 { amount(1) } else { None }),
            lend: Some(if b.is_multiple_of(5) { amount(1) } else { None }),
            max_running: Some((b % 6 == 3).then_some(1)),
            max_running_per_user: Some((b % 6 == 4).then_some(1)),
            max_queued_per_user: None,
        };
        let name = QueueName::new(if a % 4 == 1 { "r" } else { "q" });
        return QueueSettings { terms, ..QueueSettings::new(name) };
    }
    QueueSettings {
        paused: Some(a.is_multiple_of(3)),
        rate: Some(b.is_multiple_of(2).then_some(rate)),
        ..QueueSettings::new(QueueName::new("q"))
    }
}

/// Some jobs want whole GPUs, a part of one, or a worker for themselves.
fn wanting(which: u8, b: u8, spec: JobSpec) -> JobSpec {
    let mut resources = spec.resources.clone().unwrap_or_default();
    match which / 16 % 4 {
        1 => resources.gpus = u64::from(b % 3) + 1,
        2 => resources.vram_mb = u64::from(b % 4) * 20 + 10,
        3 if b.is_multiple_of(2) => (resources.gpus, resources.vram_mb) = (1, u64::from(b % 5) * 20),
        _ => {}
    }
    JobSpec { resources: Some(resources), exclusive: which % 13 == 5, ..spec }
}

fn topology(which: u8) -> Option<Topology> {
    let mode = if which.is_multiple_of(2) { TopologyMode::Pack } else { TopologyMode::Spread };
    let wanted = Topology { label: "rack".to_owned(), mode, required: which % 3 == 1 };
    which.is_multiple_of(5).then_some(wanted)
}

/// What the script has made so far.
struct World {
    now: i64,
    jobs: Vec<JobId>,
    made: u64,
}

impl World {
    async fn commands(&mut self, store: &Arc<dyn Store>, [what, which, a, b]: Step) -> Vec<Command> {
        let target = self.pick(which);
        let worker = WorkerId::new(format!("w{}", a % 3));
        match what % 30 {
            0 | 1 => vec![self.submit_one(which, a, b)],
            2 => vec![self.submit_chain(which, a)],
            3..=5 => {
                let worker = (a % 4 != 3).then_some(worker);
                vec![Command::Claim(Ask {
                    worker,
                    max: u32::from(b % 4),
                    ahead: u32::from(b % 2),
                    ..Ask::default()
                })]
            }
            6..=8 => self.report(store, target, a, b).await.into_iter().collect(),
            9 => {
                let caller = self.caller(store, target, a, b).await;
                vec![Command::Heartbeat { job: target, caller }]
            }
            10 => vec![Command::Cancel {
                job: target,
                message: a.is_multiple_of(2).then(|| "because".to_owned()),
            }],
            11 => {
                let caller = self.caller(store, target, a, b).await;
                vec![Command::AcknowledgeStop { job: target, caller, epoch: i64::from(b % 3) }]
            }
            12 => {
                let caller = self.caller(store, target, a, b).await;
                vec![Command::SaveCheckpoint {
                    job: target,
                    caller,
                    epoch: Some(i64::from(b % 2)),
                    content: crate::command::Content::Bytes(vec![a, b, 0]),
                }]
            }
            13 => vec![
                Command::RegisterWorker(self.worker(worker, b)),
                Command::WorkerHeartbeat { worker: WorkerId::new("w1"), ports: None },
            ],
            14 | 15 => vec![Command::Sweep(self.sweep(a, b))],
            16 => vec![Command::Hold { job: target, message: None }],
            17 => vec![Command::Release { job: target }],
            18 => vec![Command::Retry { job: target }],
            19 => vec![Command::Edit {
                job: target,
                edit: Edit { priority: Some(i32::from(a % 5)), ..Edit::default() },
            }],
            20 if b.is_multiple_of(3) => vec![Command::Delete { job: target }],
            20 | 21 => vec![Command::PutQueue(queue(a, b))],
            22 | 23 => vec![self.submit_gang(which, a, b)],
            24..=26 => vec![Command::Plan(self.plan(a))],
            27 => vec![Command::Preempt { job: target, message: None }],
            _ => {
                self.now += i64::from(which) * 250_000;
                Vec::new()
            }
        }
    }

    fn pick(&self, which: u8) -> JobId {
        match self.jobs.len() {
            0 => JobId::from_random([which; 16]),
            // Recent jobs are the interesting ones.
            count => self.jobs[count - 1 - usize::from(which) % count.min(12)],
        }
    }

    fn new_job(&mut self, spec: JobSpec) -> NewJob {
        self.made += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        bytes[8..].copy_from_slice(&self.made.to_be_bytes());
        let id = JobId::from_random(bytes);
        self.jobs.push(id);
        NewJob {
            first_task: None,
            id,
            spec: Arc::new(spec),
            hold: None,
            reference: None,
            depends_on: Vec::new(),
            rules: Vec::new(),
            member: None,
        }
    }

    fn submit_one(&mut self, which: u8, a: u8, b: u8) -> Command {
        let parents: Vec<String> = match a % 5 {
            0 => vec![self.pick(which).to_string()],
            1 => vec![self.pick(which).to_string(), self.pick(b).to_string()],
            2 if b == 7 => vec!["nonsense".to_owned()],
            _ => Vec::new(),
        };
        let key = (a % 16 == 15).then(|| format!("key-{}", b % 3));
        let later = |on: bool| on.then(|| Timestamp::from_micros(self.now + i64::from(a) * 500_000));
        let spec = JobSpec {
            priority: i32::from(b % 3) - 1,
            max_attempts: u32::from(a % 3) + 1,
            idempotency_key: key,
            queue: [None, Some("q"), None, Some("r")][usize::from(b % 4)].map(QueueName::new),
            user: (a % 3 == 1).then(|| "ann".to_owned()),
            fixed: a % 5 == 4,
            not_before: later(which.is_multiple_of(7)),
            deadline: later(which % 11 == 3),
            timeout: (which % 5 == 2).then(|| Span::from_secs(20)),
            concurrency: (which % 6 == 1).then(|| Concurrency { key: "k".to_owned(), limit: 1 }),
            unique: (which % 9 == 4).then(|| Unique { key: "u".to_owned(), replace: a.is_multiple_of(2) }),
            if_unmet: [None, Some(IfUnmet::Run), Some(IfUnmet::Cancel), None][usize::from(b % 4)],
            ..wanting(which, b, needing(u64::from(b % 5) * 100))
        };
        let rules = parents.iter().map(|_| Rule::ALL[usize::from(which % 7)]).collect();
        let hold = (which % 10 == 9).then_some(Hold::Asked { message: None });
        let job = NewJob { depends_on: parents, rules, hold, ..self.new_job(spec) };
        Command::Submit(Submit { jobs: vec![job], atomic: true, set: None })
    }

    fn submit_chain(&mut self, which: u8, a: u8) -> Command {
        let first_parent = a.is_multiple_of(3).then(|| self.pick(which).to_string());
        let mut jobs = Vec::new();
        for n in 0..3_u8 {
            let depends_on =
                if n == 0 { first_parent.iter().cloned().collect() } else { vec![format!("r{}", n - 1)] };
            let job = self.new_job(JobSpec { max_attempts: 1, ..JobSpec::shell("chain") });
            jobs.push(NewJob { reference: Some(format!("r{n}")), depends_on, ..job });
        }
        if a.is_multiple_of(2) {
            jobs.reverse();
        }
        Command::Submit(Submit { jobs, atomic: a % 4 < 2, set: None })
    }

    fn submit_gang(&mut self, which: u8, a: u8, b: u8) -> Command {
        let size = u32::from(a % 3) + 2;
        let id = GangId::from_uuid(self.new_job(JobSpec::shell("unused")).id.as_uuid());
        self.jobs.pop();
        let depends_on: Vec<String> =
            if which.is_multiple_of(4) { vec![self.pick(b).to_string()] } else { Vec::new() };
        let tasks = (0..size).map(|index| {
            let gang = GangMembership {
                id,
                size,
                index,
                min: (b % 5 == 1).then_some(2),
                per_worker: u32::from(b % 3) + 1,
                keep_done: which.is_multiple_of(3),
                topology: topology(which),
            };
            let spec = JobSpec {
                gang: Some(gang),
                max_attempts: u32::from(b % 3) + 1,
                priority: i32::from(a % 3),
                deadline: (which % 11 == 3)
                    .then(|| Timestamp::from_micros(self.now + i64::from(a) * 500_000)),
                timeout: (which % 5 == 2).then(|| Span::from_secs(20)),
                queue: (a % 4 == 1).then(|| QueueName::new("r")),
                ..wanting(which, b % 3, needing(u64::from(b % 3) * 50))
            };
            let first_task = (index > 0).then_some(0);
            NewJob { depends_on: depends_on.clone(), first_task, ..self.new_job(spec) }
        });
        let jobs = tasks.collect();
        Command::Submit(Submit { jobs, atomic: true, set: None })
    }

    fn plan(&self, a: u8) -> PlanPass {
        let since = if a.is_multiple_of(5) { self.now } else { 0 };
        PlanPass {
            timeouts: Timeouts::default(),
            listening_since: Timestamp::from_micros(since),
            limit: usize::from(a % 3) + 1,
            look: a.is_multiple_of(2),
            allowances: muster_planner::policy::Allowances::default(),
        }
    }

    /// Someone who may or may not speak for the job.
    async fn caller(&self, store: &Arc<dyn Store>, job: JobId, a: u8, b: u8) -> Caller {
        let lease = store.job(job).await.unwrap().map_or(Lease(0), |view| view.job.lease);
        match a % 8 {
            0 => Caller::default(),
            1 => Caller { lease: None, worker: Some(WorkerId::new(format!("w{}", b % 3))) },
            2 => Caller { lease: Some(Lease(lease.0.saturating_sub(1))), worker: None },
            3 => Caller { lease: Some(lease.next()), worker: None },
            _ => Caller { lease: Some(lease), worker: None },
        }
    }

    async fn report(&self, store: &Arc<dyn Store>, job: JobId, a: u8, b: u8) -> Option<Command> {
        let caller = self.caller(store, job, a, b).await;
        let (kind, code) = match b % 10 {
            0..=2 => (ReportKind::Done, 0),
            3 | 6 => (ReportKind::Failed, 1),
            7 => (ReportKind::Failed, 75),
            8 => (ReportKind::TimedOut, 143),
            9 => (ReportKind::OutOfMemory, 137),
            4 if a % 4 == 2 => (ReportKind::Finished, 0),
            4 => (ReportKind::Released, 143),
            _ => (ReportKind::Preempted, 143),
        };
        let exit = Exit { code: Some(code), signal: (b % 7 == 6).then_some(9) };
        let message = (a % 9 == 8).then(|| "went wrong".to_owned());
        let outputs = (a % 4 == 1).then(|| Arc::from(format!("{{\"n\":{b}}}")));
        let spent =
            a.is_multiple_of(3).then(|| Spent { cpu_user_ms: Some(u64::from(b) * 10), ..Spent::default() });
        Some(Command::Report(Report { job, caller, kind, exit, message, outputs, spent }))
    }

    fn worker(&self, id: WorkerId, size: u8) -> Worker {
        let device = |index| Device { index, vram_mb: 40 + 40 * u64::from(index), ..Device::default() };
        let devices: Vec<Device> = (0..u32::from(size / 8 % 4)).map(device).collect();
        Worker {
            ports: muster_domain::Ports::default(),
            kept: None,
            id,
            exec_addr: "host:1".to_owned(),
            resources: memory(u64::from(size) * 4).with_devices(&devices),
            tags: ["tag".to_owned()].into(),
            labels: [("rack".to_owned(), format!("r{}", size % 3))].into(),
            devices,
            slots: size.is_multiple_of(3).then_some(u32::from(size % 5)),
            hostname: Some("host".to_owned()),
            isolation: size.is_multiple_of(3).then(|| "none".to_owned()),
            run_as: None,
            version: None,
            status: WorkerStatus::Offline,
            last_heartbeat: Timestamp::from_micros(self.now),
            registered_at: Timestamp::default(),
            assumed: false,
            health: muster_domain::Health::default(),
        }
    }

    fn sweep(&self, a: u8, b: u8) -> Sweep {
        let listening_since =
            if a.is_multiple_of(4) { Timestamp::from_micros(self.now) } else { Timestamp::default() };
        let retention = b.is_multiple_of(8).then(|| Span::from_secs(60));
        Sweep { timeouts: muster_domain::limits::Timeouts::default(), listening_since, limit: 50, retention }
    }
}
