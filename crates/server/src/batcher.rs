//! Group commit: the first command goes to the store at once; what arrives while a transaction is under
//! way goes together into the next one.
//!
//! Guarantees: one transaction in flight; nothing is answered before its commit; the commands of one
//! caller share a transaction; a unit that the store cannot digest hurts no other caller; a claim without a
//! key whose caller has gone away is handed back at once, without costing an attempt. One with a key is asked
//! for again by whoever got no answer, perhaps through another scheduler, and may be running by now.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use muster_domain::{Caller, Event, Exit, Job, JobId, ReportKind};
use muster_store::faults::{self, Moment};
use muster_store::{Answer, Applied, Command, Outcome, Report, Store, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::error::ApiError;
use crate::health::StoreHealth;
use crate::journal;
use crate::loops::store_time;
use crate::metrics::Metrics;
use crate::wake::WakeHub;

/// Commands (jobs, for a submission) after which a transaction takes no further caller.
const MAX_WEIGHT: usize = 8_192;
/// How often a transaction that met another is tried in all.
const CONFLICT_TRIES: u32 = 4;
/// Pause before the second try; it doubles.
const CONFLICT_PAUSE: Duration = Duration::from_millis(2);

type Reply = oneshot::Sender<Result<Delivery, ApiError>>;

/// One caller's commands.
struct Unit {
    commands: Vec<Command>,
    reply: Option<Reply>,
}

impl Unit {
    fn weight(&self) -> usize {
        let weigh = |command: &Command| match command.bare() {
            Command::Submit(submit) => submit.jobs.len().max(1),
            _ => 1,
        };
        self.commands.iter().map(weigh).sum()
    }

    fn refuse(self, error: ApiError) {
        if let Some(reply) = self.reply {
            // A caller that is gone needs no answer.
            let _ = reply.send(Err(error));
        }
    }
}

/// The answers to one caller's commands. Claims that nobody takes out, and nobody can ask for again, are handed
/// back on drop.
pub(crate) struct Delivery {
    answers: Vec<Answer>,
    /// For each answer whether it goes back when nobody takes it.
    goes_back: Vec<bool>,
    /// The generation of work that these answers have seen.
    pub(crate) as_of: u64,
    queue: mpsc::WeakSender<Unit>,
}

impl Delivery {
    /// The answers, in the order of the commands. The caller now answers for the claims in them.
    pub(crate) fn take(mut self) -> Vec<Answer> {
        std::mem::take(&mut self.answers)
    }

    /// The only answer of a unit of one command.
    pub(crate) fn take_one(self) -> Result<Outcome, ApiError> {
        self.take().pop().map_or_else(|| Err(ApiError::internal()), |answer| answer.map_err(ApiError::from))
    }

    /// Hands all claims back: the caller is told that it got nothing.
    pub(crate) fn give_back(mut self) {
        self.goes_back.fill(true);
    }

    pub(crate) fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// One delivery for each answer.
    pub(crate) fn split(mut self) -> Vec<Self> {
        let answers = std::mem::take(&mut self.answers);
        let one = |(answer, goes_back): (Answer, &bool)| Self {
            answers: vec![answer],
            goes_back: vec![*goes_back],
            as_of: self.as_of,
            queue: self.queue.clone(),
        };
        answers.into_iter().zip(&self.goes_back).map(one).collect()
    }

    pub(crate) fn has_jobs(&self) -> bool {
        self.answers.iter().any(|answer| matches!(answer, Ok(Outcome::Claimed(jobs)) if !jobs.is_empty()))
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let claimed =
            self.answers.iter().zip(&self.goes_back).filter_map(|(answer, goes_back)| match answer {
                Ok(Outcome::Claimed(jobs)) if *goes_back => Some(jobs),
                _ => None,
            });
        let releases: Vec<Command> = claimed.flatten().map(|claimed| hand_back(&claimed.job)).collect();
        if releases.is_empty() {
            return;
        }
        let count = releases.len();
        let unit = Unit { commands: releases, reply: None };
        if self.queue.upgrade().is_some_and(|queue| queue.try_send(unit).is_ok()) {
            tracing::info!(count, "the claimer is gone; jobs handed back");
        } else {
            tracing::warn!(count, "the claimer is gone; its jobs wait for the reaper");
        }
    }
}

fn hand_back(job: &Job) -> Command {
    let caller = Caller { lease: Some(job.lease), worker: None };
    let message = Some("the claimer was gone".to_owned());
    Command::Report(Report {
        job: job.id,
        caller,
        kind: ReportKind::Released,
        exit: Exit::default(),
        message,
        outputs: None,
        spent: None,
    })
}

/// Hands commands to the one task that talks to the store.
#[derive(Debug, Clone)]
pub(crate) struct Batcher {
    queue: mpsc::Sender<Unit>,
}

impl Batcher {
    /// The handle, and the committer to be run in a task of its own.
    pub(crate) fn new(capacity: usize, parts: CommitterParts) -> (Self, Committer) {
        let (queue, units) = mpsc::channel(capacity.max(1));
        let weak = queue.downgrade();
        (Self { queue }, Committer { units, queue: weak, parts })
    }

    /// Applies the commands in one transaction and answers each. Turned away when too many wait.
    pub(crate) async fn submit(&self, commands: Vec<Command>) -> Result<Delivery, ApiError> {
        let (reply, answer) = oneshot::channel();
        let unit = Unit { commands, reply: Some(reply) };
        self.queue.try_send(unit).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ApiError::overloaded(),
            mpsc::error::TrySendError::Closed(_) => ApiError::shutting_down(),
        })?;
        answer.await.unwrap_or_else(|_| Err(ApiError::shutting_down()))
    }

    /// Applies one command and unwraps its answer.
    pub(crate) async fn submit_one(&self, command: Command) -> Result<Outcome, ApiError> {
        self.submit(vec![command]).await?.take_one()
    }
}

/// What the committer works with.
#[derive(Debug, Clone)]
pub(crate) struct CommitterParts {
    pub(crate) clock: Clock,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) hub: Arc<WakeHub>,
    pub(crate) health: Arc<StoreHealth>,
    pub(crate) ended: Arc<dyn EndListener>,
}

/// Told about every event once it is committed, and about jobs that are deleted, which leave no event.
pub(crate) trait EndListener: Send + Sync + std::fmt::Debug {
    fn committed(&self, event: &Event);

    fn deleted(&self, _job: JobId) {}
}

/// The task that owns the way to the store.
pub(crate) struct Committer {
    units: mpsc::Receiver<Unit>,
    queue: mpsc::WeakSender<Unit>,
    parts: CommitterParts,
}

impl Committer {
    /// Runs until every handle is gone or `stop` resolves, and then serves what still waits.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop.fuse());
        let mut stopping = false;
        loop {
            let first = tokio::select! {
                biased;
                () = &mut stop, if !stopping => {
                    stopping = true;
                    self.units.close();
                    continue;
                }
                unit = self.units.recv() => unit,
            };
            let Some(first) = first else { return };
            let units = self.gather(first);
            self.commit(units).await;
        }
    }

    /// The first unit and everything else that waits already, up to a bound.
    fn gather(&mut self, first: Unit) -> Vec<Unit> {
        let mut weight = first.weight();
        let mut units = vec![first];
        while weight < MAX_WEIGHT {
            let Ok(unit) = self.units.try_recv() else { break };
            weight += unit.weight();
            units.push(unit);
        }
        units
    }

    async fn commit(&self, units: Vec<Unit>) {
        let generation = self.parts.hub.work_generation();
        match self.apply(&units).await {
            Ok(applied) => self.deliver(units, applied, generation),
            Err(error) if units.len() == 1 || error.is_transient() => {
                let answer = ApiError::from(error);
                for unit in units {
                    unit.refuse(answer.clone());
                }
            }
            Err(error) => {
                tracing::warn!(%error, callers = units.len(), "the store refused a batch; trying each caller alone");
                for unit in units {
                    self.commit_alone(unit).await;
                }
            }
        }
    }

    async fn commit_alone(&self, unit: Unit) {
        let generation = self.parts.hub.work_generation();
        match self.apply(std::slice::from_ref(&unit)).await {
            Ok(applied) => self.deliver(vec![unit], applied, generation),
            Err(error) => unit.refuse(ApiError::from(error)),
        }
    }

    /// One transaction, tried again when it met another. The units keep their commands for that.
    async fn apply(&self, units: &[Unit]) -> Result<Applied, StoreError> {
        let started = Instant::now();
        let mut pause = CONFLICT_PAUSE;
        let mut tries = 1;
        loop {
            let commands: Vec<Command> =
                units.iter().flat_map(|unit| unit.commands.iter().cloned()).collect();
            let count = commands.len();
            match self.apply_once(commands).await {
                Err(StoreError::Conflict { .. }) if tries < CONFLICT_TRIES => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    tries += 1;
                }
                result => return self.judge(result, count, started),
            }
        }
    }

    /// What is written down is compared with what others write, so nothing is before the clock is known to be theirs.
    /// A panic inside a backend is an error like any other: it must not take the scheduler with it.
    async fn apply_once(&self, commands: Vec<Command>) -> Result<Applied, StoreError> {
        let parts = &self.parts;
        if !parts.clock.is_settled()
            && !store_time::ask(parts.store.as_ref(), &parts.clock, &parts.health).await
        {
            let source = "it did not tell the time".into();
            return Err(StoreError::Unavailable { operation: "apply", source });
        }
        let call = AssertUnwindSafe(self.parts.store.apply(self.parts.clock.now(), commands)).catch_unwind();
        call.await.unwrap_or_else(|_| {
            Err(StoreError::Failed { operation: "apply", source: "the backend panicked".into() })
        })
    }

    fn judge(
        &self,
        result: Result<Applied, StoreError>,
        count: usize,
        started: Instant,
    ) -> Result<Applied, StoreError> {
        let parts = &self.parts;
        match result {
            Ok(applied) if applied.answers.len() == count => {
                parts.health.answered();
                parts.metrics.committed(count, started.elapsed());
                Ok(applied)
            }
            Ok(applied) => {
                let source = format!("{} answers to {count} commands", applied.answers.len()).into();
                parts.metrics.store_error();
                Err(StoreError::Failed { operation: "apply", source })
            }
            Err(error) => {
                match &error {
                    StoreError::Unavailable { .. } => parts.health.failed(),
                    StoreError::Full { place, .. } => {
                        parts.health.failed();
                        parts.health.note_full(place.as_deref().unwrap_or("for the store"));
                    }
                    _ => {}
                }
                parts.metrics.store_error();
                Err(error)
            }
        }
    }

    /// After the commit: count, wake, answer.
    fn deliver(&self, units: Vec<Unit>, applied: Applied, generation: u64) {
        faults::strike(Moment::After, &applied);
        let parts = &self.parts;
        for event in &applied.events {
            parts.metrics.note(event);
            journal::note(event);
            parts.ended.committed(event);
        }
        parts.metrics.usage.note(&applied.usage);
        for note in &applied.gangs {
            parts.metrics.note_gang(note);
        }
        for answer in &applied.answers {
            if matches!(answer, Err(rejection) if rejection.is_stale_report()) {
                parts.metrics.stale_report();
            }
        }
        // A caller alone in its transaction has seen its own effects. In company, the order of the
        // commands decides what a claim has seen, so it looks again after any change.
        let seen_own = u64::from(units.len() == 1 && applied.wake.work);
        parts.hub.publish(&applied.wake);
        let mut answers = applied.answers.into_iter();
        for unit in units {
            let mine: Vec<Answer> = answers.by_ref().take(unit.commands.len()).collect();
            for (command, answer) in unit.commands.iter().zip(&mine) {
                if let (Command::Delete { job }, Ok(Outcome::Deleted)) = (command.bare(), answer) {
                    parts.ended.deleted(*job);
                }
            }
            let unnamed = |command: &Command| matches!(command, Command::Claim(ask) if ask.key.is_none());
            let delivery = Delivery {
                answers: mine,
                goes_back: unit.commands.iter().map(unnamed).collect(),
                as_of: generation + seen_own,
                queue: self.queue.clone(),
            };
            if let Some(reply) = unit.reply {
                // When the caller is gone the delivery is dropped, which hands its claims back.
                let _ = reply.send(Ok(delivery));
            }
        }
    }
}

#[cfg(test)]
#[path = "batcher_tests.rs"]
mod tests;
