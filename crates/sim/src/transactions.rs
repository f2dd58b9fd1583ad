//! One transaction after the other: what it changed is checked, and everyone who should know is told.

use std::collections::BTreeSet;

use muster_domain::{Event, EventKind, Job, Span, Status};
use muster_store::{Answer, Command, Outcome, Wake};

use crate::broken::Broken;
use crate::cluster::{Cluster, MOST_AT_ONCE};
use crate::happening::Happening;
use crate::ledger::Moment;
use crate::mail::{Letter, Sender};
use crate::worker::{End, ProcessKey, prepared};

/// When there may be work, so many of the workers that wait ask for it, and not again within this time.
const ASKING: usize = 4;
const ASK_PAUSE: Span = Span::from_millis(150);

impl Cluster {
    /// Applies the commands together, checks, and hands out the answers.
    pub(crate) fn transact(&mut self, letters: Vec<Letter>) -> Result<(), Broken> {
        let commands: Vec<Command> = letters.iter().map(|letter| letter.command.clone()).collect();
        let applied = self.ledger.apply(Moment { now: self.now, told: self.now }, commands)?;
        self.changed |= !applied.events.is_empty();
        for (letter, answer) in letters.into_iter().zip(applied.answers) {
            if letter.from == Sender::Operator
                && let (Command::Submit(_), Err(why)) = (&letter.command, &answer)
            {
                return Err(self.ledger.broken(self.now, format!("a submission was refused: {why}")));
            }
            if let Sender::Worker(index) = letter.from
                && !letter.answer_lost
                && self.ledger.workers[index].is_up()
            {
                self.answered(index, &letter.command, answer)?;
            }
        }
        self.wake(&applied.wake, &applied.events);
        Ok(())
    }

    fn answered(&mut self, index: usize, command: &Command, answer: Answer) -> Result<(), Broken> {
        match (command, answer) {
            (Command::Claim(ask), Ok(Outcome::Claimed(claimed))) => {
                let jobs: Vec<Job> = claimed.into_iter().map(|claimed| claimed.job).collect();
                let new = self.ledger.workers[index].starts(ask.key.as_ref(), &jobs);
                if !new.is_empty() {
                    if new.len() >= MOST_AT_ONCE as usize {
                        self.agenda.add(self.now, Happening::Asks(index));
                    }
                    let announcement = self.ledger.workers[index].announcement();
                    self.send(Sender::Worker(index), announcement);
                }
                for process in new {
                    self.start(index, process);
                }
                self.prepare(index, &jobs);
            }
            (Command::Prepared { job, caller }, Ok(Outcome::Heartbeat(reply))) => {
                let Some(lease) = caller.lease else { return Ok(()) };
                match reply.job.status() {
                    Status::Running => self.go(index, (*job, lease))?,
                    Status::Preempting => self.tell_to_stop(index, (*job, lease), reply.job.preemption_epoch),
                    _ => {}
                }
            }
            (Command::Prepared { job, caller }, Err(_)) => {
                if let Some(lease) = caller.lease {
                    self.ledger.workers[index].prepared.remove(&(*job, lease));
                }
            }
            (Command::Heartbeat { job, caller }, Ok(Outcome::Heartbeat(reply))) => {
                if let Some(lease) = caller.lease.filter(|_| reply.job.status() == Status::Preempting) {
                    self.tell_to_stop(index, (*job, lease), reply.job.preemption_epoch);
                }
            }
            (Command::Heartbeat { job, caller }, Err(_)) => {
                if let Some(lease) = caller.lease {
                    self.ledger.workers[index].processes.remove(&(*job, lease));
                }
            }
            (Command::WorkerHeartbeat { ports: Some(ports), .. }, Ok(_)) => {
                self.ledger.workers[index].is_announced(ports);
            }
            (Command::Report(_) | Command::AcknowledgeStop { .. }, _) => {
                self.ledger.workers[index].is_answered(command);
            }
            _ => {}
        }
        Ok(())
    }

    /// Says of claimed tasks that they are ready, or gives them back.
    fn prepare(&mut self, index: usize, jobs: &[Job]) {
        for task in jobs.iter().map(|job| (job.id, job.lease)) {
            if !self.ledger.workers[index].prepared.contains_key(&task) {
                continue;
            }
            let gives_up = self.random.chance(self.mischief.unprepared);
            let report =
                if gives_up { self.ledger.workers[index].withdraws(task, End::GivenBack) } else { None };
            self.send(Sender::Worker(index), report.unwrap_or_else(|| prepared(task)));
        }
    }

    /// A prepared task starts.
    pub(crate) fn go(&mut self, index: usize, task: ProcessKey) -> Result<(), Broken> {
        if self.ledger.goes(self.now, index, task)? {
            self.start(index, task);
        }
        Ok(())
    }

    pub(crate) fn start(&mut self, worker: usize, process: ProcessKey) {
        let alone =
            self.ledger.workers[worker].processes.get(&process).is_some_and(|p| p.gang != self.victim);
        // What is picked on runs until something happens to it.
        let Some((low, high)) = self.mischief.lasts.filter(|_| alone || self.victim.is_none()) else {
            return;
        };
        let how = match self.random.below(1000) as u32 {
            n if n < self.mischief.fails => End::Badly,
            n if n < self.mischief.fails + self.mischief.asks_again => End::NotNow,
            _ => End::Well,
        };
        let at = self.now + self.random.millis(low, high);
        self.agenda.add(at, Happening::Exits { worker, process, how });
    }

    /// Passes on what others should look at.
    fn wake(&mut self, wake: &Wake, events: &[Event]) {
        if wake.gangs || (wake.work && self.random.chance(100)) {
            // Both are told, and both look.
            for scheduler in 0..self.schedulers.len() {
                let at = self.now + self.random.millis(0, 40);
                if at < self.schedulers[scheduler].plan_at {
                    self.schedulers[scheduler].plan_at = at;
                    self.agenda.add(at, Happening::Plans(scheduler));
                }
            }
        }
        let ordered: BTreeSet<_> = wake.stops.iter().collect();
        for index in 0..self.ledger.workers.len() {
            if ordered.contains(&self.ledger.workers[index].id) && !self.random.chance(self.mischief.unpushed)
            {
                let at = self.now + self.random.millis(1, 20);
                self.agenda.add(at, Happening::Ordered(index));
            }
        }
        for event in events {
            if let (EventKind::Reserved { worker, round, .. }, Some(job)) = (&event.kind, event.job) {
                let found = self.ledger.workers.iter().position(|candidate| candidate.id == *worker);
                if let Some(index) = found {
                    let at = self.now + self.random.millis(1, 120);
                    self.agenda.add(at, Happening::Asks(index));
                }
                self.expect_trouble(self.ledger.books.gang(job), *round);
            }
        }
        if wake.work && self.asked_at <= self.now {
            self.asked_at = self.now + ASK_PAUSE;
            for _ in 0..ASKING {
                let index = self.random.below(self.ledger.workers.len());
                self.agenda.add(self.asked_at, Happening::Asks(index));
            }
        }
    }
}

/// A command that no network stands in the way of.
pub(crate) const fn by_hand(command: Command) -> Letter {
    Letter { from: Sender::Operator, command, answer_lost: false }
}
