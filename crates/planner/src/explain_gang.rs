//! Why a gang is not placed, from the same facts that placement uses.

use muster_domain::{Dimension, GangRoom, Reason, Resources, Shortfall, WorkerId};

use crate::explain::{foreseen, gap, kept_for_others, tags};
use crate::fit::WorkerView;
use crate::gang::{GangCandidate, capacity};

/// Workers with room that a reason names.
const NAMED_FITTING: usize = 8;

/// Workers without room that a reason names.
const NAMED_LACKING: usize = 3;

/// All true reasons why a gang that waits for placement has not started, with numbers. Never empty.
///
/// `workers` are the active registered ones.
pub fn explain_gang(gang: &GangCandidate, workers: &[WorkerView]) -> Vec<Reason> {
    let carrying: Vec<&WorkerView> = workers.iter().filter(|w| w.carries(&gang.requirement)).collect();
    if workers.is_empty() {
        return vec![Reason::NoWorkers];
    }
    if carrying.is_empty() {
        return vec![tags(&gang.requirement, workers)];
    }
    let untagged = (workers.len() - carrying.len()) as u32;
    let fewest = u64::from(gang.fewest());
    let ever = room(gang, &carrying, untagged, |worker| {
        let total = worker.total.as_ref()?;
        Some((total.clone(), worker.slots))
    });
    if ever.room < fewest {
        return vec![Reason::GangImpossible(Box::new(ever))];
    }
    let now = room(gang, &carrying, untagged, |worker| {
        let total = worker.total.as_ref()?;
        Some((total.minus(&worker.used), worker.slots.map(|slots| slots.saturating_sub(worker.running))))
    });
    let foreseen = foreseen(gang.unit, workers);
    if now.room < fewest {
        return std::iter::once(Reason::GangRoom(Box::new(now))).chain(foreseen).collect();
    }
    let entrant = gang.entrant();
    let admitted = room(gang, &carrying, untagged, |worker| {
        let free = worker.total.as_ref()?.minus(&worker.used);
        let slots = worker.slots.map(|slots| slots.saturating_sub(worker.running));
        match worker.kept.as_ref().filter(|kept| !kept.is_open_to(&entrant)) {
            Some(kept) => Some((free.least(&kept.spare), least(slots, kept.spare_slots))),
            None => Some((free, slots)),
        }
    });
    if admitted.room < fewest {
        return kept_for_others(&entrant, &carrying).into_iter().chain(foreseen).collect();
    }
    vec![Reason::GangFits { tasks: gang.tasks, workers: now.fitting }]
}

/// The smaller of two bounds, of which none may bind.
fn least(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    a.into_iter().chain(b).min()
}

/// Counts the room that `free` finds in each worker; a worker of which nothing is known takes anything.
fn room(
    gang: &GangCandidate,
    workers: &[&WorkerView],
    untagged: u32,
    free: impl Fn(&WorkerView) -> Option<(Resources, Option<u32>)>,
) -> GangRoom {
    let need = &gang.requirement.resources;
    let mut fitting: Vec<(WorkerId, u32)> = Vec::new();
    let mut lacking: Vec<(WorkerId, Vec<Shortfall>)> = Vec::new();
    for worker in workers {
        let Some(id) = worker.id.clone() else { continue };
        let (tasks, shortfalls) = match free(worker) {
            None => (gang.most_on_one(), Vec::new()),
            Some((free, slots)) => {
                (capacity(&free, slots, need, gang.most_on_one()), shortfalls(need, &free, slots))
            }
        };
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
        need: need.clone(),
        tags: gang.requirement.tags.iter().cloned().collect(),
        room: fitting.iter().map(|(_, tasks)| u64::from(*tasks)).sum(),
        fitting: fitting.len() as u32,
        fitting_some: fitting.into_iter().take(NAMED_FITTING).collect(),
        lacking: lacking.len() as u32,
        lacking_some: lacking.into_iter().take(NAMED_LACKING).collect(),
        untagged,
    }
}

fn shortfalls(need: &Resources, free: &Resources, slots: Option<u32>) -> Vec<Shortfall> {
    let mut missing = need.shortfalls(free);
    if slots == Some(0) {
        missing.push(Shortfall { dimension: Dimension::Slots, needed: 1, available: 0 });
    }
    missing
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use muster_domain::{GangId, Requirement, Unit};

    use super::*;

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
            tags: BTreeSet::new(),
            wants: 0,
            kept: None,
        }
    }

    fn gang(tasks: u32, vram_mb: u64) -> GangCandidate {
        GangCandidate {
            unit: Unit::Gang(GangId::from_random([1; 16])),
            tasks,
            least: tasks,
            per_worker: 1,
            priority: 0,
            seq: 1,
            requirement: Requirement { resources: vram(vram_mb), tags: BTreeSet::new() },
            limits: Vec::new(),
            avoid: Vec::new(),
            seat: None,
            fixed: false,
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
