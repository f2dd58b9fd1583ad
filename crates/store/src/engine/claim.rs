//! Handing out work: the planner's pass runs inside the transaction that commits it, on rows that are
//! locked, so that no worker can be over-committed by a race and no job handed out twice.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use muster_domain::limits::{LeaseTerms, MAX_AHEAD};
use muster_domain::{
    GangId, Health, Job, JobId, Requirement, Resources, Shape, ShapeId, Timestamp, Trigger, Worker, WorkerId,
};
use muster_planner::{Candidate, Devices, View, WorkerView, place};

use super::devices;
use super::gates::{Gates, Look};
use super::work::Work;
use super::{Answers, Policies, pick};
use crate::command::{Ask, Claimed, Command, Input, Outcome};
use crate::error::StoreError;
use crate::tx::Tx;

/// The most jobs that one transaction hands out.
const MAX_CLAIMS: u32 = 4_096;

/// The most jobs that one transaction locks to choose from. With many shapes that is a few of each; a worker
/// that has room left asks again.
const MAX_LOCKED: u32 = 4_096;

/// How many jobs of a shape are tried on workers that keep room for others.
const PASSING_DEPTH: u32 = 64;

/// Answers every claim of the batch in one pass.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
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
    hand_out_again(work, &asks, &mut desk).await?;
    hand_out_reserved(work, &mut desk).await?;
    let Offer { jobs, gates } = offer(work, &mut desk.workers).await?;
    let (policies, now) = (work.policies, work.now);
    let candidates = jobs.iter().map(|job| candidate(job, &gates, policies, now)).collect();
    let view = View {
        candidates,
        workers: desk.workers.clone(),
        limits: gates.limits.clone(),
        ledger: gates.ledger().cloned(),
    };
    for placement in place(&view, policies) {
        let job = jobs[placement.candidate].id;
        let worker = desk.workers[placement.worker].id.clone();
        let (key, terms, devices) =
            (desk.key(placement.worker), desk.terms(placement.worker), placement.devices);
        if work.trigger(job, &Trigger::Claim { worker, key, devices, prepares: false, terms }).is_ok() {
            desk.hand_out(placement.worker, job);
            desk.enter(placement.worker, &view.candidates[placement.candidate]);
        }
    }
    desk.note_kept_rooms(work).await?;
    let started: HashSet<JobId> = desk.handed.values().flatten().copied().collect();
    gates.settle(work, jobs.iter().filter(|job| started.contains(&job.id))).await?;
    let handed = desk.handed;
    let checkpoints = checkpoints(work, handed.values().flatten().copied()).await?;
    let parents = parents_with_outputs(work, handed.values().flatten().copied()).await?;
    let rounds = rounds(work, handed.values().flatten().copied()).await?;
    for (position, _) in asks {
        let ids = handed.get(&position).map(Vec::as_slice).unwrap_or_default();
        let jobs = ids.iter().filter_map(|id| work.job(*id).ok().cloned());
        let claimed = jobs.map(|job| Claimed {
            checkpoint: checkpoints.get(&job.id).cloned(),
            inputs: inputs(&job, &parents),
            peers: peers(&job, &rounds),
            job,
        });
        answers.put(position, Ok(Outcome::Claimed(claimed.collect())));
    }
    Ok(())
}

/// Repeats claims whose answer was lost: what was handed out under their key is still theirs.
async fn hand_out_again<T: Tx>(
    work: &mut Work<'_, T>,
    asks: &[(usize, &Ask)],
    desk: &mut Desk,
) -> Result<(), StoreError> {
    for (position, ask) in asks.iter().filter(|(_, ask)| ask.again) {
        let (Some(worker), Some(key)) = (&ask.worker, &ask.key) else { continue };
        for job in work.tx.running_jobs(worker).await? {
            if job.must_be_heard() && job.claim_key.as_ref() == Some(key) {
                desk.handed.entry(*position).or_default().push(job.id);
                work.hold_if_new(job);
            }
        }
    }
    Ok(())
}

/// Tasks of gangs that are reserved for the asking workers, in one order for all workers, so that those with
/// one slot start the same gang first.
async fn hand_out_reserved<T: Tx>(work: &mut Work<'_, T>, desk: &mut Desk) -> Result<(), StoreError> {
    let asking: Vec<WorkerId> = desk
        .workers
        .iter()
        .filter(|worker| worker.wants > 0)
        .filter_map(|worker| worker.id.clone())
        .collect();
    if asking.is_empty() {
        return Ok(());
    }
    for job in work.tx.lock_reserved(&asking).await?.into_iter().filter(|job| !job.is_leased()) {
        let id = job.id;
        let place = desk.workers.iter().position(|worker| worker.id.as_ref() == job.worker());
        let Some(place) = place.filter(|place| desk.workers[*place].wants > 0) else { continue };
        work.hold_if_new(job);
        let (worker, key) = (desk.workers[place].id.clone(), desk.key(place));
        let (prepares, terms) = (desk.prepares(place), desk.terms(place));
        if work.trigger(id, &Trigger::Claim { worker, key, devices: None, prepares, terms }).is_ok() {
            // Its room was counted when it was reserved.
            desk.workers[place].wants -= 1;
            desk.hand_out(place, id);
        }
    }
    Ok(())
}

/// All tasks of the gangs that these jobs belong to.
async fn rounds<T: Tx>(
    work: &mut Work<'_, T>,
    claimed: impl Iterator<Item = JobId>,
) -> Result<HashMap<GangId, Vec<Job>>, StoreError> {
    let gang = |id: JobId| Some(work.job(id).ok()?.spec.gang.as_ref()?.id);
    let gangs: BTreeSet<GangId> = claimed.filter_map(gang).collect();
    let mut found: HashMap<GangId, Vec<Job>> = HashMap::new();
    if gangs.is_empty() {
        return Ok(found);
    }
    let gangs: Vec<GangId> = gangs.into_iter().collect();
    for task in work.tx.gang_tasks(&gangs).await? {
        if let Some(gang) = &task.spec.gang {
            found.entry(gang.id).or_default().push(task);
        }
    }
    for tasks in found.values_mut() {
        tasks.sort_unstable_by_key(|task| task.spec.gang.as_ref().map_or(0, |gang| gang.index));
    }
    Ok(found)
}

/// The tasks of the same round as this one, also those that were so quick that they have ended.
fn peers(job: &Job, rounds: &HashMap<GangId, Vec<Job>>) -> Vec<Job> {
    let tasks = job.spec.gang.as_ref().and_then(|gang| rounds.get(&gang.id)).into_iter().flatten();
    let together = |task: &&Job| task.reservation_epoch == job.reservation_epoch && task.round.is_some();
    tasks.filter(together).cloned().collect()
}

fn candidate(job: &Job, gates: &Gates, policies: &Policies, now: Timestamp) -> Candidate {
    let shape = job.spec.shape();
    Candidate {
        id: job.id,
        priority: job.spec.priority,
        pool: policies.pool_of(&job.spec.tags),
        rank: job.rank,
        seq: job.seq,
        limits: gates.of(&shape),
        seat: gates.seat(&shape),
        fixed: shape.fixed,
        requirement: shape.requirement,
        avoid: job.tried.clone(),
        ends: job.ends_if_started(now),
    }
}

/// Jobs that may start now, locked, and the gates they pass through.
#[derive(Default)]
struct Offer {
    jobs: Vec<Job>,
    gates: Gates,
}

/// A registered worker that asks, and how many jobs it may get at the most while it is in quarantine.
struct Asking {
    view: WorkerView,
    allowance: Option<u32>,
}

/// The asking workers, and which ask each of them gets its jobs through.
struct Desk {
    workers: Vec<WorkerView>,
    /// For each worker: positions of its asks with what they still want.
    asks: Vec<Vec<(usize, u32)>>,
    /// The key of each ask that has one.
    keys: HashMap<usize, Arc<str>>,
    /// Asks of workers that prepare tasks of gangs before they start them.
    preparing: HashSet<usize>,
    /// The terms of each ask that has some.
    terms: HashMap<usize, LeaseTerms>,
    handed: BTreeMap<usize, Vec<JobId>>,
    /// Workers whose kept room changed, by position.
    entered: BTreeSet<usize>,
}

impl Desk {
    /// Several asks of one worker share its room; anonymous asks stand for themselves.
    async fn open<T: Tx>(work: &mut Work<'_, T>, asks: &[(usize, &Ask)]) -> Result<Self, StoreError> {
        let mut named: BTreeMap<&WorkerId, Vec<(usize, &Ask)>> = BTreeMap::new();
        let mut desk = Self {
            workers: Vec::new(),
            asks: Vec::new(),
            keys: HashMap::new(),
            preparing: HashSet::new(),
            terms: HashMap::new(),
            handed: BTreeMap::new(),
            entered: BTreeSet::new(),
        };
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
            let asking = registered.remove(id);
            let Asking { mut view, allowance } =
                asking.unwrap_or_else(|| Asking { view: unregistered(Some(id.clone())), allowance: None });
            view.slots = view.slots.map(|slots| slots.saturating_add(ahead));
            desk.add(view, &asks);
            if let (Some(allowance), Some(view)) = (allowance, desk.workers.last_mut()) {
                view.wants = view.wants.min(allowance);
            }
        }
        Ok(desk)
    }

    fn add(&mut self, mut view: WorkerView, asks: &[(usize, &Ask)]) {
        view.wants = asks.iter().map(|(_, ask)| ask.max).fold(0, u32::saturating_add).min(MAX_CLAIMS);
        self.workers.push(view);
        self.keys.extend(asks.iter().filter_map(|(position, ask)| Some((*position, ask.key.clone()?))));
        self.preparing.extend(asks.iter().filter(|(_, ask)| ask.prepares).map(|(position, _)| *position));
        self.terms.extend(asks.iter().filter_map(|(position, ask)| Some((*position, ask.terms?))));
        self.asks.push(asks.iter().map(|(position, ask)| (*position, ask.max)).collect());
    }

    /// The ask that the worker gets its next job through.
    fn next(&self, worker: usize) -> Option<usize> {
        self.asks[worker].iter().find(|(_, left)| *left > 0).map(|(position, _)| *position)
    }

    fn key(&self, worker: usize) -> Option<Arc<str>> {
        self.keys.get(&self.next(worker)?).cloned()
    }

    fn prepares(&self, worker: usize) -> bool {
        self.next(worker).is_some_and(|position| self.preparing.contains(&position))
    }

    /// The terms of that ask.
    fn terms(&self, worker: usize) -> Option<LeaseTerms> {
        let (position, _) = self.asks[worker].iter().find(|(_, left)| *left > 0)?;
        self.terms.get(position).copied()
    }

    /// Counts a job against the room that its worker keeps.
    fn enter(&mut self, worker: usize, candidate: &Candidate) {
        if self.workers[worker].settle(&candidate.entrant()) {
            self.entered.insert(worker);
        }
    }

    async fn note_kept_rooms<T: Tx>(&self, work: &mut Work<'_, T>) -> Result<(), StoreError> {
        let rooms: HashMap<&WorkerId, &WorkerView> = self
            .entered
            .iter()
            .filter_map(|place| Some((self.workers[*place].id.as_ref()?, &self.workers[*place])))
            .collect();
        if rooms.is_empty() {
            return Ok(());
        }
        // They are locked since the desk was opened.
        let ids: Vec<WorkerId> = rooms.keys().copied().cloned().collect();
        let mut workers = work.tx.lock_workers(&ids).await?;
        for worker in &mut workers {
            worker.kept = rooms.get(&worker.id).and_then(|view| view.kept.clone()).map(Box::new);
        }
        work.tx.put_workers(&workers).await
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
    WorkerView { id, ..WorkerView::default() }
}

/// The registered ones among these workers, locked, with what they hold.
async fn registered<T: Tx>(
    work: &mut Work<'_, T>,
    ids: &[WorkerId],
) -> Result<HashMap<WorkerId, Asking>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut workers = work.tx.lock_workers(ids).await?;
    // What they have is not known, so that nothing is compared with it.
    workers.retain(|worker| !worker.assumed);
    let health: Vec<Health> = workers.iter().map(|worker| worker.health.clone()).collect();
    let views = with_usage(work.tx, workers).await?;
    let now = work.now;
    let bounded = views.into_iter().zip(health).filter_map(|(view, health)| {
        let allowance = health.allowance(view.running, now);
        Some((view.id.clone()?, Asking { view, allowance }))
    });
    Ok(bounded.collect())
}

/// The jobs that these depend on and that have left something for them.
async fn parents_with_outputs<T: Tx>(
    work: &mut Work<'_, T>,
    claimed: impl Iterator<Item = JobId>,
) -> Result<HashMap<JobId, Job>, StoreError> {
    let specs = claimed.filter_map(|id| work.job(id).ok()).map(|job| &job.spec);
    let ids: BTreeSet<JobId> = specs.flat_map(|spec| spec.depends_on.iter().copied()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<JobId> = ids.into_iter().collect();
    let parents = work.tx.read_jobs(&ids).await?.into_iter();
    Ok(parents.filter(|parent| parent.outputs.is_some()).map(|parent| (parent.id, parent)).collect())
}

fn inputs(job: &Job, parents: &HashMap<JobId, Job>) -> Vec<Input> {
    let left = job.spec.depends_on.iter().filter_map(|id| parents.get(id));
    left.filter_map(|parent| {
        let step = parent.member.as_ref().and_then(|member| member.step.as_deref().map(str::to_owned));
        Some(Input {
            name: step.or_else(|| parent.spec.name.clone()),
            index: parent.member.as_ref().and_then(|member| member.index),
            outputs: parent.outputs.clone()?,
        })
    })
    .collect()
}

/// What the jobs on a worker take.
#[derive(Default)]
struct Held {
    used: Resources,
    running: u32,
    exclusive: bool,
}

/// Adds up what each worker holds, from its jobs. Which of its GPUs are held is read when somebody wants some.
pub(super) async fn with_usage<T: Tx>(
    tx: &mut T,
    workers: Vec<Worker>,
) -> Result<Vec<WorkerView>, StoreError> {
    let ids: Vec<WorkerId> = workers.iter().map(|worker| worker.id.clone()).collect();
    let usage = if ids.is_empty() { Vec::new() } else { tx.usage(&ids).await? };
    let mut shapes: Vec<ShapeId> = usage.iter().map(|usage| usage.shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    let needs: HashMap<ShapeId, Shape> = match shapes.as_slice() {
        [] => HashMap::new(),
        shapes => tx.shapes(shapes).await?.into_iter().collect(),
    };
    let mut held: HashMap<WorkerId, Held> = HashMap::new();
    for usage in usage {
        let held = held.entry(usage.worker).or_default();
        held.running += usage.jobs;
        let need = needs.get(&usage.shape).map(|shape| &shape.requirement);
        held.exclusive |= need.is_some_and(|need| need.exclusive);
        if let Some(need) = need.filter(|need| !need.resources.is_zero()) {
            for _ in 0..usage.jobs {
                held.used.add(&need.resources);
            }
        }
    }
    let view = |worker: Worker| {
        let Held { used, running, exclusive } = held.remove(&worker.id).unwrap_or_default();
        let devices = match worker.devices.as_slice() {
            [] => None,
            devices if used.gpu_need().is_some() => Some(Devices::unread(devices)),
            devices => Some(Devices::idle(devices)),
        };
        WorkerView {
            id: Some(worker.id),
            total: Some(worker.resources),
            used,
            running,
            slots: worker.slots,
            tags: worker.tags,
            wants: 0,
            kept: worker.kept.map(|kept| *kept),
            devices,
            exclusive,
            labels: worker.labels,
        }
    };
    Ok(workers.into_iter().map(view).collect())
}

/// The heads of every shape that some asking worker has room for and whose gates are open.
async fn offer<T: Tx>(work: &mut Work<'_, T>, workers: &mut [WorkerView]) -> Result<Offer, StoreError> {
    let wanted = workers.iter().map(|worker| worker.wants).fold(0, u32::saturating_add).min(MAX_CLAIMS);
    if wanted == 0 {
        return Ok(Offer::default());
    }
    let mut shapes = work.tx.pending_shapes().await?;
    devices::read_for(work.tx, shapes.iter().map(|(_, shape)| &shape.requirement), workers).await?;
    let fits = |need: &Requirement| workers.iter().any(|w| w.wants > 0 && w.has_room_for(need));
    shapes.retain(|(_, shape)| fits(&shape.requirement));
    let gates = Gates::read(work, shapes.iter().map(|(_, shape)| shape), Look::Lock).await?;
    shapes.retain(|(_, shape)| gates.is_open(shape));
    if shapes.is_empty() {
        return Ok(Offer { jobs: Vec::new(), gates });
    }
    let ids: Vec<ShapeId> = shapes.into_iter().map(|(id, _)| id).collect();
    // Jobs of one shape are alike, but for when they end, which matters where room is kept for others.
    let keeping = workers.iter().any(|worker| worker.kept.is_some());
    let depth = if keeping { wanted.max(PASSING_DEPTH) } else { wanted };
    let depth = depth.min((MAX_LOCKED / ids.len() as u32).max(1));
    let jobs = work.tx.lock_heads(&ids, depth as usize).await?;
    for job in &jobs {
        work.hold(job.clone());
    }
    Ok(Offer { jobs, gates })
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
