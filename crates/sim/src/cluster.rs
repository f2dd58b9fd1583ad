//! The cluster as a whole: it takes what happens next, lets the store decide, checks, and goes on.

use std::collections::BTreeMap;

use futures::executor::block_on;
use muster_domain::limits::Timeouts;
use muster_domain::{GangId, Job, JobId, Resources, Span, Status, Timestamp};
use muster_store::{Allowances, Command, PlanPass, StoreExt, Sweep};

use crate::broken::Broken;
use crate::faults::Mischief;
use crate::happening::{Agenda, Happening};
use crate::ledger::Ledger;
use crate::mail::{self, Letter, Network, Sender};
use crate::plan::{GangPlan, JobPlan};
use crate::random::Random;
use crate::transactions::by_hand;
use crate::worker::{End, ProcessKey, Reach, SimWorker, checkpoint};

/// Where the clock starts: a round time, far from zero.
const START: i64 = 1_700_000_000_000_000;

/// Workers tell how they are every ten seconds, in groups, so that their messages share transactions.
const BEAT: Span = Span::from_secs(10);
const BEAT_GROUPS: u32 = 2;

/// How often the schedulers look without being woken.
const PLAN_EVERY: Span = Span::from_secs(5);
/// Looks ahead are never closer together.
const LOOK_EVERY: Span = Span::from_millis(200);
const SWEEP_EVERY: Span = Span::from_secs(10);

/// How many jobs a worker asks for.
pub(crate) const MOST_AT_ONCE: u32 = 8;

/// What a cluster consists of.
#[derive(Debug, Clone)]
pub struct Settings {
    pub workers: usize,
    /// Of each worker.
    pub resources: Resources,
    pub slots: Option<u32>,
    /// Finished jobs are forgotten after this time, so that the state stays small.
    pub retention: Option<Span>,
}

/// A scheduler: it plans and sweeps beside the other one on the same store.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) listening_since: Timestamp,
    pub(crate) idle_until: Timestamp,
    /// When it plans next.
    pub(crate) plan_at: Timestamp,
    /// When it may look ahead again.
    pub(crate) look_at: Timestamp,
}

/// A simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) ledger: Ledger,
    pub(crate) random: Random,
    pub(crate) now: Timestamp,
    pub(crate) agenda: Agenda,
    pub(crate) network: Network,
    pub(crate) mischief: Mischief,
    pub(crate) schedulers: Vec<Scheduler>,
    /// The gang that goes wrong round after round.
    pub(crate) victim: Option<GangId>,
    pub(crate) troubled: bool,
    /// The last round of it for which trouble was planned.
    pub(crate) armed: u32,
    retention: Option<Span>,
    pub(crate) asked_at: Timestamp,
    /// Something happened since somebody looked.
    pub(crate) changed: bool,
}

impl Cluster {
    /// A cluster with its workers registered and two schedulers at work.
    pub fn new(seed: u64, settings: &Settings) -> Result<Self, Broken> {
        let now = Timestamp::from_micros(START);
        let workers = (0..settings.workers)
            .map(|n| SimWorker::new(&format!("w{n:03}"), settings.resources.clone(), settings.slots));
        let scheduler = || Scheduler { listening_since: now, idle_until: now, plan_at: now, look_at: now };
        let mut cluster = Self {
            ledger: Ledger { workers: workers.collect(), ..Ledger::default() },
            random: Random::new(seed),
            now,
            agenda: Agenda::default(),
            network: Network::default(),
            mischief: Mischief::none(),
            schedulers: vec![scheduler(), scheduler()],
            victim: None,
            troubled: false,
            armed: 0,
            retention: settings.retention,
            asked_at: now,
            changed: false,
        };
        let registrations = cluster.ledger.workers.iter().map(SimWorker::registration);
        let letters = registrations.map(by_hand).collect();
        cluster.transact(letters)?;
        for worker in 0..cluster.ledger.workers.len() {
            let offset = Span::from_millis(10_000 / BEAT_GROUPS * (worker as u32 % BEAT_GROUPS));
            cluster.agenda.add(now + offset, Happening::Beats(worker));
        }
        cluster.agenda.add(now, Happening::Operates);
        for scheduler in 0..cluster.schedulers.len() {
            let offset = Span::from_millis(500 * scheduler as u32);
            cluster.agenda.add(now + offset, Happening::Plans(scheduler));
            cluster.agenda.add(now + offset, Happening::Sweeps(scheduler));
        }
        Ok(cluster)
    }

    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Transactions so far.
    pub const fn transactions(&self) -> u64 {
        self.ledger.transactions
    }

    /// How often a gang was stopped so far.
    pub const fn stops(&self) -> u64 {
        self.ledger.books.stops
    }

    /// The number of the gang's latest round.
    pub fn round(&self, gang: GangId) -> u32 {
        self.tasks(gang).iter().map(|task| task.reservation_epoch).max().unwrap_or(0)
    }

    /// How many jobs are in each state.
    pub fn statuses(&self) -> BTreeMap<Status, usize> {
        let mut counts = BTreeMap::new();
        for job in self.ledger.state.jobs() {
            *counts.entry(job.status()).or_default() += 1;
        }
        counts
    }

    pub fn tasks(&self, gang: GangId) -> Vec<&Job> {
        self.ledger.state.tasks(gang)
    }

    pub fn submit_gang(&mut self, plan: &GangPlan) -> Result<GangId, Broken> {
        let (id, tasks, command) = plan.command(&mut self.random);
        for task in tasks {
            self.ledger.books.open(task, Some(id));
        }
        self.by_operator(command)?;
        Ok(id)
    }

    pub fn submit(&mut self, plan: &JobPlan) -> Result<JobId, Broken> {
        let (id, command) = plan.command(&mut self.random);
        self.ledger.books.open(id, None);
        self.by_operator(command)?;
        Ok(id)
    }

    /// A promise that only the whole run can break.
    pub fn breach(&self, what: String) -> Broken {
        self.ledger.broken(self.now, what)
    }

    /// Sets what goes wrong from now on.
    pub fn set_mischief(&mut self, mischief: Mischief) {
        self.network = mischief.network;
        self.mischief = mischief;
    }

    /// The gang to which something happens in every round.
    pub fn pick_on(&mut self, gang: GangId) {
        self.victim = Some(gang);
        self.troubled = true;
    }

    /// Nothing goes wrong any more, and everyone comes back. The gang that was picked on runs on.
    pub fn calm(&mut self) {
        self.set_mischief(Mischief::none());
        self.troubled = false;
        for worker in &mut self.ledger.workers {
            worker.shuns_until = self.now;
        }
    }

    /// Lets the gang that was picked on come to its end.
    pub fn leave_alone(&mut self) {
        let Some(victim) = self.victim.take() else { return };
        for index in 0..self.ledger.workers.len() {
            let of = self.ledger.workers[index]
                .processes
                .iter()
                .filter(|(_, p)| p.gang == Some(victim) && p.told.is_none());
            let of: Vec<ProcessKey> = of.map(|(key, _)| *key).collect();
            for process in of {
                self.start(index, process);
            }
        }
    }

    /// Lets time pass until `done` holds; stuck after `bound` of it.
    pub fn run_until(&mut self, bound: Span, done: impl Fn(&Self) -> bool) -> Result<(), Broken> {
        let end = self.now + bound;
        while !done(self) {
            self.changed = false;
            while !self.changed {
                if self.now > end {
                    return Err(self.ledger.stuck(self.now));
                }
                self.step()?;
            }
        }
        Ok(())
    }

    /// Lets so much time pass.
    pub fn run_for(&mut self, span: Span) -> Result<(), Broken> {
        let end = self.now + span;
        while self.now < end {
            self.step()?;
        }
        Ok(())
    }

    /// Lets time pass until every job has ended.
    pub fn run_to_the_end(&mut self, bound: Span) -> Result<(), Broken> {
        self.run_until(bound, |cluster| cluster.ledger.state.jobs().iter().all(Job::is_terminal))
    }

    fn step(&mut self) -> Result<(), Broken> {
        let Some((at, happening)) = self.agenda.next() else { return Err(self.ledger.stuck(self.now)) };
        self.now = at;
        match happening {
            Happening::Arrives(letter) => {
                let mut letters = vec![*letter];
                letters.extend(self.agenda.arriving(at));
                for batch in mail::batches(letters, |job| self.ledger.books.gang(job)) {
                    self.transact(batch)?;
                }
            }
            Happening::Beats(worker) => self.beat(worker),
            Happening::Asks(worker) => self.ask(worker),
            Happening::Ordered(worker) => self.order(worker)?,
            Happening::Exits { worker, process, how } => self.exit(worker, process, how),
            Happening::Returns(worker) => self.bring_back(worker),
            Happening::Plans(scheduler) => self.plan(scheduler),
            Happening::Sweeps(scheduler) => self.sweep(scheduler),
            Happening::GoesWrong { gang, round } => self.go_wrong(gang, round)?,
            Happening::Operates => self.operate()?,
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, from: Sender, command: Command) {
        let letter = Letter { from, command, answer_lost: false };
        for (at, letter) in self.network.carry(letter, self.now, &mut self.random) {
            self.agenda.add(at, Happening::Arrives(Box::new(letter)));
        }
    }

    /// An operator's command, at once.
    pub(crate) fn by_operator(&mut self, command: Command) -> Result<(), Broken> {
        self.transact(vec![by_hand(command)])
    }

    // The passes of the schedulers.

    fn plan(&mut self, scheduler: usize) {
        let state = &mut self.schedulers[scheduler];
        // A wake-up has moved it, and this is where it was before.
        if self.now < state.plan_at {
            return;
        }
        state.plan_at = self.now + PLAN_EVERY;
        self.agenda.add(state.plan_at, Happening::Plans(scheduler));
        if state.idle_until > self.now {
            return;
        }
        let listening_since = state.listening_since;
        let look = self.now >= state.look_at;
        if look {
            state.look_at = self.now + LOOK_EVERY;
        }
        let allowances = Allowances::default();
        let pass = PlanPass { timeouts: Timeouts::default(), listening_since, limit: 1000, look, allowances };
        self.send(Sender::Scheduler(scheduler), Command::Plan(pass));
    }

    fn sweep(&mut self, scheduler: usize) {
        self.agenda.add(self.now + SWEEP_EVERY, Happening::Sweeps(scheduler));
        let state = &self.schedulers[scheduler];
        if state.idle_until > self.now {
            return;
        }
        let (listening_since, retention) = (state.listening_since, self.retention);
        let sweep = Sweep { timeouts: Timeouts::default(), listening_since, limit: 100, retention };
        self.send(Sender::Scheduler(scheduler), Command::Sweep(sweep));
    }

    // The habits of workers.

    fn beat(&mut self, index: usize) {
        self.agenda.add(self.now + BEAT, Happening::Beats(index));
        if !self.ledger.workers[index].is_up() {
            return;
        }
        for command in self.ledger.workers[index].beat() {
            self.send(Sender::Worker(index), command);
        }
        if self.random.chance(300) {
            self.ask(index);
        }
    }

    fn ask(&mut self, index: usize) {
        let worker = &mut self.ledger.workers[index];
        if !worker.is_up() {
            return;
        }
        if let Some(command) = worker.ask(self.now, MOST_AT_ONCE) {
            self.send(Sender::Worker(index), command);
        }
    }

    /// The worker learns of its stop orders over the channel that is kept open for them.
    fn order(&mut self, index: usize) -> Result<(), Broken> {
        if !self.ledger.workers[index].is_up() {
            return Ok(());
        }
        let id = self.ledger.workers[index].id.clone();
        for job in block_on(self.ledger.store.stops(vec![id]))? {
            self.tell_to_stop(index, (job.id, job.lease), job.preemption_epoch);
        }
        let tasks: Vec<ProcessKey> = self.ledger.workers[index].prepared.keys().copied().collect();
        let ids = tasks.iter().map(|(id, _)| *id).collect();
        for job in block_on(self.ledger.store.states(ids))? {
            let task = (job.id, job.lease);
            if job.status() == Status::Running && tasks.contains(&task) {
                self.go(index, task)?;
            }
        }
        Ok(())
    }

    pub(crate) fn tell_to_stop(&mut self, index: usize, key: ProcessKey, epoch: u32) {
        if let Some(report) = self.ledger.workers[index].withdraws(key, End::Told) {
            return self.send(Sender::Worker(index), report);
        }
        let Some(process) = self.ledger.workers[index].processes.get_mut(&key) else { return };
        if process.told.is_some() {
            return;
        }
        process.told = Some(epoch);
        if key.1.0 % 4 == 1 {
            self.send(Sender::Worker(index), checkpoint(key, 0, Some(epoch)));
        }
        if self.random.chance(self.mischief.hangs) {
            if let Some(process) = self.ledger.workers[index].processes.get_mut(&key) {
                process.hangs = true;
            }
            return;
        }
        let done = self.random.chance(self.mischief.finishes);
        let how = if done { End::ToldButDone } else { End::Told };
        // Most stop at once, some take their time.
        let (low, high) = self.mischief.grace;
        let slow = self.random.chance(100);
        let at = self.now + self.random.millis(low, if slow { high } else { high / 20 });
        self.agenda.add(at, Happening::Exits { worker: index, process: key, how });
    }

    pub(crate) fn exit(&mut self, index: usize, process: ProcessKey, how: End) {
        let worker = &mut self.ledger.workers[index];
        let Some(report) = worker.ends(process, how) else { return };
        if worker.is_up() {
            self.send(Sender::Worker(index), report);
        }
    }

    fn bring_back(&mut self, index: usize) {
        let worker = &mut self.ledger.workers[index];
        let was_down = worker.reach == Reach::Down;
        worker.reach = Reach::Up;
        if was_down {
            let command = worker.registration();
            self.send(Sender::Worker(index), command);
        }
    }
}
