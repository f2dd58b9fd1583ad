//! A plain account of attempts, kept beside the store from what was asked of it and what it said happened.
//!
//! A claim costs an attempt. When a gang is stopped, everyone who ran gets it back but the one who is to
//! blame: the task that was reported as failed, or one of those that had fallen silent. Whoever asks to be
//! run again, is given back, makes room, is cancelled, or was held up by a sibling that nobody claimed pays
//! nothing. A gang fails when somebody has no attempt left, or when a task that has ended is not there to
//! start again; otherwise it starts again. It is judged when nothing of it runs any more.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::limits::Timeouts;
use muster_domain::retry::DEFAULT_REQUEUE_CODES;
use muster_domain::{
    EndReason, Event, EventKind, GangId, Job, JobId, Lease, ReportKind, RequeueCause, Status, Timestamp,
};
use muster_store::{Answer, Command, Outcome};

use crate::state::State;

#[derive(Debug, Clone)]
struct Entry {
    gang: Option<GangId>,
    attempts: u32,
    epoch: u32,
    lease: Lease,
    heard: Timestamp,
    /// It is held because it was lost with worker after worker; let go, it has all its attempts again.
    poisoned: bool,
    /// It has ended well and waits for the others of its gang.
    finished: bool,
    /// Its latest claim has led to a process.
    started: bool,
}

/// Who has to pay if a gang stops in a transaction.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    /// Tasks that were reported as failed, in order.
    failed: BTreeMap<GangId, Vec<JobId>>,
    silent: BTreeSet<JobId>,
    /// Gangs that were stopped for another reason, perhaps before.
    free: BTreeSet<GangId>,
    /// A pass may have stopped any of them for others.
    pass: bool,
}

/// The account of every job.
#[derive(Debug, Default)]
pub(crate) struct Books {
    entries: BTreeMap<JobId, Entry>,
    /// How often gangs were stopped.
    pub(crate) stops: u64,
}

impl Books {
    pub(crate) fn open(&mut self, job: JobId, gang: Option<GangId>) {
        let entry = Entry {
            gang,
            attempts: 0,
            epoch: 0,
            lease: Lease(0),
            heard: Timestamp::default(),
            poisoned: false,
            finished: false,
            started: false,
        };
        self.entries.insert(job, entry);
    }

    pub(crate) fn gang(&self, job: JobId) -> Option<GangId> {
        self.entries.get(&job).and_then(|entry| entry.gang)
    }

    /// The scheduler heard of the job.
    pub(crate) fn heard(&mut self, job: JobId, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(&job) {
            entry.heard = now;
        }
    }

    /// The jobs whose silence a sweep among these commands may act upon. To be asked before it does.
    pub(crate) fn silent(&self, commands: &[Command], state: &State, now: Timestamp) -> BTreeSet<JobId> {
        let bound = Timeouts::default().job_heartbeat;
        let mut silent = BTreeSet::new();
        for command in commands {
            let Command::Sweep(sweep) = command else { continue };
            let overdue = self.entries.iter().filter(|(id, entry)| {
                let running = state.job(**id).is_some_and(|job| job.status() == Status::Running);
                running && now.since(entry.heard.max(sweep.listening_since)) > bound
            });
            silent.extend(overdue.map(|(id, _)| *id));
        }
        silent
    }

    /// Who is to blame for a stop that these commands brought about.
    pub(crate) fn blame(&self, silent: BTreeSet<JobId>, commands: &[Command], answers: &[Answer]) -> Blame {
        let mut blame = Blame { silent, ..Blame::default() };
        for (command, answer) in commands.iter().zip(answers) {
            match (command, answer) {
                (Command::Report(report), Ok(Outcome::Reported { repeated: false, .. })) => {
                    let bad = matches!(
                        report.kind,
                        ReportKind::Failed | ReportKind::TimedOut | ReportKind::OutOfMemory
                    );
                    let asks = report.exit.code.is_some_and(|code| DEFAULT_REQUEUE_CODES.contains(&code));
                    let Some(gang) = self.gang(report.job) else { continue };
                    if bad && !asks {
                        blame.failed.entry(gang).or_default().push(report.job);
                    } else if bad || report.kind == ReportKind::Released {
                        blame.free.insert(gang);
                    }
                }
                (Command::Cancel { job, .. } | Command::Preempt { job, .. }, Ok(_)) => {
                    blame.free.extend(self.gang(*job));
                }
                (Command::Sweep(_) | Command::Plan(_) | Command::Claim(_), Ok(_)) => blame.pass = true,
                _ => {}
            }
        }
        blame
    }

    /// Whoever says under which lease it speaks was heard under the latest one only. (What is repeated is answered as
    /// it was before.)
    pub(crate) fn fenced(&self, commands: &[Command], answers: &[Answer]) -> Result<(), String> {
        for (command, answer) in commands.iter().zip(answers) {
            let (job, caller) = match (command, answer) {
                (Command::Report(report), Ok(Outcome::Reported { repeated: false, .. })) => {
                    (report.job, &report.caller)
                }
                (
                    Command::AcknowledgeStop { job, caller, .. },
                    Ok(Outcome::StopAcknowledged { repeated: false }),
                )
                | (
                    Command::Heartbeat { job, caller }
                    | Command::Prepared { job, caller }
                    | Command::SaveCheckpoint { job, caller, .. },
                    Ok(_),
                ) => (*job, caller),
                _ => continue,
            };
            let known = self.entries.get(&job).map(|entry| entry.lease);
            if let (Some(lease), Some(known)) = (caller.lease, known)
                && lease != known
            {
                return Err(format!("{job} is held under lease {known}, but {lease} was heard: {command:?}"));
            }
        }
        Ok(())
    }

    /// Enters what happened, and compares with the jobs as they are now.
    pub(crate) fn enter(
        &mut self,
        blame: &Blame,
        events: &[Event],
        (state, touched): (&State, &[JobId]),
        now: Timestamp,
    ) -> Result<(), String> {
        let mut stopped: BTreeMap<(GangId, u32), Vec<JobId>> = BTreeMap::new();
        // Those that never had a process in the round that was stopped: whatever is said of them, they do not pay.
        let mut unstarted: BTreeSet<JobId> = BTreeSet::new();
        for event in events {
            let Some(id) = event.job else { continue };
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            match &event.kind {
                EventKind::Claimed { lease, .. } => {
                    if *lease <= entry.lease {
                        return Err(format!("{id} was claimed under lease {lease} after {}", entry.lease));
                    }
                    (entry.lease, entry.heard) = (*lease, now);
                    (entry.attempts, entry.finished) = (entry.attempts + 1, false);
                    entry.started = state.job(id).is_some_and(|job| job.status() == Status::Running);
                }
                EventKind::StopRequested { epoch, .. } if *epoch > entry.epoch => {
                    entry.epoch = *epoch;
                    unstarted.extend((!entry.started).then_some(id));
                    if let Some(gang) = entry.gang {
                        stopped.entry((gang, *epoch)).or_default().push(id);
                    }
                }
                EventKind::Requeued { cause, .. } if entry.gang.is_none() => {
                    let free = matches!(
                        cause,
                        RequeueCause::Released
                            | RequeueCause::AskedFor { .. }
                            | RequeueCause::Preempted { .. }
                    );
                    entry.attempts -= u32::from(free);
                    entry.poisoned = matches!(cause, RequeueCause::Poison { .. });
                }
                EventKind::Started { .. } => entry.started = true,
                EventKind::Finished { .. } => entry.finished = true,
                // It had ended well and starts again with the others, at no cost.
                EventKind::Requeued { .. } if entry.finished => {
                    (entry.attempts, entry.finished) = (entry.attempts.saturating_sub(1), false);
                }
                EventKind::Released if entry.poisoned => (entry.attempts, entry.poisoned) = (0, false),
                EventKind::RetryRequested => entry.attempts = 0,
                _ => {}
            }
        }
        for ((gang, _), tasks) in stopped {
            self.stops += 1;
            let started: Vec<JobId> = tasks.iter().filter(|id| !unstarted.contains(id)).copied().collect();
            let payer = self.payer(gang, &started, blame, state)?;
            for id in tasks.iter().filter(|id| Some(**id) != payer) {
                if let Some(entry) = self.entries.get_mut(id) {
                    entry.attempts = entry.attempts.saturating_sub(1);
                }
            }
        }
        self.compare(state, touched)?;
        verdicts(events, state)
    }

    /// The one task that does not get its attempt back.
    fn payer(
        &self,
        gang: GangId,
        tasks: &[JobId],
        blame: &Blame,
        state: &State,
    ) -> Result<Option<JobId>, String> {
        let failed = blame.failed.get(&gang).into_iter().flatten().filter(|id| tasks.contains(id));
        let failed: Vec<JobId> = failed.copied().collect();
        let silent: Vec<JobId> = tasks.iter().filter(|id| blame.silent.contains(id)).copied().collect();
        if failed.is_empty() && silent.is_empty() {
            return Ok(None);
        }
        let free = blame.free.contains(&gang) || (blame.pass && !failed.is_empty());
        if let ([first, ..], true, false) = (failed.as_slice(), silent.is_empty(), free) {
            return Ok(Some(*first));
        }
        let kept = |id: &&JobId| {
            let before = self.entries.get(id).map(|entry| entry.attempts);
            state.job(**id).map(|job| job.attempts) == before
        };
        let payers: BTreeSet<&JobId> = failed.iter().chain(&silent).filter(kept).collect();
        let payers: Vec<&JobId> = payers.into_iter().collect();
        match payers.as_slice() {
            [payer] => Ok(Some(**payer)),
            // Somebody else may have stopped it before, at nobody's cost.
            [] if free => Ok(None),
            other => Err(format!(
                "{gang}: of those that failed, {failed:?}, and the silent ones, {silent:?}, exactly one pays, not \
                 {other:?}"
            )),
        }
    }

    fn compare(&mut self, state: &State, touched: &[JobId]) -> Result<(), String> {
        for id in touched {
            let Some(job) = state.job(*id) else {
                self.entries.remove(id);
                continue;
            };
            let Some(entry) = self.entries.get(id) else { continue };
            if job.attempts != entry.attempts {
                return Err(format!("{id} has {} attempts, by the books {}", job.attempts, entry.attempts));
            }
            if entry.gang.is_some() && job.preemption_epoch != entry.epoch {
                return Err(format!(
                    "{id} is at epoch {}, by the books {}",
                    job.preemption_epoch, entry.epoch
                ));
            }
        }
        Ok(())
    }

    /// Forgets jobs that the store no longer has.
    pub(crate) fn close(&mut self, state: &State) {
        self.entries.retain(|id, _| state.job(*id).is_some());
    }
}

/// A gang that starts again may; one that failed had to.
fn verdicts(events: &[Event], state: &State) -> Result<(), String> {
    let gang = |event: &Event| state.job(event.job?)?.spec.gang.as_ref().map(|gang| gang.id);
    let mut again: BTreeSet<GangId> = BTreeSet::new();
    let mut failed: BTreeSet<GangId> = BTreeSet::new();
    // Those that the same transaction has placed again, and claimed: they are in the round after the verdict.
    let mut anew: BTreeSet<JobId> = BTreeSet::new();
    // Those that somebody cancelled in the same transaction, after it.
    let mut gone: BTreeSet<JobId> = BTreeSet::new();
    for event in events {
        match &event.kind {
            EventKind::Requeued { .. } => again.extend(gang(event)),
            EventKind::Claimed { .. } if gang(event).is_some_and(|gang| again.contains(&gang)) => {
                anew.extend(event.job);
            }
            EventKind::Cancelled { .. } if gang(event).is_some_and(|gang| again.contains(&gang)) => {
                gone.extend(event.job);
            }
            EventKind::Failed { reason: EndReason::DependencyFailed { .. }, .. } => {}
            EventKind::Failed { .. } => failed.extend(gang(event)),
            _ => {}
        }
    }
    for (gang, restarts) in again.iter().map(|g| (g, true)).chain(failed.iter().map(|g| (g, false))) {
        let tasks = state.tasks(*gang);
        let is_alive = |job: &&&Job| {
            matches!(job.status(), Status::Running | Status::Preempting) && !anew.contains(&job.id)
        };
        if let Some(alive) = tasks.iter().find(is_alive) {
            return Err(format!("{gang} was judged while {} is {}", alive.id, alive.status()));
        }
        let exhausted = tasks.iter().any(|job| {
            let attempts = job.attempts - u32::from(anew.contains(&job.id)).min(job.attempts);
            attempts >= job.spec.max_attempts && job.status() != Status::Done
        });
        let missing = tasks.iter().any(|job| match job.status() {
            Status::Done => !job.spec.gang.as_ref().is_some_and(|gang| gang.keep_done),
            Status::Cancelled => !gone.contains(&job.id),
            Status::Failed => restarts,
            _ => false,
        });
        if restarts == (exhausted || missing) {
            let what = if restarts { "starts again" } else { "failed" };
            return Err(format!("{gang} {what}: exhausted {exhausted}, tasks missing {missing}"));
        }
    }
    Ok(())
}
