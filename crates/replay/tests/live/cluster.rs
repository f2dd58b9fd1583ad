//! The engine of the running scheduler with workers that ask whenever something changed, under a clock that
//! jumps from event to event. Nothing fails here and nothing takes time but the jobs themselves.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;

use futures::executor::block_on;
use muster_domain::limits::Timeouts;
use muster_domain::{
    Caller, Exit, GangId, GangMembership, Health, JobId, JobSpec, Lease, Ports, ReportKind, Resources, Span,
    Timestamp, Worker, WorkerId, WorkerStatus,
};
use muster_replay::{Cluster, Policy, TraceJob, Workload};
use muster_store::{Ask, Command, MemoryStore, NewJob, Outcome, PlanPass, Report, Store, Submit};

/// When a job started and when it ended.
pub(crate) type Fate = (Timestamp, Timestamp);

/// A task that runs: its lease, and the unit that it belongs to.
struct Running {
    lease: Lease,
    unit: usize,
}

struct Live<'a> {
    jobs: &'a [TraceJob],
    store: MemoryStore,
    workers: Vec<WorkerId>,
    /// The unit of each job of the store.
    units: HashMap<JobId, usize>,
    running: HashMap<JobId, Running>,
    /// Tasks of each unit that have started.
    started: Vec<u32>,
    fates: Vec<Fate>,
    /// When, which unit.
    ends: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

/// Plays the workload with the time limits that its jobs have.
pub(crate) fn play(workload: &Workload, cluster: &Cluster, policy: Policy) -> Vec<Fate> {
    let mut live = Live {
        jobs: &workload.jobs,
        store: MemoryStore::new(policy),
        workers: Vec::new(),
        units: HashMap::new(),
        running: HashMap::new(),
        started: vec![0; workload.jobs.len()],
        fates: vec![Fate::default(); workload.jobs.len()],
        ends: BinaryHeap::new(),
    };
    for group in &cluster.nodes {
        for _ in 0..group.count {
            live.register(group.each.clone());
        }
    }
    let mut arrivals: Vec<usize> = (0..workload.jobs.len()).collect();
    arrivals.sort_by_key(|unit| workload.jobs[*unit].submit);
    // Time alone may change what the planner decides: when others have passed for long enough, when room is
    // kept for a single, when somebody has waited for very long.
    let waits = [Span::ZERO, policy.patience, policy.pass_for, policy.pin_after];
    let mut times: BTreeSet<Timestamp> =
        workload.jobs.iter().flat_map(|job| waits.map(|wait| job.submit + wait)).collect();
    let mut arrived = 0;
    while let Some(now) = times.pop_first() {
        while live.ends.peek().is_some_and(|Reverse((at, _))| *at == now) {
            live.end_next(now);
        }
        let first = arrived;
        while arrivals.get(arrived).is_some_and(|unit| workload.jobs[*unit].submit == now) {
            arrived += 1;
        }
        live.submit(&arrivals[first..arrived], now);
        live.settle(now);
        times.extend(live.ends.iter().map(|Reverse((at, _))| *at));
    }
    assert!(
        live.running.is_empty() && live.started.iter().zip(live.jobs).all(|(done, job)| *done == job.tasks)
    );
    live.fates
}

impl Live<'_> {
    fn apply(&self, now: Timestamp, commands: Vec<Command>) -> Vec<Outcome> {
        let applied = block_on(self.store.apply(now, commands)).unwrap();
        applied.answers.into_iter().map(|answer| answer.unwrap()).collect()
    }

    fn register(&mut self, resources: Resources) {
        let id = WorkerId::new(format!("w{:04}", self.workers.len()));
        let worker = Worker {
            id: id.clone(),
            exec_addr: String::new(),
            resources,
            tags: BTreeSet::new(),
            devices: Vec::new(),
            labels: std::collections::BTreeMap::new(),
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
            ports: Ports::default(),
            kept: None,
        };
        self.apply(Timestamp::default(), vec![Command::RegisterWorker(worker)]);
        self.workers.push(id);
    }

    fn submit(&mut self, units: &[usize], now: Timestamp) {
        let mut commands = Vec::new();
        for unit in units {
            let job = &self.jobs[*unit];
            let jobs: Vec<NewJob> = (0..job.tasks).map(|index| new_job(job, *unit, index)).collect();
            self.units.extend(jobs.iter().map(|new| (new.id, *unit)));
            commands.push(Command::Submit(Submit { jobs, atomic: true, set: None }));
        }
        // One after the other, so that numbers are given in their order.
        for command in commands {
            self.apply(now, vec![command]);
        }
    }

    /// Lets workers ask and the planner look until nothing changes any more.
    fn settle(&mut self, now: Timestamp) {
        loop {
            let claimed = self.claim(now);
            let planned = self.plan(now);
            if !claimed && !planned {
                return;
            }
        }
    }

    fn plan(&self, now: Timestamp) -> bool {
        let never = Span::from_secs(u32::MAX);
        let timeouts =
            Timeouts { job_heartbeat: never, worker_stale: never, preempt: never, reservation: never };
        let allowances = muster_planner::policy::Allowances::default();
        let pass =
            PlanPass { timeouts, listening_since: Timestamp::default(), limit: 1000, look: true, allowances };
        let applied = block_on(self.store.apply(now, vec![Command::Plan(pass)])).unwrap();
        let Some(Ok(Outcome::Planned(done))) = applied.answers.first() else { panic!("{applied:?}") };
        // Where kept room has changed, workers are woken to ask again.
        applied.wake.work || done.placed > 0 || done.next_due.is_some_and(|due| due <= now)
    }

    /// All workers ask at once.
    fn claim(&mut self, now: Timestamp) -> bool {
        let ask = |worker: &WorkerId| {
            Command::Claim(Ask { worker: Some(worker.clone()), max: 64, ..Ask::default() })
        };
        let mut any = false;
        for outcome in self.apply(now, self.workers.iter().map(ask).collect()) {
            let Outcome::Claimed(jobs) = outcome else { panic!("{outcome:?}") };
            for claimed in jobs {
                any = true;
                let unit = self.units[&claimed.job.id];
                self.running.insert(claimed.job.id, Running { lease: claimed.job.lease, unit });
                self.started[unit] += 1;
                if self.started[unit] == self.jobs[unit].tasks {
                    self.fates[unit].0 = now;
                    self.ends.push(Reverse((now + self.jobs[unit].run, unit)));
                }
            }
        }
        any
    }

    fn end_next(&mut self, now: Timestamp) {
        let Some(Reverse((_, unit))) = self.ends.pop() else { return };
        self.fates[unit].1 = now;
        let tasks: Vec<JobId> =
            self.running.iter().filter(|(_, task)| task.unit == unit).map(|(id, _)| *id).collect();
        let mut reports = Vec::new();
        for job in tasks {
            let Some(Running { lease, .. }) = self.running.remove(&job) else { continue };
            let (caller, exit) =
                (Caller { lease: Some(lease), worker: None }, Exit { code: Some(0), signal: None });
            let report = Report {
                job,
                caller,
                kind: ReportKind::Done,
                exit,
                message: None,
                outputs: None,
                spent: None,
            };
            reports.push(Command::Report(report));
        }
        self.apply(now, reports);
    }
}

fn id(unit: usize, index: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(unit as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..12].copy_from_slice(&(unit as u32).to_be_bytes());
    bytes[12..].copy_from_slice(&index.to_be_bytes());
    bytes
}

fn new_job(job: &TraceJob, unit: usize, index: u32) -> NewJob {
    let gang = (job.tasks > 1).then(|| GangMembership {
        id: GangId::from_random(id(unit, u32::MAX)),
        size: job.tasks,
        index,
        min: None,
        per_worker: job.tasks,
        keep_done: false,
        topology: None,
    });
    let spec = JobSpec {
        priority: job.priority,
        resources: Some(job.need.clone()),
        timeout: job.limit,
        gang,
        ..JobSpec::shell("work")
    };
    NewJob {
        id: JobId::from_random(id(unit, index)),
        spec: Arc::new(spec),
        hold: None,
        reference: None,
        depends_on: Vec::new(),
        rules: Vec::new(),
        member: None,
        first_task: (index > 0).then_some(0),
    }
}
