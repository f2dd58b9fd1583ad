//! Handing out work: the planner's pass runs inside the transaction that commits it, on rows that are
//! locked, so that no worker can be over-committed by a race and no job handed out twice.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_domain::limits::MAX_AHEAD;
use muster_domain::{Job, JobId, Requirement, Resources, ShapeId, Trigger, Worker, WorkerId};
use muster_planner::{Candidate, View, WorkerView, place};

use super::work::Work;
use super::{Answers, Policy, pick};
use crate::command::{Ask, Claimed, Command, Outcome};
use crate::error::StoreError;
use crate::tx::Tx;

/// The most jobs that one transaction hands out.
const MAX_CLAIMS: u32 = 4_096;

/// Answers every claim of the batch in one pass.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    policy: Policy,
    commands: &[Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let asks = pick(commands, |command| match command {
        Command::Claim(ask) => Some(ask),
        _ => None,
    });
    if asks.is_empty() {
        return Ok(());
    }
    let mut desk = Desk::open(work, &asks).await?;
    let jobs = candidates(work, &desk.workers).await?;
    let view = View { candidates: jobs.iter().map(candidate).collect(), workers: desk.workers.clone() };
    for placement in place(&view, policy.scoring) {
        let job = jobs[placement.candidate].id;
        let worker = desk.workers[placement.worker].id.clone();
        if work.trigger(job, &Trigger::Claim { worker }).is_ok() {
            desk.hand_out(placement.worker, job);
        }
    }
    let handed = desk.handed;
    let checkpoints = checkpoints(work, handed.values().flatten().copied()).await?;
    for (position, _) in asks {
        let ids = handed.get(&position).map(Vec::as_slice).unwrap_or_default();
        let jobs = ids.iter().filter_map(|id| work.job(*id).ok().cloned());
        let claimed = jobs.map(|job| Claimed { checkpoint: checkpoints.get(&job.id).cloned(), job });
        answers.put(position, Ok(Outcome::Claimed(claimed.collect())));
    }
    Ok(())
}

fn candidate(job: &Job) -> Candidate {
    Candidate { id: job.id, priority: job.spec.priority, seq: job.seq, requirement: job.spec.requirement() }
}

/// The asking workers, and which ask each of them gets its jobs through.
struct Desk {
    workers: Vec<WorkerView>,
    /// For each worker: positions of its asks with what they still want.
    asks: Vec<Vec<(usize, u32)>>,
    handed: BTreeMap<usize, Vec<JobId>>,
}

impl Desk {
    /// Several asks of one worker share its room; anonymous asks stand for themselves.
    async fn open<T: Tx>(work: &mut Work<'_, T>, asks: &[(usize, &Ask)]) -> Result<Self, StoreError> {
        let mut named: BTreeMap<&WorkerId, Vec<(usize, &Ask)>> = BTreeMap::new();
        let mut desk = Self { workers: Vec::new(), asks: Vec::new(), handed: BTreeMap::new() };
        for (position, ask) in asks {
            match &ask.worker {
                Some(worker) => named.entry(worker).or_default().push((*position, ask)),
                None => desk.add(unregistered(None), &[(*position, ask)]),
            }
        }
        let ids: Vec<WorkerId> = named.keys().copied().cloned().collect();
        let mut registered = registered(work, &ids).await?;
        for (id, asks) in named {
            let ahead = asks.iter().map(|(_, ask)| ask.ahead.min(MAX_AHEAD)).max().unwrap_or(0);
            let mut view = registered.remove(id).unwrap_or_else(|| unregistered(Some(id.clone())));
            view.slots = view.slots.map(|slots| slots.saturating_add(ahead));
            desk.add(view, &asks);
        }
        Ok(desk)
    }

    fn add(&mut self, mut view: WorkerView, asks: &[(usize, &Ask)]) {
        view.wants = asks.iter().map(|(_, ask)| ask.max).fold(0, u32::saturating_add).min(MAX_CLAIMS);
        self.workers.push(view);
        self.asks.push(asks.iter().map(|(position, ask)| (*position, ask.max)).collect());
    }

    fn hand_out(&mut self, worker: usize, job: JobId) {
        let open = self.asks[worker].iter_mut().find(|(_, left)| *left > 0);
        if let Some((position, left)) = open {
            *left -= 1;
            self.handed.entry(*position).or_default().push(job);
        }
    }
}

fn unregistered(id: Option<WorkerId>) -> WorkerView {
    WorkerView {
        id,
        total: None,
        used: Resources::default(),
        running: 0,
        slots: None,
        tags: std::collections::BTreeSet::new(),
        wants: 0,
    }
}

/// The registered ones among these workers, locked, with what they hold.
async fn registered<T: Tx>(
    work: &mut Work<'_, T>,
    ids: &[WorkerId],
) -> Result<HashMap<WorkerId, WorkerView>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let workers = work.tx.lock_workers(ids).await?;
    let views = with_usage(work.tx, workers).await?;
    Ok(views.into_iter().filter_map(|view| Some((view.id.clone()?, view))).collect())
}

/// Adds up what each worker holds, from its jobs.
pub(super) async fn with_usage<T: Tx>(
    tx: &mut T,
    workers: Vec<Worker>,
) -> Result<Vec<WorkerView>, StoreError> {
    let ids: Vec<WorkerId> = workers.iter().map(|worker| worker.id.clone()).collect();
    let usage = if ids.is_empty() { Vec::new() } else { tx.usage(&ids).await? };
    let mut shapes: Vec<ShapeId> = usage.iter().map(|usage| usage.shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let needs: HashMap<ShapeId, Requirement> = match shapes.as_slice() {
        [] => HashMap::new(),
        shapes => tx.requirements(shapes).await?.into_iter().collect(),
    };
    let mut held: HashMap<WorkerId, (Resources, u32)> = HashMap::new();
    for usage in usage {
        let (used, running) = held.entry(usage.worker).or_default();
        *running += usage.jobs;
        if let Some(need) = needs.get(&usage.shape).filter(|need| !need.resources.is_zero()) {
            for _ in 0..usage.jobs {
                used.add(&need.resources);
            }
        }
    }
    let view = |worker: Worker| {
        let (used, running) = held.remove(&worker.id).unwrap_or_default();
        WorkerView {
            id: Some(worker.id),
            total: Some(worker.resources),
            used,
            running,
            slots: worker.slots,
            tags: worker.tags,
            wants: 0,
        }
    };
    Ok(workers.into_iter().map(view).collect())
}

/// The heads of every shape that some asking worker has room for, locked.
async fn candidates<T: Tx>(work: &mut Work<'_, T>, workers: &[WorkerView]) -> Result<Vec<Job>, StoreError> {
    let wanted = workers.iter().map(|worker| worker.wants).fold(0, u32::saturating_add).min(MAX_CLAIMS);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let fits = |need: &Requirement| workers.iter().any(|w| w.wants > 0 && w.has_room_for(need));
    let shapes = work.tx.pending_shapes().await?;
    let shapes: Vec<ShapeId> =
        shapes.into_iter().filter(|(_, need)| fits(need)).map(|(shape, _)| shape).collect();
    if shapes.is_empty() {
        return Ok(Vec::new());
    }
    let jobs = work.tx.lock_heads(&shapes, wanted as usize).await?;
    for job in &jobs {
        work.hold(job.clone());
    }
    Ok(jobs)
}

async fn checkpoints<T: Tx>(
    work: &mut Work<'_, T>,
    claimed: impl Iterator<Item = JobId>,
) -> Result<HashMap<JobId, Arc<[u8]>>, StoreError> {
    let kept = |id: &JobId| work.job(*id).is_ok_and(|job| job.checkpoint_bytes.is_some());
    let ids: Vec<JobId> = claimed.filter(kept).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found = work.tx.checkpoints(&ids).await?;
    Ok(found.into_iter().map(|(id, bytes)| (id, Arc::from(bytes))).collect())
}
