//! The store with an eye on it: every transaction is checked right after its commit, whoever asked for it.
//!
//! Guarantee: when [`Ledger::apply`] returns well, the executable invariants hold, attempts are what the books
//! say, no quota is exceeded, nobody was let into room that is kept for others, no report was taken under a lease that
//! had ended, and nothing that was seen before has been undone.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use futures::executor::block_on;
use muster_domain::{Event, Rejection, Timestamp};
use muster_store::{Answer, Applied, Claimed, Command, Content, MemoryStore, Outcome, Store, StoreExt};

use crate::books::{Blame, Books};
use crate::broken::Broken;
use crate::leaders::Leaders;
use crate::quotas;
use crate::rooms::Rooms;
use crate::state::State;
use crate::trail::Trail;
use crate::watch::{self, Watch};
use crate::worker::{ProcessKey, SimWorker};

/// Everything is read again after so many transactions.
const FULL_CHECK: u64 = 64;

/// When a transaction happens: the time that passes for everyone, and what the scheduler that asks for it takes
/// for the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    pub(crate) told: Timestamp,
}

/// The store, what is known of it, and those who work for it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) store: MemoryStore,
    pub(crate) state: State,
    pub(crate) books: Books,
    pub(crate) leaders: Leaders,
    pub(crate) watch: Watch,
    pub(crate) rooms: Rooms,
    pub(crate) trail: Trail,
    pub(crate) workers: Vec<SimWorker>,
    pub(crate) transactions: u64,
    /// The same for two runs in which the same happened at the same times.
    pub(crate) digest: u64,
}

impl Ledger {
    /// Applies the commands in one transaction, and looks at what they have done.
    pub(crate) fn apply(&mut self, at: Moment, commands: Vec<Command>) -> Result<Applied, Broken> {
        let applied = block_on(self.store.apply(at.told, commands.clone()))?;
        let led = self.leaders.follow(&commands, &applied.answers);
        led.map_err(|what| self.broken(at.now, what))?;
        // From here on it does not matter under which term a pass was made.
        let commands: Vec<Command> = commands.into_iter().map(|command| command.bare().clone()).collect();
        let lost = |answer: &Answer| matches!(answer, Err(Rejection::LeadershipLost { .. }));
        let admitted = commands.iter().zip(&applied.answers).filter(|(_, answer)| !lost(answer));
        let admitted: Vec<Command> = admitted.map(|(command, _)| command.clone()).collect();
        let silent = self.books.silent(&admitted, &self.state, at.told);
        self.transactions += 1;
        self.note(at.now, &applied);
        let fenced = self.books.fenced(&commands, &applied.answers);
        let blame = self.books.blame(silent, &commands, &applied.answers);
        for (command, answer) in commands.iter().zip(&applied.answers) {
            self.hear(at, command, answer);
        }
        let entered = self.rooms.check(&commands, &applied.events, &self.state, at.told);
        self.rooms.follow(&commands, &self.store)?;
        self.trail.add(at.now, commands, &applied.answers, &applied.events);
        let compared = entered.and_then(|()| self.rooms.compare());
        compared.map_err(|what| self.broken(at.now, what))?;
        fenced.map_err(|what| self.broken(at.now, what))?;
        if !applied.events.is_empty() {
            self.check(at, &blame, &applied.events)?;
        }
        if self.transactions.is_multiple_of(FULL_CHECK) {
            self.check_all(at.now)?;
        }
        for answer in &applied.answers {
            if let Ok(Outcome::Claimed(jobs)) = answer {
                self.watch_starts(at.now, jobs)?;
            }
        }
        Ok(applied)
    }

    pub(crate) fn broken(&self, at: Timestamp, what: String) -> Broken {
        Broken::Promise { at, after: self.transactions, what, trail: self.trail.lines() }
    }

    /// What has not ended, and why.
    pub(crate) fn stuck(&self, at: Timestamp) -> Broken {
        let open = self.state.jobs().iter().filter(|job| !job.is_terminal()).take(12);
        let stuck = open.map(|job| {
            let reasons = match block_on(self.store.why(job.id, at)) {
                Ok(Some((_, why))) => {
                    why.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                }
                Ok(None) => "gone".to_owned(),
                Err(error) => error.to_string(),
            };
            format!("{} is {}: {reasons}", job.id, job.status())
        });
        Broken::Stuck { at, after: self.transactions, stuck: stuck.collect(), trail: self.trail.lines() }
    }

    fn note(&mut self, now: Timestamp, applied: &Applied) {
        let mut hasher = DefaultHasher::new();
        (self.digest, now.as_micros(), applied.answers.len()).hash(&mut hasher);
        for event in &applied.events {
            format!("{event:?}").hash(&mut hasher);
        }
        self.digest = hasher.finish();
    }

    /// What the scheduler heard of, whether or not the answer arrives.
    fn hear(&mut self, at: Moment, command: &Command, answer: &Answer) {
        if let (Command::SaveCheckpoint { job, content: Content::Bytes(bytes), .. }, Ok(_)) =
            (command, answer)
        {
            self.watch.saved(*job, bytes);
        }
        let (Command::Heartbeat { job, caller } | Command::Prepared { job, caller }, Ok(_)) =
            (command, answer)
        else {
            return;
        };
        self.books.heard(*job, at.told);
        let Some(lease) = caller.lease else { return };
        for worker in &mut self.workers {
            for held in [&mut worker.processes, &mut worker.prepared] {
                if let Some(process) = held.get_mut(&(*job, lease)) {
                    process.is_heard(at.now);
                }
            }
        }
    }

    fn check(&mut self, at: Moment, blame: &Blame, events: &[Event]) -> Result<(), Broken> {
        let touched = self.state.follow(&self.store, events)?;
        self.check_invariants(at.now)?;
        let state = (&self.state, touched.as_slice());
        let entered = self.books.enter(blame, events, state, at.told);
        let looked = entered.and_then(|()| self.watch.look(state, events));
        let kept = looked.and_then(|()| quotas::check(&self.state));
        kept.map_err(|what| self.broken(at.now, what))
    }

    fn check_all(&mut self, now: Timestamp) -> Result<(), Broken> {
        if let Some(surprise) = self.state.reread(&self.store)?.pop() {
            return Err(self.broken(now, surprise));
        }
        self.check_invariants(now)?;
        self.books.close(&self.state);
        self.watch.look_at_all(&self.state, now).map_err(|what| self.broken(now, what))
    }

    fn check_invariants(&self, at: Timestamp) -> Result<(), Broken> {
        let violations = self.state.check();
        if violations.is_empty() {
            return Ok(());
        }
        Err(Broken::Invariant { at, after: self.transactions, violations, trail: self.trail.lines() })
    }

    /// A worker was told to start a prepared task: its process works from now on.
    pub(crate) fn goes(&mut self, now: Timestamp, worker: usize, task: ProcessKey) -> Result<bool, Broken> {
        if !self.workers[worker].goes(task) {
            return Ok(false);
        }
        let together = watch::together(&self.workers[worker].processes[&task], &self.state);
        together
            .map_err(|what| self.broken(now, format!("{} on {}: {what}", task.0, self.workers[worker].id)))?;
        Ok(true)
    }

    fn watch_starts(&mut self, now: Timestamp, jobs: &[Claimed]) -> Result<(), Broken> {
        for claimed in jobs {
            let watched = self.watch.starts(claimed, &self.workers, &self.state, now);
            watched.map_err(|what| self.broken(now, what))?;
        }
        Ok(())
    }
}
