//! Promises that need more than one look: what has ended stays so, numbers only grow, nothing takes longer
//! than its bound, no round of a gang starts while the one before is alive where it can be heard, and no rank works before all of
//! its round are prepared.

use std::collections::BTreeMap;

use muster_domain::{Event, EventKind, GangId, Job, JobId, Phase, Span, Status, Timestamp};
use muster_store::Claimed;

use crate::state::State;
use crate::worker::{Process, SimWorker};

/// The bounds of the contract with the period of the passes and a scheduler that begins anew.
const RESERVED_BOUND: Span = Span::from_secs(90);
const STOPPING_BOUND: Span = Span::from_secs(120);
const SILENCE_BOUND: Span = Span::from_secs(90);

/// A process that was silent for longer may have been taken for gone.
const EXCUSED_SILENCE: Span = Span::from_secs(12);

#[derive(Debug, Clone, Copy)]
struct Seen {
    status: Status,
    epoch: u32,
    round: u32,
}

/// What all tasks of a round are told about each other.
type Peers = Vec<(JobId, String)>;

#[derive(Debug, Default)]
pub(crate) struct Watch {
    seen: BTreeMap<JobId, Seen>,
    rounds: BTreeMap<GangId, (u32, Peers)>,
    checkpoints: BTreeMap<JobId, Vec<u8>>,
    /// What is added to every bound on a time, where clocks disagree or a store is away.
    pub(crate) slack: Span,
    /// Workers stop every process before its lease ends: nothing excuses two of one job.
    pub(crate) fenced: bool,
}

impl Watch {
    /// Compares the jobs with what was seen before.
    pub(crate) fn look(
        &mut self,
        (state, touched): (&State, &[JobId]),
        events: &[Event],
    ) -> Result<(), String> {
        for id in touched {
            let Some(job) = state.job(*id) else {
                self.seen.remove(id);
                continue;
            };
            let next =
                Seen { status: job.status(), epoch: job.preemption_epoch, round: job.reservation_epoch };
            if let Some(seen) = self.seen.insert(*id, next) {
                let asked =
                    || events.iter().any(|e| e.job == Some(*id) && e.kind == EventKind::RetryRequested);
                if seen.status.is_terminal() && next.status != seen.status && !asked() {
                    return Err(format!("{id} was {} and is {}", seen.status, next.status));
                }
                if next.epoch < seen.epoch || next.round < seen.round {
                    return Err(format!("{id} went back from {seen:?} to {next:?}"));
                }
            }
        }
        Ok(())
    }

    /// Looks for what takes too long, in a state that was just read.
    pub(crate) fn look_at_all(&mut self, state: &State, now: Timestamp) -> Result<(), String> {
        self.seen.retain(|id, _| state.job(*id).is_some());
        self.checkpoints.retain(|id, _| state.job(*id).is_some());
        self.rounds.retain(|gang, _| !state.tasks(*gang).is_empty());
        state.jobs().iter().try_for_each(|job| overdue(job, now, self.slack))
    }

    /// A checkpoint was accepted: whoever claims the job next gets it.
    pub(crate) fn saved(&mut self, job: JobId, bytes: &[u8]) {
        self.checkpoints.insert(job, bytes.to_vec());
    }

    /// A job was handed out. Of a gang task, the siblings of earlier rounds must be gone, or silent.
    pub(crate) fn starts(
        &mut self,
        claimed: &Claimed,
        workers: &[SimWorker],
        state: &State,
        now: Timestamp,
    ) -> Result<(), String> {
        let job = &claimed.job;
        let kept = self.checkpoints.get(&job.id).map(Vec::as_slice);
        if claimed.checkpoint.as_deref() != kept {
            return Err(format!("{} got {:?} instead of {kept:?}", job.id, claimed.checkpoint));
        }
        if self.fenced {
            runs_nowhere_else(job, workers)?;
        }
        gpus_are_free(job, workers, state)?;
        let Some(gang) = job.spec.gang.as_ref().map(|gang| gang.id) else { return Ok(()) };
        let round = job.reservation_epoch;
        let address = place(job);
        for worker in workers.iter().filter(|worker| worker.is_up()) {
            for ((other, lease), process) in &worker.processes {
                let itself = (*other, *lease) == (job.id, job.lease);
                let known = !worker.is_doubted(now) && !address.is_empty();
                if known && !itself && process.address == address {
                    return Err(format!("{} is sent to {address}, where {other} still is", job.id));
                }
                let before = process.gang == Some(gang) && process.round < round;
                if before && !process.hangs && !process.was_silent(now, EXCUSED_SILENCE) {
                    return Err(format!(
                        "{} starts in round {round} of {gang} while {other} (lease {lease}) of round {} \
                         runs on {}, heard of {} ms ago",
                        job.id,
                        process.round,
                        worker.id,
                        now.since(process.heard).as_micros() / 1000
                    ));
                }
            }
        }
        self.peers(gang, claimed, state)
    }

    /// Everyone in a round is told the same, and no two are told to be in the same place.
    fn peers(&mut self, gang: GangId, claimed: &Claimed, state: &State) -> Result<(), String> {
        let round = claimed.job.reservation_epoch;
        let peers: Peers = claimed.peers.iter().map(|task| (task.id, place(task))).collect();
        let together = state.tasks(gang).iter().filter(|task| task.reservation_epoch == round).count();
        if peers.len() != together {
            return Err(format!("{gang} round {round}: {} peers of {together} tasks", peers.len()));
        }
        let mut places: Vec<&String> = peers.iter().map(|(_, address)| address).collect();
        places.sort();
        if places.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("{gang} round {round}: two tasks in one place: {peers:?}"));
        }
        match self.rounds.get(&gang) {
            Some((known, before)) if *known == round && *before != peers => {
                Err(format!("{gang} round {round}: told {peers:?} after {before:?}"))
            }
            _ => {
                self.rounds.insert(gang, (round, peers));
                Ok(())
            }
        }
    }
}

/// No rank works while another one of its round has not started.
pub(crate) fn together(process: &Process, state: &State) -> Result<(), String> {
    let Some(gang) = process.gang else { return Ok(()) };
    let late = |task: &&Job| task.reservation_epoch == process.round && task.status() == Status::Reserved;
    match state.tasks(gang).into_iter().find(late) {
        Some(late) => Err(format!("works in round {} while {} waits to start", process.round, late.id)),
        None => Ok(()),
    }
}

/// No process whose lease holds was told to use a GPU that a job was just given, unless both have a part of it. (A
/// process of which somebody said without proof that it is gone has no lease any more.)
fn gpus_are_free(job: &Job, workers: &[SimWorker], state: &State) -> Result<(), String> {
    let (Some(grant), Some(id)) = (&job.devices, job.worker()) else { return Ok(()) };
    for worker in workers.iter().filter(|worker| worker.id == *id) {
        for ((other, lease), process) in &worker.processes {
            let itself = (*other, *lease) == (job.id, job.lease);
            // A task that waits for its next claim still has the lease of the last one.
            let holds = |known: &Job| {
                known.lease == *lease && matches!(known.status(), Status::Running | Status::Preempting)
            };
            let Some(held) = process.devices.as_ref().filter(|_| !itself) else { continue };
            let both = held.indices().iter().any(|index| grant.indices().contains(index));
            let shared = held.share_mb().is_some() && grant.share_mb().is_some();
            if both && !shared && state.job(*other).is_some_and(holds) {
                return Err(format!("{} gets {grant} of {id}, where {other} still has {held}", job.id));
            }
        }
    }
    Ok(())
}

/// Where the peers of a task find it.
fn place(task: &Job) -> String {
    task.round.as_ref().map(|round| round.address.clone()).unwrap_or_default()
}

fn overdue(job: &Job, now: Timestamp, slack: Span) -> Result<(), String> {
    let (since, bound) = match &job.phase {
        Phase::Reserved { reserved_at, claim: None, .. } => (*reserved_at, RESERVED_BOUND),
        Phase::Preempting { drain_started_at, .. } => {
            (*drain_started_at, STOPPING_BOUND + job.lease_span.unwrap_or(Span::ZERO))
        }
        Phase::Running { .. } | Phase::Reserved { .. } => {
            (job.last_sign_of_life(), SILENCE_BOUND + job.lease_span.unwrap_or(Span::ZERO))
        }
        _ => return Ok(()),
    };
    if now.since(since) > bound + slack {
        return Err(format!("{} is {} since {} us", job.id, job.status(), since.as_micros()));
    }
    Ok(())
}

/// No process of an earlier lease of the job is alive, on no worker that still has power.
fn runs_nowhere_else(job: &Job, workers: &[SimWorker]) -> Result<(), String> {
    for worker in workers {
        if let Some((_, lease)) =
            worker.processes.keys().find(|(id, lease)| *id == job.id && *lease < job.lease)
        {
            let (id, new) = (job.id, job.lease);
            return Err(format!("{id} is handed out with lease {new} while {lease} runs on {}", worker.id));
        }
    }
    Ok(())
}
