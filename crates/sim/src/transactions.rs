//! One transaction after the other: what it changed is checked, and everyone who should know is told.

use std::collections::BTreeSet;

use futures::executor::block_on;
use muster_domain::{Event, EventKind, Job, Span, Status};
use muster_store::{Answer, Claimed, Command, Content, Outcome, Store, Wake};

use crate::books::Blame;
use crate::broken::Broken;
use crate::cluster::{Cluster, MOST_AT_ONCE};
use crate::happening::Happening;
use crate::mail::{Letter, Sender};
use crate::worker::{End, ProcessKey};

/// When there may be work, so many of the workers that wait ask for it, and not again within this time.
const ASKING: usize = 4;
const ASK_PAUSE: Span = Span::from_millis(150);

/// Everything is read again after so many transactions.
const FULL_CHECK: u64 = 64;

impl Cluster {
    /// Applies the commands together, checks, and hands out the answers.
    pub(crate) fn transact(&mut self, letters: Vec<Letter>) -> Result<(), Broken> {
        let commands: Vec<Command> = letters.iter().map(|letter| letter.command.clone()).collect();
        let silent = self.books.silent(&commands, &self.state, self.now);
        let applied = block_on(self.store.apply(self.now, commands.clone()))?;
        let blame = self.books.blame(silent, &commands, &applied.answers);
        self.transactions += 1;
        self.trail.add(self.now, commands, &applied.answers, &applied.events);
        for (letter, answer) in letters.iter().zip(&applied.answers) {
            self.hear(letter, answer);
        }
        if !applied.events.is_empty() {
            self.changed = true;
            self.check(&blame, &applied.events)?;
        }
        if self.transactions.is_multiple_of(FULL_CHECK) {
            self.check_all()?;
        }
        for (letter, answer) in letters.into_iter().zip(applied.answers) {
            if letter.from == Sender::Operator
                && let (Command::Submit(_), Err(why)) = (&letter.command, &answer)
            {
                return Err(self.broken(format!("a submission was refused: {why}")));
            }
            if let Ok(Outcome::Claimed(jobs)) = &answer {
                self.watch_starts(jobs)?;
            }
            if let Sender::Worker(index) = letter.from
                && !letter.answer_lost
                && self.workers[index].is_up()
            {
                self.answered(index, &letter.command, answer);
            }
        }
        self.wake(&applied.wake, &applied.events);
        Ok(())
    }

    /// What the scheduler heard of, whether or not the answer arrives.
    fn hear(&mut self, letter: &Letter, answer: &Answer) {
        if let (Command::SaveCheckpoint { job, content: Content::Bytes(bytes), .. }, Ok(_)) =
            (&letter.command, answer)
        {
            self.watch.saved(*job, bytes);
        }
        let (Command::Heartbeat { job, caller }, Ok(_)) = (&letter.command, answer) else { return };
        self.books.heard(*job, self.now);
        if let (Sender::Worker(index), Some(lease)) = (letter.from, caller.lease)
            && let Some(process) = self.workers[index].processes.get_mut(&(*job, lease))
        {
            process.is_heard(self.now);
        }
    }

    fn check(&mut self, blame: &Blame, events: &[Event]) -> Result<(), Broken> {
        let touched = self.state.follow(&self.store, events)?;
        self.check_invariants()?;
        let state = (&self.state, touched.as_slice());
        let entered = self.books.enter(blame, events, state, self.now);
        let looked = entered.and_then(|()| self.watch.look(state, events));
        looked.map_err(|what| self.broken(what))
    }

    fn check_all(&mut self) -> Result<(), Broken> {
        if let Some(surprise) = self.state.reread(&self.store)?.pop() {
            return Err(self.broken(surprise));
        }
        self.check_invariants()?;
        self.books.close(&self.state);
        self.watch.look_at_all(&self.state, self.now).map_err(|what| self.broken(what))
    }

    fn check_invariants(&self) -> Result<(), Broken> {
        let violations = self.state.check();
        if violations.is_empty() {
            return Ok(());
        }
        Err(Broken::Invariant { at: self.now, violations, trail: self.trail.lines() })
    }

    fn watch_starts(&mut self, jobs: &[Claimed]) -> Result<(), Broken> {
        for claimed in jobs {
            let watched = self.watch.starts(claimed, &self.workers, &self.state, self.now);
            watched.map_err(|what| self.broken(what))?;
        }
        Ok(())
    }

    pub(crate) fn broken(&self, what: String) -> Broken {
        Broken::Promise { at: self.now, what, trail: self.trail.lines() }
    }

    fn answered(&mut self, index: usize, command: &Command, answer: Answer) {
        match (command, answer) {
            (Command::Claim(ask), Ok(Outcome::Claimed(claimed))) => {
                let jobs: Vec<Job> = claimed.into_iter().map(|claimed| claimed.job).collect();
                let new = self.workers[index].starts(ask.key.as_ref(), &jobs);
                if !new.is_empty() {
                    if new.len() >= MOST_AT_ONCE as usize {
                        self.agenda.add(self.now, Happening::Asks(index));
                    }
                    let announcement = self.workers[index].announcement();
                    self.send(Sender::Worker(index), announcement);
                }
                for process in new {
                    self.start(index, process);
                }
            }
            (Command::Heartbeat { job, caller }, Ok(Outcome::Heartbeat(reply))) => {
                if let Some(lease) = caller.lease.filter(|_| reply.job.status() == Status::Preempting) {
                    self.tell_to_stop(index, (*job, lease), reply.job.preemption_epoch);
                }
            }
            (Command::Heartbeat { job, caller }, Err(_)) => {
                if let Some(lease) = caller.lease {
                    self.workers[index].processes.remove(&(*job, lease));
                }
            }
            (Command::WorkerHeartbeat { ports: Some(ports), .. }, Ok(_)) => {
                self.workers[index].is_announced(ports);
            }
            (Command::Report(_) | Command::AcknowledgeStop { .. }, _) => {
                self.workers[index].is_answered(command);
            }
            _ => {}
        }
    }

    pub(crate) fn start(&mut self, worker: usize, process: ProcessKey) {
        let alone = self.workers[worker].processes.get(&process).is_some_and(|p| p.gang != self.victim);
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
        for index in 0..self.workers.len() {
            if ordered.contains(&self.workers[index].id) && !self.random.chance(self.mischief.unpushed) {
                let at = self.now + self.random.millis(1, 20);
                self.agenda.add(at, Happening::Ordered(index));
            }
        }
        for event in events {
            if let (EventKind::Reserved { worker, round, .. }, Some(job)) = (&event.kind, event.job) {
                let found = self.workers.iter().position(|candidate| candidate.id == *worker);
                if let Some(index) = found {
                    let at = self.now + self.random.millis(1, 120);
                    self.agenda.add(at, Happening::Asks(index));
                }
                self.expect_trouble(self.books.gang(job), *round);
            }
        }
        if wake.work && self.asked_at <= self.now {
            self.asked_at = self.now + ASK_PAUSE;
            for _ in 0..ASKING {
                let index = self.random.below(self.workers.len());
                self.agenda.add(self.asked_at, Happening::Asks(index));
            }
        }
    }
}

/// A command that no network stands in the way of.
pub(crate) const fn by_hand(command: Command) -> Letter {
    Letter { from: Sender::Operator, command, answer_lost: false }
}
