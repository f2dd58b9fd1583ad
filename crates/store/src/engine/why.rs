//! Why a job does not run: what is read for it, and the question to the pure planner.
//!
//! Guarantee: what is read is bounded by workers, shapes and what runs on the workers that could take the job; the jobs
//! that wait are counted, not read.

use std::collections::{BTreeSet, HashMap};

use muster_domain::{
    Explanation, Job, JobId, Phase, QueueName, Reason, Requirement, ShapeId, Status, Timestamp, Unit, Worker,
    WorkerId, WorkerStatus,
};
use muster_planner::{Aside, Case, Facing, GangCandidate, Gate, Owner, WorkerView, explain};

use super::claim::with_usage;
use super::gates::Gates;
use super::{Policies, devices, outlook, plan, quotas, standings};
use crate::error::StoreError;
use crate::tx::{Tx, WaitingGang};

/// Gangs that are looked through for those that go first.
const GANGS: usize = 1000;

/// The job, and all that can be said about it.
pub(super) async fn why<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    id: JobId,
    now: Timestamp,
) -> Result<Option<(Job, Explanation)>, StoreError> {
    let Some(job) = tx.read_jobs(&[id]).await?.pop() else { return Ok(None) };
    let explanation = match &job.phase {
        Phase::Pending => pending(tx, policies, &job, now).await?,
        Phase::Delayed { until } => vec![delay(&job, *until)].into(),
        Phase::Held { until } => {
            let held = Reason::Held { why: hold(&job) };
            let reasons = std::iter::once(held).chain(until.map(|until| delay(&job, until)));
            reasons.collect::<Vec<_>>().into()
        }
        Phase::Blocked { .. } => {
            let mut reasons = unfinished_dependencies(tx, &job).await?;
            reasons.extend(job.hold.is_some().then(|| Reason::Held { why: hold(&job) }));
            if reasons.is_empty() && job.spec.gang.is_some() {
                waiting_task(tx, policies, &job, now).await?
            } else {
                reasons.into()
            }
        }
        Phase::Reserved { .. } => {
            let mut reasons = assembling(tx, &job).await?;
            reasons.extend(pulling(&job));
            reasons.into()
        }
        Phase::Running { worker, .. } => {
            let running = Reason::Running { worker: worker.clone(), since: job.started_at };
            std::iter::once(running).chain(pulling(&job)).collect::<Vec<_>>().into()
        }
        Phase::Preempting { stop, .. } | Phase::Preempted { stop, .. } => {
            vec![Reason::Stopping { why: stop.to_string() }].into()
        }
        Phase::Finished { .. } => finished_task(tx, &job).await?.into(),
        Phase::Done { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => {
            vec![Reason::Ended { status: job.status(), why: job.reason() }].into()
        }
    };
    Ok(Some((job, explanation)))
}

/// What its worker does before the command of the job runs.
fn pulling(job: &Job) -> Option<Reason> {
    let (pull, container) = (job.image_pull()?, job.spec.container.as_ref()?);
    Some(Reason::Pulling { image: container.image.clone(), bytes: pull.bytes, total: pull.total })
}

fn hold(job: &Job) -> String {
    job.hold.as_ref().map_or_else(|| "held".to_owned(), ToString::to_string)
}

fn delay(job: &Job, until: Timestamp) -> Reason {
    if job.closed.is_some() {
        return Reason::BackOff { until, attempt: job.attempts };
    }
    Reason::NotBefore { until }
}

async fn unfinished_dependencies<T: Tx>(tx: &mut T, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let parents = tx.read_jobs(&job.spec.depends_on).await?;
    // One that has ended is not waited for any more, however it ended: the rule decided on it.
    let unfinished = parents.iter().filter(|parent| parent.ended().is_none());
    Ok(unfinished.map(|parent| Reason::Dependency { job: parent.id, status: parent.status() }).collect())
}

/// A task that is placed and waits for the others of its round.
async fn assembling<T: Tx>(tx: &mut T, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let Some(gang) = job.spec.gang.as_ref() else { return Ok(Vec::new()) };
    let tasks = tx.gang_tasks(&[gang.id]).await?;
    let missing = tasks.iter().filter_map(|task| {
        let waited_for = task.preparation().is_none_or(|claim| claim.prepared_at.is_none());
        let worker = task.worker().filter(|_| waited_for && task.status() == Status::Reserved)?;
        Some((task.spec.gang.as_ref()?.index, worker.clone()))
    });
    let mut missing: Vec<_> = missing.collect();
    missing.sort_unstable();
    Ok(vec![Reason::Assembling { gang: gang.id, missing }])
}

/// A task of a gang that has ended well before the others.
async fn finished_task<T: Tx>(tx: &mut T, job: &Job) -> Result<Vec<Reason>, StoreError> {
    let Some(gang) = job.spec.gang.as_ref() else { return Ok(Vec::new()) };
    let tasks = tx.gang_tasks(&[gang.id]).await?;
    let open = tasks.iter().filter(|task| !task.is_terminal() && task.finished_at().is_none());
    let mut open: Vec<u32> = open.filter_map(|task| Some(task.spec.gang.as_ref()?.index)).collect();
    open.sort_unstable();
    Ok(vec![Reason::Finished { gang: gang.id, open }])
}

/// A task of a gang that waits for nothing but its placement.
async fn waiting_task<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    job: &Job,
    now: Timestamp,
) -> Result<Explanation, StoreError> {
    let Some(gang) = job.spec.gang.as_ref() else { return Ok(Explanation::default()) };
    let tasks = tx.gang_tasks(&[gang.id]).await?;
    let open: Vec<&Job> = tasks.iter().filter(|task| !task.is_terminal()).collect();
    if open.iter().any(|task| task.status() != Status::Blocked) {
        return Ok(vec![Reason::Spared { gang: gang.id }].into());
    }
    let waiting = WaitingGang { first: job.clone(), tasks: open.len() as u32 };
    let Some(unit) = plan::candidate(&waiting, &Gates::default(), policies, now) else {
        return Ok(Explanation::default());
    };
    let mut explanation = explain(&case(tx, policies, job, unit.clone(), now).await?);
    let in_turn = policies.of(job).is_fair() && standings::in_turn(tx, policies, job).await?.is_some();
    explanation.reasons.extend(ahead(tx, policies, job, Standing { own: &unit, in_turn }, now).await?);
    explanation.reasons.extend(standings::of_job(policies, job));
    if job.ready_at > now && (job.closed.is_some() || job.spec.not_before == Some(job.ready_at)) {
        explanation.reasons.insert(0, delay(job, job.ready_at));
        explanation.suggestions.clear();
    }
    Ok(explanation)
}

/// A job that waits for a worker.
async fn pending<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    job: &Job,
    now: Timestamp,
) -> Result<Explanation, StoreError> {
    let own = outlook::single(job, policies, now);
    let mut explanation = explain(&case(tx, policies, job, own.clone(), now).await?);
    let in_turn =
        if policies.of(job).is_fair() { standings::in_turn(tx, policies, job).await? } else { None };
    let standing = Standing { own: &own, in_turn: in_turn.is_some() };
    explanation.reasons.extend(ahead(tx, policies, job, standing, now).await?);
    explanation.reasons.extend(in_turn.flatten());
    explanation.reasons.extend(standings::of_job(policies, job));
    Ok(explanation)
}

/// A unit that waits, and whether its queue takes turns with others.
struct Standing<'a> {
    own: &'a GangCandidate,
    in_turn: bool,
}

/// Who goes first. Where queues take turns, age says that only among those of one queue.
async fn ahead<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    job: &Job,
    Standing { own, in_turn }: Standing<'_>,
    now: Timestamp,
) -> Result<Option<Reason>, StoreError> {
    // Other pools have other workers.
    let counts = |queue: Option<&QueueName>, tags: &BTreeSet<String>| {
        policies.pool_of(tags) == own.pool && (!in_turn || queue == job.spec.queue.as_ref())
    };
    let mut jobs = 0;
    if matches!(own.unit, Unit::Job(_)) {
        let shapes = tx.pending_shapes().await?.into_iter();
        let shapes: Vec<ShapeId> = shapes
            .filter(|(_, shape)| counts(shape.queue.as_ref(), &shape.requirement.tags))
            .map(|(id, _)| id)
            .collect();
        jobs = tx.count_ahead(job, &shapes).await?;
    }
    let waiting = tx.waiting_gangs(GANGS).await?.into_iter();
    let ready = waiting.filter(|gang| gang.first.hold.is_none() && gang.first.ready_at <= now);
    let among = ready.filter(|gang| counts(gang.first.spec.queue.as_ref(), &gang.first.spec.tags));
    let units = among.filter_map(|gang| plan::candidate(&gang, &Gates::default(), policies, now));
    let gangs = units.filter(|unit| unit.key() < own.key()).count() as u64;
    let queue = job.spec.queue.clone().filter(|_| in_turn);
    Ok((jobs + gangs > 0).then_some(Reason::Ahead { jobs, gangs, queue }))
}

/// What decides on a unit, of which `job` is the job or the first task.
async fn case<T: Tx>(
    tx: &mut T,
    policies: &Policies,
    job: &Job,
    unit: GangCandidate,
    now: Timestamp,
) -> Result<Case, StoreError> {
    let facing = facing(tx, job, unit.least, now).await?;
    let (workers, aside) = workers(tx, [&unit.requirement]).await?;
    let mut case = Case::new(unit, workers, now);
    (case.aside, case.policies, case.queue) = (aside, policies.clone(), job.spec.queue.clone());
    case.face(facing);
    if !case.fits() {
        read_occupants(tx, &mut case).await?;
    }
    Ok(case)
}

/// The workers that get work and those that do not, with what they hold.
pub(super) async fn workers<'n, T: Tx>(
    tx: &mut T,
    needs: impl IntoIterator<Item = &'n Requirement>,
) -> Result<(Vec<WorkerView>, Vec<Aside>), StoreError> {
    let all = tx.workers().await?;
    let mut views = with_usage(tx, all.clone()).await?;
    devices::read_for(tx, needs, &mut views).await?;
    Ok(set_aside(all, views))
}

/// The same with all that is known of their GPUs.
pub(super) async fn all_workers<T: Tx>(tx: &mut T) -> Result<(Vec<WorkerView>, Vec<Aside>), StoreError> {
    let all = tx.workers().await?;
    let mut views = with_usage(tx, all.clone()).await?;
    devices::read(tx, &mut views).await?;
    Ok(set_aside(all, views))
}

fn set_aside(all: Vec<Worker>, views: Vec<WorkerView>) -> (Vec<WorkerView>, Vec<Aside>) {
    let (mut workers, mut aside) = (Vec::new(), Vec::new());
    for (Worker { status, health, .. }, view) in all.into_iter().zip(views) {
        let quarantined_until = health.quarantine.map(|quarantine| quarantine.probe_at);
        match (status, quarantined_until) {
            (WorkerStatus::Active, None) => workers.push(view),
            (WorkerStatus::Active, Some(_)) => aside.push(Aside { view, quarantined_until }),
            (WorkerStatus::Offline, _) => aside.push(Aside { view, quarantined_until: None }),
        }
    }
    (workers, aside)
}

/// Who is on the workers that could run it.
pub(super) async fn read_occupants<T: Tx>(tx: &mut T, case: &mut Case) -> Result<(), StoreError> {
    let need = &case.unit.requirement;
    let able =
        |view: &&WorkerView| view.running > 0 && view.carries(need) && view.shortfalls_ever(need).is_empty();
    let asked: Vec<WorkerId> = case.workers.iter().filter(able).filter_map(|view| view.id.clone()).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let held = tx.held_jobs(&asked).await?;
    let all: Vec<WorkerId> = case.workers.iter().filter_map(|view| view.id.clone()).collect();
    case.occupants = outlook::occupants(&held, &all, None, &case.policies, case.now);
    let owner = |job: &Job| {
        let owner = Owner { queue: job.spec.queue.clone(), user: job.spec.user.clone() };
        (outlook::unit_of(job), owner)
    };
    case.by_history = held.iter().any(|job| job.spec.timeout.is_none() && job.expected.is_some());
    case.owners = held.iter().map(owner).collect::<HashMap<Unit, Owner>>();
    Ok(())
}

/// The gates in front of so many jobs that start together.
pub(super) async fn facing<T: Tx>(
    tx: &mut T,
    job: &Job,
    jobs: u32,
    now: Timestamp,
) -> Result<Facing, StoreError> {
    let mut facing = Facing::default();
    if let Some(name) = &job.spec.queue {
        let queues = tx.queues().await?;
        if let Some(mut queue) = queues.into_iter().find(|queue| queue.name == *name) {
            queue.refill(now);
            let name = queue.name.clone();
            facing.gates.extend(queue.paused.then(|| Gate::Paused { queue: name.clone() }));
            let left = queue.rate.map(|_| u32::try_from(queue.tokens_milli / 1000).unwrap_or(u32::MAX));
            facing.gates.extend(left.map(|left| Gate::Rate {
                queue: name,
                left,
                until: queue.starts_at(jobs).unwrap_or(now),
            }));
        }
        let (gates, queues, held) = quotas::facing(tx, &job.spec.shape()).await?;
        facing.gates.extend(gates);
        (facing.queues, facing.held) = (queues, held);
    }
    if let Some(limit) = &job.spec.concurrency {
        let holders = tx.holders_of_key(&limit.key, limit.limit as usize + 1).await?;
        facing.gates.push(Gate::Key { key: limit.key.clone(), limit: limit.limit, holders });
    }
    Ok(facing)
}
