//! What goes wrong: by itself, by an operator, and to the gang that is picked on in each of its rounds.

use muster_domain::{Caller, Exit, GangId, Job, JobId, ReportKind, Resources, Span, Status, WorkerId};
use muster_store::{Command, Report};

use crate::broken::Broken;
use crate::cluster::Cluster;
use crate::happening::Happening;
use crate::mail::Network;
use crate::plan::GangPlan;
use crate::worker::{End, ProcessKey, Reach};

/// How much goes wrong. Chances are out of a thousand, times in milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct Mischief {
    pub network: Network,
    /// How long processes run; without it they run until something happens to them.
    pub lasts: Option<(u32, u32)>,
    /// Processes that fail, or ask to be run again.
    pub fails: u32,
    pub asks_again: u32,
    /// Processes that ignore a stop, or say on a stop that they are done.
    pub hangs: u32,
    pub finishes: u32,
    /// Stop orders that only the answer to a sign of life brings.
    pub unpushed: u32,
    /// Claimed tasks of gangs that are given back instead of being prepared.
    pub unprepared: u32,
    /// How long a process takes to stop.
    pub grace: (u32, u32),
    /// The time between two doings of the operator, who is also to blame for lost workers.
    pub operator: Option<(u32, u32)>,
    /// The operator runs again what failed.
    pub retries: bool,
    /// Gangs that the operator submits besides, at most so many at a time, and cancels.
    pub siblings: usize,
    /// The memory that a task of those needs, in one of these amounts.
    pub sibling_needs: [u64; 2],
}

impl Mischief {
    /// Nothing goes wrong.
    pub const fn none() -> Self {
        Self {
            network: Network { lost: 0, answers_lost: 0, doubled: 0, late: 0 },
            lasts: Some((1_000, 20_000)),
            fails: 0,
            asks_again: 0,
            hangs: 0,
            finishes: 0,
            unpushed: 0,
            unprepared: 0,
            grace: (1, 3_000),
            operator: None,
            retries: false,
            siblings: 0,
            sibling_needs: [0, 0],
        }
    }

    /// Everything goes wrong now and then.
    pub const fn plenty() -> Self {
        Self {
            network: Network { lost: 30, answers_lost: 30, doubled: 30, late: 10 },
            fails: 100,
            asks_again: 50,
            hangs: 10,
            unpushed: 100,
            unprepared: 20,
            grace: (1, 9_000),
            operator: Some((500, 20_000)),
            ..Self::none()
        }
    }
}

/// A kind of trouble for the gang that is picked on.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    Fails,
    TwoFail,
    AsksAgain,
    GivenBack,
    Crash,
    Cut,
    ManyCut,
    Preempt,
    SaidToFail,
    SaidToFailAndFails,
}

const TROUBLES: [Trouble; 12] = [
    Trouble::Fails,
    Trouble::Fails,
    Trouble::TwoFail,
    Trouble::AsksAgain,
    Trouble::GivenBack,
    Trouble::Crash,
    Trouble::Cut,
    Trouble::ManyCut,
    Trouble::Preempt,
    Trouble::Preempt,
    Trouble::SaidToFail,
    Trouble::SaidToFailAndFails,
];

impl Cluster {
    /// A round of the gang that is picked on has begun: something is going to happen to it.
    pub(crate) fn expect_trouble(&mut self, gang: Option<GangId>, round: u32) {
        let Some(gang) = gang.filter(|gang| self.troubled && self.victim == Some(*gang)) else { return };
        if self.armed >= round {
            return;
        }
        self.armed = round;
        let soon = match self.random.below(100) {
            0..25 => self.random.millis(0, 250),
            25..90 => self.random.millis(250, 4_000),
            _ => self.random.millis(4_000, 20_000),
        };
        self.agenda.add(self.now + soon, Happening::GoesWrong { gang, round });
        if self.random.chance(100) {
            self.shun(gang);
        }
    }

    /// A worker that was given a task does not ask for it.
    fn shun(&mut self, gang: GangId) {
        let tasks = self.tasks(gang);
        let reserved = tasks.iter().filter(|task| task.status() == Status::Reserved);
        let reserved: Vec<WorkerId> = reserved.filter_map(|task| task.worker().cloned()).collect();
        let worker = self.random.pick(&reserved);
        let until = self.now + self.random.millis(20_000, 45_000);
        if let Some(worker) = self.ledger.workers.iter_mut().find(|candidate| Some(&candidate.id) == worker) {
            worker.shuns_until = until;
        }
    }

    pub(crate) fn go_wrong(&mut self, gang: GangId, round: u32) -> Result<(), Broken> {
        if !self.troubled || self.victim != Some(gang) || self.round(gang) != round {
            return Ok(());
        }
        // Until it worked: messages are lost, and some trouble is over before anybody notices.
        self.agenda.add(self.now + Span::from_secs(10), Happening::GoesWrong { gang, round });
        let Some(trouble) = self.random.pick(&TROUBLES).copied() else { return Ok(()) };
        match trouble {
            Trouble::Fails => self.end_processes(gang, 1, End::Badly),
            Trouble::TwoFail => self.end_processes(gang, 2, End::Badly),
            Trouble::AsksAgain => self.end_processes(gang, 1, End::NotNow),
            Trouble::GivenBack => self.end_processes(gang, 1, End::GivenBack),
            Trouble::Crash => self.lose(gang, 1, Reach::Down),
            Trouble::Cut => self.lose(gang, 1, Reach::Cut),
            Trouble::ManyCut => {
                let many = self.random.within(2, 8) as usize;
                self.lose(gang, many, Reach::Cut);
            }
            Trouble::Preempt => return self.preempt(gang),
            Trouble::SaidToFail => return self.say_it_failed(gang, false),
            Trouble::SaidToFailAndFails => return self.say_it_failed(gang, true),
        }
        Ok(())
    }

    fn processes(&self, gang: GangId) -> Vec<(usize, ProcessKey)> {
        let of = |(index, worker): (usize, &crate::worker::SimWorker)| {
            let running = worker.processes.iter().filter(|(_, process)| process.gang == Some(gang));
            running.map(|(key, _)| (index, *key)).collect::<Vec<_>>()
        };
        self.ledger.workers.iter().enumerate().flat_map(of).collect()
    }

    fn end_processes(&mut self, gang: GangId, count: usize, how: End) {
        for _ in 0..count {
            let running = self.processes(gang);
            if let Some((worker, process)) = self.random.pick(&running).copied() {
                self.exit(worker, process, how);
            }
        }
    }

    /// Workers that hold the gang's tasks are lost.
    fn lose(&mut self, gang: GangId, count: usize, reach: Reach) {
        for _ in 0..count {
            let holders: Vec<_> = self.tasks(gang).iter().filter_map(|task| task.worker().cloned()).collect();
            let Some(holder) = self.random.pick(&holders).cloned() else { return };
            if let Some(index) = self.ledger.workers.iter().position(|worker| worker.id == holder) {
                self.lose_worker(index, reach);
            }
        }
    }

    fn lose_worker(&mut self, index: usize, reach: Reach) {
        if !self.ledger.workers[index].is_up() {
            return;
        }
        match reach {
            Reach::Down => self.ledger.workers[index].crash(),
            other => self.ledger.workers[index].reach = other,
        }
        let back = self.now + self.random.millis(2_000, 100_000);
        self.agenda.add(back, Happening::Returns(index));
    }

    fn preempt(&mut self, gang: GangId) -> Result<(), Broken> {
        let tasks: Vec<JobId> = self.tasks(gang).iter().map(|task| task.id).collect();
        let Some(job) = self.random.pick(&tasks).copied() else { return Ok(()) };
        self.by_operator(Command::Preempt { job, message: Some("room is needed".to_owned()) })
    }

    /// Somebody who proves nothing says that a task failed; its process may be alive and well.
    fn say_it_failed(&mut self, gang: GangId, true_this_time: bool) -> Result<(), Broken> {
        let running = self.processes(gang);
        let Some((worker, process)) = self.random.pick(&running).copied() else { return Ok(()) };
        if true_this_time {
            self.exit(worker, process, End::Badly);
        }
        self.by_operator(said(process.0, ReportKind::Failed))
    }

    /// The operator does something, and machines fail on their own.
    pub(crate) fn operate(&mut self) -> Result<(), Broken> {
        let Some((low, high)) = self.mischief.operator else {
            // Somebody has to look at what is held because it was lost with worker after worker.
            self.agenda.add(self.now + Span::from_secs(30), Happening::Operates);
            return self.do_to_any(|job| job.hold.is_some(), |job| Command::Release { job });
        };
        let next = self.now + self.random.millis(low, high);
        self.agenda.add(next, Happening::Operates);
        let victim = self.victim;
        match self.random.below(13) {
            10 => self.do_to_any(waits, |job| Command::Hold { job, message: None }),
            11 => self.do_to_any(|job| job.hold.is_some(), |job| Command::Release { job }),
            12 if self.mischief.retries => {
                self.do_to_any(|job| job.status() == Status::Failed, |job| Command::Retry { job })
            }
            0..3 => self.submit_sibling(),
            3 if self.mischief.siblings > 0 => self.do_to_any(
                |job| job.spec.gang.is_some() && !job.is_terminal() && !is_of(job, victim),
                |job| Command::Cancel { job, message: None },
            ),
            4 => {
                let index = self.random.below(self.ledger.workers.len());
                let reach = if self.random.chance(500) { Reach::Cut } else { Reach::Down };
                self.lose_worker(index, reach);
                Ok(())
            }
            5 => {
                self.restart_scheduler();
                Ok(())
            }
            6 => self.do_to_any(
                |job| job.status() == Status::Running && !is_of(job, victim),
                |job| Command::Preempt { job, message: None },
            ),
            7 => self.do_to_any(
                |job| job.status() == Status::Running && !is_of(job, victim),
                |job| said(job, ReportKind::Failed),
            ),
            _ => self.do_to_any(|job| job.status() == Status::Preempting, |job| said(job, ReportKind::Done)),
        }
    }

    /// Does something to one of the jobs that are as wanted.
    fn do_to_any(
        &mut self,
        wanted: impl Fn(&Job) -> bool,
        command: impl Fn(JobId) -> Command,
    ) -> Result<(), Broken> {
        let jobs: Vec<JobId> =
            self.ledger.state.jobs().iter().filter(|job| wanted(job)).map(|job| job.id).collect();
        match self.random.pick(&jobs).copied() {
            Some(job) => self.by_operator(command(job)),
            None => Ok(()),
        }
    }

    fn submit_sibling(&mut self) -> Result<(), Broken> {
        let first = |job: &&Job| job.spec.gang.as_ref().is_some_and(|gang| gang.index == 0);
        let open = self
            .ledger
            .state
            .jobs()
            .iter()
            .filter(first)
            .filter(|j| !j.is_terminal() && !is_of(j, self.victim));
        if open.count() >= self.mischief.siblings {
            return Ok(());
        }
        let needs = self.mischief.sibling_needs;
        let memory_mb = self.random.pick(&needs).copied().unwrap_or(0);
        let plan = GangPlan {
            size: self.random.within(2, 5),
            per_worker: self.random.within(1, 2),
            keep_done: self.random.chance(300),
            priority: self.random.within(0, 2) as i32,
            need: Resources { memory_mb, ..Resources::default() },
            ..GangPlan::default()
        };
        self.submit_gang(&plan).map(|_| ())
    }

    /// One of the schedulers begins anew; the other one stays.
    fn restart_scheduler(&mut self) {
        let now = self.now;
        let index = self.random.below(self.schedulers.len());
        let pause = self.random.millis(0, 10_000);
        if self.schedulers.iter().any(|scheduler| scheduler.idle_until > now) {
            return;
        }
        self.schedulers[index].idle_until = now + pause;
        self.schedulers[index].listening_since = now + pause;
    }
}

fn waits(job: &Job) -> bool {
    matches!(job.status(), Status::Pending | Status::Blocked | Status::Delayed)
}

fn is_of(job: &Job, gang: Option<GangId>) -> bool {
    job.spec.gang.as_ref().is_some_and(|membership| Some(membership.id) == gang)
}

/// What somebody says who proves nothing.
fn said(job: JobId, kind: ReportKind) -> Command {
    let exit = Exit { code: Some(1), signal: None };
    Command::Report(Report {
        job,
        caller: Caller::default(),
        kind,
        exit,
        message: None,
        outputs: None,
        spent: None,
    })
}
