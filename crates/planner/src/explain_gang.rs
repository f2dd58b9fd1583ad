//! Why a gang is not placed, from the same facts that placement uses.

use muster_domain::{Dimension, GangDomains, GangRoom, Reason, Resources, Shortfall, TopologyMode, WorkerId};

use crate::case::Case;
use crate::devices::Devices;
use crate::explain::{gap, in_quarantine, kept_for_others, quarantine_reasons, tags};
use crate::fit::{Room, WorkerView, shortfalls};
use crate::gang::GangCandidate;
use crate::topology;

/// Workers with room that a reason names.
const NAMED_FITTING: usize = 8;

/// Domains that a reason names.
const NAMED_DOMAINS: usize = 4;

/// Workers without room that a reason names.
const NAMED_LACKING: usize = 3;

/// Why a gang is not placed; `open` when nothing but room can be the reason.
pub(crate) fn gang_reasons(case: &Case, open: bool) -> Vec<Reason> {
    let gang = &case.unit;
    let quarantined: Vec<&WorkerView> = in_quarantine(case).map(|(view, _)| view).collect();
    let known: Vec<&WorkerView> = case.workers.iter().chain(quarantined.iter().copied()).collect();
    if known.is_empty() {
        return vec![Reason::NoWorkers];
    }
    let carrying = |workers: &[&'_ WorkerView]| workers.iter().any(|w| w.carries(&gang.requirement));
    if !carrying(&known) {
        return vec![tags(&gang.requirement, &known)];
    }
    let all = Look::new(gang, &known);
    if let Some(never) = all.missing(room_ever) {
        return vec![never.into_impossible()];
    }
    let workers: Vec<&WorkerView> = case.workers.iter().collect();
    let look = Look::new(gang, &workers);
    let lacking = look.missing(room_now);
    let beside = if lacking.is_none() { room_beside } else { room_beside_ever };
    let mut reasons = Vec::new();
    if lacking.is_some() {
        let carrying = Look::new(gang, &quarantined).workers.into_iter();
        let able: Vec<&WorkerView> = carrying.filter(|worker| room_ever(gang, worker).0 > 0).collect();
        reasons.extend(quarantine_reasons(case, &able));
    }
    // Where those at work are not enough, the others may keep their room too.
    let pool = if look.missing(room_ever).is_none() { &look } else { &all };
    let kept = pool.missing(beside).is_some();
    match lacking {
        Some(missing) => reasons.push(missing.into_reason()),
        None if !kept && open => {
            let workers = look.room(room_now).fitting;
            reasons.push(Reason::GangFits { tasks: gang.tasks, workers });
        }
        None => {}
    }
    if kept {
        let keeps = |worker: &&WorkerView| room_beside_ever(gang, worker).0 < room_ever(gang, worker).0;
        reasons.extend(kept_for_others(pool.workers.iter().copied().filter(keeps)));
    }
    reasons
}

/// What keeps a gang from being placed.
enum Missing {
    Room(GangRoom),
    Domains(GangDomains),
}

impl Missing {
    fn into_reason(self) -> Reason {
        match self {
            Self::Room(room) => Reason::GangRoom(Box::new(room)),
            Self::Domains(domains) => Reason::GangDomains(Box::new(domains)),
        }
    }

    fn into_impossible(self) -> Reason {
        match self {
            Self::Room(room) => Reason::GangImpossible(Box::new(room)),
            Self::Domains(domains) => Reason::GangDomainsImpossible(Box::new(domains)),
        }
    }
}

/// A gang and the workers that carry its tags.
struct Look<'a> {
    gang: &'a GangCandidate,
    workers: Vec<&'a WorkerView>,
    untagged: u32,
}

impl<'a> Look<'a> {
    fn new(gang: &'a GangCandidate, all: &[&'a WorkerView]) -> Self {
        let workers: Vec<&WorkerView> =
            all.iter().copied().filter(|worker| worker.carries(&gang.requirement)).collect();
        Self { gang, untagged: (all.len() - workers.len()) as u32, workers }
    }

    fn room(&self, measure: Measure) -> GangRoom {
        room(self.gang, &self.workers, self.untagged, measure)
    }

    fn missing(&self, measure: Measure) -> Option<Missing> {
        let room = self.room(measure);
        if room.room < u64::from(self.gang.fewest()) {
            return Some(Missing::Room(room));
        }
        domains(self.gang, &self.workers, measure).map(Missing::Domains)
    }
}

type Measure = fn(&GangCandidate, &WorkerView) -> Measured;

/// Tasks that a worker takes, and what it lacks when it takes none.
type Measured = (u32, Vec<Shortfall>);

fn room_ever(gang: &GangCandidate, worker: &WorkerView) -> Measured {
    let Some(total) = &worker.total else { return (gang.most_on_one(), Vec::new()) };
    let tasks = worker.capacity_ever(&gang.requirement, gang.most_on_one());
    (tasks, lacking(gang, total, worker.slots, worker.emptied().as_ref()))
}

fn room_now(gang: &GangCandidate, worker: &WorkerView) -> Measured {
    let Some(total) = &worker.total else { return (gang.most_on_one(), Vec::new()) };
    let free = total.minus(&worker.used);
    let (slots, devices) = (worker.free_slots(), worker.devices.as_ref());
    let room = Room { free: &free, slots, devices, running: worker.running };
    let mut missing = lacking(gang, &free, slots, devices);
    if gang.requirement.exclusive && worker.running > 0 {
        missing.push(Shortfall { dimension: Dimension::Alone, needed: 1, available: 0 });
    }
    (room.capacity(&gang.requirement, gang.most_on_one()), missing)
}

/// What is left beside the room that is kept for others.
fn room_beside(gang: &GangCandidate, worker: &WorkerView) -> Measured {
    let (tasks, missing) = room_now(gang, worker);
    let most = worker.capacity_beside(&gang.entrant(), &gang.requirement, gang.most_on_one());
    (tasks.min(most), missing)
}

/// The same if it were empty.
fn room_beside_ever(gang: &GangCandidate, worker: &WorkerView) -> Measured {
    let (tasks, missing) = room_ever(gang, worker);
    let most = worker.capacity_beside(&gang.entrant(), &gang.requirement, gang.most_on_one());
    (tasks.min(most), missing)
}

fn lacking(
    gang: &GangCandidate,
    free: &Resources,
    slots: Option<u32>,
    devices: Option<&Devices>,
) -> Vec<Shortfall> {
    let mut missing = shortfalls(&gang.requirement.resources, free, devices);
    if slots == Some(0) {
        missing.push(Shortfall { dimension: Dimension::Slots, needed: 1, available: 0 });
    }
    missing
}

/// What the domains lack when the gang must be packed or spread and cannot be; `None` when it can.
fn domains(gang: &GangCandidate, workers: &[&WorkerView], measure: Measure) -> Option<GangDomains> {
    let wanted = gang.topology.as_ref().filter(|topology| topology.required)?;
    let rooms = topology::rooms(wanted, workers, |worker| {
        (u64::from(measure(gang, worker).0), room_ever(gang, worker).0 > 0)
    });
    let fewest = gang.fewest();
    let mut closest: Vec<(String, u64, u64)> = Vec::new();
    match wanted.mode {
        TopologyMode::Pack => {
            if rooms.values().any(|(room, _)| *room >= u64::from(fewest)) {
                return None;
            }
            closest.extend(rooms.iter().map(|(value, (room, _))| {
                ((*value).to_owned(), *room, u64::from(fewest).saturating_sub(*room))
            }));
        }
        TopologyMode::Spread => {
            let able: Vec<(&str, u64)> = rooms
                .iter()
                .filter(|(_, (_, ever))| *ever)
                .map(|(value, (room, _))| (*value, *room))
                .collect();
            let counts: Vec<u64> = able.iter().map(|(_, room)| *room).collect();
            if topology::even(&counts, fewest, gang.tasks).is_some() {
                return None;
            }
            // Each has to take its part, rounded up where the sum demands it.
            let part = u64::from(fewest).div_ceil((able.len() as u64).max(1));
            let short = able.into_iter().filter(|(_, room)| *room < part);
            closest.extend(short.map(|(value, room)| (value.to_owned(), room, part - room)));
        }
    }
    closest.sort_by(|a, b| a.2.cmp(&b.2).then_with(|| a.0.cmp(&b.0)));
    Some(GangDomains {
        label: wanted.label.clone(),
        mode: wanted.mode,
        needed: fewest,
        domains: closest.len() as u32,
        closest: closest.into_iter().take(NAMED_DOMAINS).collect(),
        unlabelled: workers.iter().filter(|worker| !worker.labels.contains_key(&wanted.label)).count() as u32,
    })
}

/// Counts the room that is measured in each worker; one of which nothing is known takes anything.
fn room(gang: &GangCandidate, workers: &[&WorkerView], untagged: u32, measure: Measure) -> GangRoom {
    let mut fitting: Vec<(WorkerId, u32)> = Vec::new();
    let mut lacking: Vec<(WorkerId, Vec<Shortfall>)> = Vec::new();
    for worker in workers {
        let Some(id) = worker.id.clone() else { continue };
        let (tasks, shortfalls) = measure(gang, worker);
        if tasks > 0 {
            fitting.push((id, tasks));
        } else {
            lacking.push((id, shortfalls));
        }
    }
    fitting.sort();
    lacking.sort_by(|(id_a, a), (id_b, b)| {
        a.len().cmp(&b.len()).then(gap(a).total_cmp(&gap(b))).then_with(|| id_a.cmp(id_b))
    });
    GangRoom {
        needed: gang.fewest(),
        tasks: gang.tasks,
        per_worker: gang.most_on_one(),
        need: gang.requirement.resources.clone(),
        tags: gang.requirement.tags.iter().cloned().collect(),
        room: fitting.iter().map(|(_, tasks)| u64::from(*tasks)).sum(),
        fitting: fitting.len() as u32,
        fitting_some: fitting.into_iter().take(NAMED_FITTING).collect(),
        lacking: lacking.len() as u32,
        lacking_some: lacking.into_iter().take(NAMED_LACKING).collect(),
        untagged,
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{GangId, Requirement, Timestamp, Unit};

    use super::*;
    use crate::explain::reasons;

    fn explain_gang(gang: &GangCandidate, workers: &[WorkerView]) -> Vec<Reason> {
        reasons(&Case::new(gang.clone(), workers.to_vec(), Timestamp::default()))
    }

    fn vram(vram_mb: u64) -> Resources {
        Resources { vram_mb, ..Resources::default() }
    }

    fn worker(name: &str, total: u64, used: u64) -> WorkerView {
        WorkerView {
            id: Some(WorkerId::new(name)),
            total: Some(vram(total)),
            used: vram(used),
            running: 0,
            slots: None,
            ..WorkerView::default()
        }
    }

    fn gang(tasks: u32, vram_mb: u64) -> GangCandidate {
        GangCandidate {
            unit: Unit::Gang(GangId::from_random([1; 16])),
            tasks,
            least: tasks,
            per_worker: 1,
            priority: 0,
            pool: muster_domain::PoolAt::default(),
            rank: 0,
            seq: 1,
            requirement: Requirement { resources: vram(vram_mb), ..Requirement::default() },
            limits: Vec::new(),
            avoid: Vec::new(),
            seat: None,
            fixed: false,
            topology: None,
            ends: None,
        }
    }

    fn texts(gang: &GangCandidate, workers: &[WorkerView]) -> Vec<String> {
        explain_gang(gang, workers).iter().map(|r| format!("{}: {r}", r.code())).collect()
    }

    #[test]
    fn the_room_of_now_is_told_with_names_and_numbers() {
        let mut workers: Vec<WorkerView> = ["c", "a", "b"].iter().map(|w| worker(w, 8000, 0)).collect();
        workers.push(worker("d", 8000, 3000));
        let expected = "gang_room: needs 4 workers with 8000 MB of GPU memory at once; 3 have room now \
                        (a, b, c); d lacks 3000 MB of GPU memory";
        assert_eq!(texts(&gang(4, 8000), &workers), [expected]);
        workers[3].used = vram(0);
        assert_eq!(explain_gang(&gang(4, 8000), &workers)[0].code(), "gang_fits");
    }

    #[test]
    fn what_could_never_start_is_told_apart_from_what_waits() {
        let mut workers = vec![worker("a", 8000, 8000), worker("small", 4000, 0), worker("other", 8000, 0)];
        workers[0].tags.insert("a100".to_owned());
        workers[1].tags.insert("a100".to_owned());
        let mut two = gang(2, 8000);
        two.requirement.tags.insert("a100".to_owned());
        let expected = "gang_impossible: needs 2 workers with 8000 MB of GPU memory at once; 1 has room even \
                        when every worker is empty (a); small lacks 4000 MB of GPU memory; 1 worker does not \
                        carry the tag a100";
        assert_eq!(texts(&two, &workers), [expected]);
    }

    #[test]
    fn no_worker_and_no_tag_are_reasons_of_their_own() {
        let mut tagged = gang(2, 10);
        tagged.requirement.tags.insert("a100".to_owned());
        assert_eq!(texts(&tagged, &[]), ["no_workers: no worker is registered and active"]);
        let expected = "tags: no active worker carries the tag a100";
        assert_eq!(texts(&tagged, &[worker("a", 10, 0)]), [expected]);
    }

    #[test]
    fn slots_and_tasks_that_share_a_worker_are_counted() {
        let full = WorkerView { slots: Some(2), running: 2, ..worker("full", 100, 0) };
        let half = WorkerView { slots: Some(2), running: 1, ..worker("half", 100, 0) };
        let four = GangCandidate { per_worker: 2, ..gang(4, 10) };
        let expected = "gang_room: needs room for 4 tasks with 10 MB of GPU memory at once, at most 2 on one \
                        worker; there is room for 1 now (half: 1); full lacks 1 slot";
        assert_eq!(texts(&four, &[full, half]), [expected]);
    }
}
