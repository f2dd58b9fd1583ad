//! What must hold after every transaction, as code. Tests call it after each step; debug builds may too.

use std::collections::{BTreeMap, HashMap};

use crate::devices::Grant;
use crate::ids::{GangId, JobId, WorkerId};
use crate::job::Job;
use crate::lifecycle::gang_ended;
use crate::limits::MAX_AHEAD;
use crate::phase::{Phase, Status};
use crate::resources::Resources;
use crate::rule::{Ended, IfUnmet, Needs};
use crate::worker::Worker;

/// A broken promise, with the evidence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("{job}: {attempts} attempts, but at most {max} are allowed")]
    TooManyAttempts { job: JobId, attempts: u32, max: u32 },
    #[error("{job} is {status} without a lease or a start time")]
    HeldWithoutLease { job: JobId, status: Status },
    #[error("{job}: the ended lease is not below the one in force")]
    LeaseWentBack { job: JobId },
    #[error("{job} waits for {recorded} dependencies, but {actual} are unfinished")]
    WrongWaitCount { job: JobId, recorded: u32, actual: u32 },
    #[error("{job} is blocked although its dependencies can no longer satisfy their rules")]
    WaitsForEver { job: JobId },
    #[error("gang task {job} is pending, so it could start alone")]
    GangTaskPending { job: JobId },
    #[error("{held} jobs of the key {key:?} hold room, but at most {limit} may")]
    TooManyOfKey { key: String, held: u32, limit: u32 },
    #[error("worker {worker} holds more than it has: {used:?} of {total:?}")]
    OverCommitted { worker: WorkerId, used: Box<Resources>, total: Box<Resources> },
    #[error("gang {gang}: some tasks are {one}, others {other}")]
    TornGang { gang: GangId, one: Status, other: Status },
    #[error("gang {gang}: {task} was started although not all tasks of the round are prepared")]
    StartedWithoutOthers { gang: GangId, task: JobId },
    #[error("gang {gang}: {placed} tasks are placed, but it starts with no fewer than {least}")]
    PartlyPlaced { gang: GangId, placed: u32, least: u32 },
    #[error("gang {gang}: {tasks} tasks are on worker {worker}, but at most {most} may")]
    CrowdedWorker { gang: GangId, worker: WorkerId, tasks: u32, most: u32 },
    #[error("gang {gang}: tasks that stop together have the epochs {one} and {other}")]
    SplitEpoch { gang: GangId, one: u32, other: u32 },
    #[error("gang {gang}: nothing of it can be alive, but no verdict has fallen")]
    NoVerdict { gang: GangId },
    #[error("{job} and {other} both hold GPU {index} of worker {worker}, and one of them all of it")]
    DeviceGivenTwice { worker: WorkerId, index: u32, job: JobId, other: JobId },
    #[error("shares of GPU {index} of worker {worker} add up to {used} MB of {total}")]
    DeviceOverCommitted { worker: WorkerId, index: u32, used: u64, total: u64 },
    #[error("{job} holds {grant}, which is not what it asked for")]
    WrongGrant { job: JobId, grant: Grant },
    #[error("{job} has worker {worker} for itself, where {running} jobs are")]
    NotAlone { job: JobId, worker: WorkerId, running: u32 },
    #[error("worker {worker} runs {running} jobs in {slots} slots")]
    TooManyJobs { worker: WorkerId, running: u32, slots: u32 },
}

/// Checks every job and worker of a complete state.
pub fn check(jobs: &[Job], workers: &[Worker]) -> Vec<Violation> {
    let by_id: HashMap<JobId, &Job> = jobs.iter().map(|job| (job.id, job)).collect();
    let mut found = Vec::new();
    let mut gangs: BTreeMap<GangId, Vec<&Job>> = BTreeMap::new();
    for job in jobs {
        if let Some(gang) = &job.spec.gang {
            gangs.entry(gang.id).or_default().push(job);
        }
    }
    // Where others depend on a gang, it has ended when all its tasks have.
    let ended = |parent: &Job| match &parent.spec.gang {
        Some(gang) => gang_ended(&gangs[&gang.id]).map(|(ended, _)| ended),
        None => parent.ended(),
    };
    for job in jobs {
        check_counts(job, &mut found);
        check_waiting(job, |id| by_id.get(&id).map(|parent| ended(parent)), &mut found);
    }
    check_capacity(jobs, workers, &mut found);
    check_devices(jobs, workers, &mut found);
    check_exclusive(jobs, workers, &mut found);
    check_keys(jobs, &mut found);
    for (id, tasks) in &gangs {
        check_gang(*id, tasks, &mut found);
    }
    found
}

/// A gang waits, or is placed and runs, or stops: never two of these at once, but for tasks that a round
/// does without.
fn check_gang(gang: GangId, tasks: &[&Job], found: &mut Vec<Violation>) {
    let with = |wanted: Status| tasks.iter().filter(move |task| task.status() == wanted);
    let any = |wanted: Status| with(wanted).next().is_some();
    let spares = tasks.iter().any(|task| task.spec.gang.as_ref().is_some_and(|gang| gang.min.is_some()));
    let torn = [
        (Status::Running, Status::Preempting),
        (Status::Running, Status::Preempted),
        (Status::Reserved, Status::Preempting),
        (Status::Reserved, Status::Preempted),
        (Status::Blocked, Status::Reserved),
        (Status::Blocked, Status::Running),
        (Status::Blocked, Status::Finished),
    ];
    for (one, other) in torn {
        // What was reserved waits again while the others of its round are still being stopped.
        let drained = other == Status::Finished && any(Status::Preempting);
        if any(one) && any(other) && !(spares && one == Status::Blocked) && !drained {
            found.push(Violation::TornGang { gang, one, other });
        }
    }
    // Everyone present before anyone moves; workers that do not prepare start at their claim.
    let moved = |task: &&&Job| {
        let alone = task.round.as_ref().is_some_and(|round| round.alone);
        matches!(task.status(), Status::Running | Status::Finished) && !alone
    };
    if let Some(moved) = tasks.iter().find(moved).filter(|_| any(Status::Reserved)) {
        found.push(Violation::StartedWithoutOthers { gang, task: moved.id });
    }
    let placed = (with(Status::Reserved).count() + with(Status::Running).count()) as u32;
    let over = |task: &&&Job| task.is_terminal() || task.status() == Status::Finished;
    let ended = tasks.iter().filter(over).count() as u32;
    let least = tasks.iter().filter_map(|task| task.spec.gang.as_ref()?.min).min();
    if let Some(least) = least.filter(|least| placed > 0 && placed + ended < *least) {
        found.push(Violation::PartlyPlaced { gang, placed, least });
    }
    let mut crowd: BTreeMap<&WorkerId, u32> = BTreeMap::new();
    for worker in tasks.iter().filter(|task| task.status().holds_capacity()).filter_map(|task| task.worker())
    {
        *crowd.entry(worker).or_default() += 1;
    }
    let most = tasks.iter().filter_map(|task| Some(task.spec.gang.as_ref()?.per_worker)).max().unwrap_or(1);
    for (worker, tasks) in crowd.into_iter().filter(|(_, tasks)| *tasks > most) {
        found.push(Violation::CrowdedWorker { gang, worker: worker.clone(), tasks, most });
    }
    let epochs: Vec<u32> = with(Status::Preempting).map(|task| task.preemption_epoch).collect();
    let newest = tasks.iter().map(|task| task.preemption_epoch).max().unwrap_or(0);
    if let Some(other) = epochs.iter().copied().find(|epoch| *epoch != newest) {
        found.push(Violation::SplitEpoch { gang, one: newest, other });
    }
    let settled = any(Status::Preempted) || any(Status::Finished);
    if settled && !any(Status::Preempting) && !any(Status::Running) && !any(Status::Reserved) {
        found.push(Violation::NoVerdict { gang });
    }
}

/// Where jobs of one key name different limits, none of those that run may have asked for less than run.
fn check_keys(jobs: &[Job], found: &mut Vec<Violation>) {
    let mut keys: HashMap<&str, (u32, u32)> = HashMap::new();
    for job in jobs.iter().filter(|job| job.status().holds_capacity()) {
        if let Some(limit) = &job.spec.concurrency {
            let (held, most) = keys.entry(limit.key.as_str()).or_default();
            *held += 1;
            *most = (*most).max(limit.limit);
        }
    }
    for (key, (held, limit)) in keys.into_iter().filter(|(_, (held, limit))| held > limit) {
        found.push(Violation::TooManyOfKey { key: key.to_owned(), held, limit });
    }
}

fn check_counts(job: &Job, found: &mut Vec<Violation>) {
    let (id, max) = (job.id, job.spec.max_attempts);
    if job.attempts > max {
        found.push(Violation::TooManyAttempts { job: id, attempts: job.attempts, max });
    }
    let held = job.is_leased();
    if held && (job.lease.0 == 0 || job.started_at.is_none()) {
        found.push(Violation::HeldWithoutLease { job: id, status: job.status() });
    }
    if job.closed.is_some_and(|closed| closed.lease > job.lease || (held && closed.lease == job.lease)) {
        found.push(Violation::LeaseWentBack { job: id });
    }
    if job.status() == Status::Pending && job.spec.gang.is_some() {
        found.push(Violation::GangTaskPending { job: id });
    }
}

fn check_waiting(job: &Job, ended: impl Fn(JobId) -> Option<Option<Ended>>, found: &mut Vec<Violation>) {
    let Phase::Blocked { needs } = &job.phase else { return };
    let (mut unfinished, mut actual) = (0, Needs::default());
    for (place, dependency) in job.spec.depends_on.iter().enumerate() {
        let rule = job.spec.rule(place);
        match ended(*dependency) {
            Some(None) => {
                unfinished += 1;
                actual.wait_for(rule);
            }
            Some(Some(ended)) => actual.add(rule, ended),
            None => {}
        }
    }
    let recorded = needs.unfinished();
    if unfinished != recorded {
        found.push(Violation::WrongWaitCount { job: job.id, recorded, actual: unfinished });
    }
    let runs_anyway = job.spec.if_unmet == Some(IfUnmet::Run) && unfinished > 0;
    if actual.unmet().is_some() && !runs_anyway {
        found.push(Violation::WaitsForEver { job: job.id });
    }
}

fn check_capacity(jobs: &[Job], workers: &[Worker], found: &mut Vec<Violation>) {
    let mut held: HashMap<&WorkerId, (Resources, u32)> = HashMap::new();
    for job in jobs.iter().filter(|job| job.status().holds_capacity()) {
        if let Some(worker) = job.worker() {
            let (used, running) = held.entry(worker).or_default();
            used.add(&job.spec.requirement().resources);
            *running += 1;
        }
    }
    for worker in workers.iter().filter(|worker| !worker.assumed) {
        let Some((used, running)) = held.get(&worker.id) else { continue };
        // GPUs that were named one by one are counted one by one.
        let counted = if worker.devices.is_empty() { used.clone() } else { used.without_gpus() };
        if !counted.fits_in(&worker.resources) {
            let (used, total) = (Box::new(used.clone()), Box::new(worker.resources.clone()));
            found.push(Violation::OverCommitted { worker: worker.id.clone(), used, total });
        }
        if let Some(slots) = worker.slots.filter(|slots| *running > slots.saturating_add(MAX_AHEAD)) {
            found.push(Violation::TooManyJobs { worker: worker.id.clone(), running: *running, slots });
        }
    }
}

/// Who holds a device, and which part of its memory if not all of it.
type Holders<'a> = Vec<(&'a Job, Option<u64>)>;

/// A device is held whole by one job, or in shares that it has room for.
fn check_devices(jobs: &[Job], workers: &[Worker], found: &mut Vec<Violation>) {
    let mut held: BTreeMap<(&WorkerId, u32), Holders<'_>> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.status().holds_capacity()) {
        let (Some(grant), Some(worker)) = (&job.devices, job.worker()) else { continue };
        if !grant.answers(job.spec.requirement().resources.gpu_need()) {
            found.push(Violation::WrongGrant { job: job.id, grant: grant.clone() });
        }
        for index in grant.indices() {
            held.entry((worker, *index)).or_default().push((job, grant.share_mb()));
        }
    }
    for ((worker, index), holders) in held {
        let whole = holders.iter().find(|(_, share)| share.is_none());
        if let Some((job, _)) = whole
            && let Some((other, _)) = holders.iter().find(|(other, _)| other.id != job.id)
        {
            let (job, other) = (job.id, other.id);
            found.push(Violation::DeviceGivenTwice { worker: worker.clone(), index, job, other });
        }
        let devices = workers.iter().find(|known| known.id == *worker).map(|known| &known.devices);
        let device = devices.and_then(|devices| devices.iter().find(|device| device.index == index));
        let used = holders.iter().filter_map(|(_, share)| *share).fold(0, u64::saturating_add);
        if let Some(total) = device.map(|device| device.vram_mb).filter(|total| used > *total) {
            found.push(Violation::DeviceOverCommitted { worker: worker.clone(), index, used, total });
        }
    }
}

/// A job that has a worker for itself is alone there. Claimers that never registered are taken at their word.
fn check_exclusive(jobs: &[Job], workers: &[Worker], found: &mut Vec<Violation>) {
    let held = || jobs.iter().filter(|job| job.status().holds_capacity());
    for job in held().filter(|job| job.spec.exclusive) {
        let Some(worker) = job.worker().filter(|id| workers.iter().any(|known| known.id == **id)) else {
            continue;
        };
        let running = held().filter(|other| other.worker() == Some(worker)).count() as u32;
        if running > 1 {
            found.push(Violation::NotAlone { job: job.id, worker: worker.clone(), running });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::Lease;
    use crate::spec::JobSpec;
    use crate::time::Timestamp;

    fn running(number: u8, need: Resources, devices: Grant) -> Job {
        let spec = JobSpec { resources: Some(need), ..JobSpec::shell("x") };
        let phase = Phase::Running { worker: Some(WorkerId::new("w")), last_heartbeat: None };
        let mut job = Job::new(JobId::from_random([number; 16]), Arc::new(spec), phase, Timestamp::default());
        job.devices = Some(devices);
        job.lease = Lease(1);
        job.started_at = Some(Timestamp::default());
        job
    }

    fn share(number: u8, index: u32) -> Job {
        let need = Resources { vram_mb: 30, ..Resources::default() };
        running(number, need, Grant::Share { index, vram_mb: 30 })
    }

    #[test]
    fn a_device_is_whole_for_one_or_shared() {
        let whole =
            |number| running(number, Resources { gpus: 1, ..Resources::default() }, Grant::Whole(vec![0]));
        assert_eq!(check(&[whole(1), share(2, 1), share(3, 1)], &[]), []);
        for pair in [[whole(1), whole(2)], [whole(1), share(2, 0)]] {
            assert!(matches!(check(&pair, &[])[..], [Violation::DeviceGivenTwice { .. }]));
        }
        let other = running(1, Resources { gpus: 2, ..Resources::default() }, Grant::Whole(vec![0]));
        assert!(matches!(check(&[other], &[])[..], [Violation::WrongGrant { .. }]));
    }
}
