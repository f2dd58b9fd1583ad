//! Why a pending job is not placed, from the same facts that placement uses.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{Entrant, KeptRoom, Reason, Requirement, Shortfall, Timestamp, Unit, WorkerId};

use crate::fit::WorkerView;

/// All true reasons why a pending job with this need has not started. Never empty for a job that waits.
///
/// `workers` are the active registered ones, `ahead` the pending jobs that go first.
pub fn explain(need: &Requirement, entrant: &Entrant<'_>, workers: &[WorkerView], ahead: u64) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let carrying: Vec<&WorkerView> = workers.iter().filter(|worker| worker.carries(need)).collect();
    let able: Vec<&WorkerView> =
        carrying.iter().copied().filter(|worker| worker.shortfalls_ever(need).is_empty()).collect();
    if workers.is_empty() {
        reasons.push(Reason::NoWorkers);
    } else if carrying.is_empty() {
        reasons.push(tags(need, workers));
    } else if able.is_empty() {
        if let Some((closest, shortfalls)) = closest(&carrying, |worker| worker.shortfalls_ever(need)) {
            reasons.push(Reason::Impossible { closest, shortfalls });
        }
    } else {
        let roomy: Vec<&WorkerView> =
            able.iter().copied().filter(|worker| worker.has_room_for(need)).collect();
        let fitting = roomy.iter().filter(|worker| worker.admits(entrant)).count() as u32;
        match closest(&able, |worker| worker.shortfalls_now(need)) {
            Some((closest, shortfalls)) if roomy.is_empty() => {
                reasons.push(Reason::Busy { closest, shortfalls });
            }
            _ if fitting > 0 => reasons.push(Reason::NobodyAsks { fitting }),
            _ => reasons.extend(kept_for_others(entrant, &roomy)),
        }
        reasons.extend(foreseen(entrant.unit, workers));
    }
    if ahead > 0 {
        reasons.push(Reason::Ahead { jobs: ahead });
    }
    reasons
}

/// For whom those workers keep their room that do not admit the entrant.
pub(crate) fn kept_for_others(entrant: &Entrant<'_>, roomy: &[&WorkerView]) -> Vec<Reason> {
    let mut kept: BTreeMap<Unit, (u32, Option<Timestamp>)> = BTreeMap::new();
    for room in roomy.iter().filter_map(|worker| worker.kept.as_ref()).filter(|room| !room.admits(entrant)) {
        kept.entry(room.unit).or_insert((0, room.until)).0 += 1;
    }
    kept.into_iter().map(|(unit, (workers, until))| Reason::Kept { unit, workers, until }).collect()
}

/// The room that is kept for the unit itself.
pub(crate) fn foreseen(unit: Unit, workers: &[WorkerView]) -> Option<Reason> {
    let rooms: Vec<&KeptRoom> =
        workers.iter().filter_map(|worker| worker.kept.as_ref()).filter(|room| room.unit == unit).collect();
    let at = rooms.first()?.until;
    Some(Reason::Foreseen { workers: rooms.len() as u32, at })
}

/// The need is more than any active worker has in all: the reason, if so.
pub(crate) fn tags(need: &Requirement, workers: &[WorkerView]) -> Reason {
    let known: BTreeSet<&String> = workers.iter().flat_map(|worker| &worker.tags).collect();
    Reason::Tags {
        required: need.tags.iter().cloned().collect(),
        missing: need.tags.iter().filter(|tag| !known.contains(tag)).cloned().collect(),
    }
}

/// The worker that lacks the least: fewest dimensions, then the smallest relative gap, then its name.
fn closest(
    workers: &[&WorkerView],
    lacks: impl Fn(&WorkerView) -> Vec<Shortfall>,
) -> Option<(WorkerId, Vec<Shortfall>)> {
    workers.iter().filter_map(|worker| Some((worker.id.clone()?, lacks(worker)))).min_by(
        |(id_a, a), (id_b, b)| {
            a.len().cmp(&b.len()).then(gap(a).total_cmp(&gap(b))).then_with(|| id_a.cmp(id_b))
        },
    )
}

pub(crate) fn gap(shortfalls: &[Shortfall]) -> f64 {
    shortfalls.iter().map(|s| (s.needed - s.available) as f64 / s.needed.max(1) as f64).sum()
}

#[cfg(test)]
mod tests {
    use muster_domain::{JobId, Resources, Turn};

    use super::*;

    fn worker(name: &str, memory_mb: u64, used_mb: u64) -> WorkerView {
        let memory = |memory_mb| Resources { memory_mb, ..Resources::default() };
        WorkerView {
            id: Some(WorkerId::new(name)),
            total: Some(memory(memory_mb)),
            used: memory(used_mb),
            running: 0,
            slots: None,
            ..WorkerView::default()
        }
    }

    fn need(memory_mb: u64, tags: &[&str]) -> Requirement {
        Requirement {
            resources: Resources { memory_mb, ..Resources::default() },
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            exclusive: false,
        }
    }

    fn entrant(need: &Requirement) -> Entrant<'_> {
        let unit = Unit::Job(JobId::from_random([5; 16]));
        Entrant { unit, turn: Turn::new(0, 5), need: &need.resources, ends: None }
    }

    fn codes(need: &Requirement, workers: &[WorkerView], ahead: u64) -> Vec<&'static str> {
        explain(need, &entrant(need), workers, ahead).iter().map(Reason::code).collect()
    }

    #[test]
    fn kept_room_is_told_to_those_who_may_not_have_it_and_to_the_one_who_will() {
        let need = need(50, &[]);
        let kept = |unit: Unit| KeptRoom {
            unit,
            priority: 0,
            rank: 0,
            seq: 1,
            tasks: 1,
            resources: need.resources.clone(),
            until: None,
            spare: Resources::default(),
            spare_slots: None,
        };
        let other = Unit::Job(JobId::from_random([6; 16]));
        let keeping = |unit| [WorkerView { kept: Some(kept(unit)), ..worker("w", 100, 0) }];
        assert_eq!(codes(&need, &keeping(other), 0), ["kept"]);
        assert_eq!(codes(&need, &keeping(entrant(&need).unit), 0), ["nobody_asks", "foreseen"]);
        let text = explain(&need, &entrant(&need), &keeping(other), 0)[0].to_string();
        assert!(text.contains(&other.to_string()) && text.contains("1 worker"), "{text}");
    }

    #[test]
    fn each_situation_has_its_reason() {
        let workers = [worker("small", 100, 0), worker("large", 8000, 7000)];
        assert_eq!(codes(&need(1, &[]), &[], 0), ["no_workers"]);
        assert_eq!(codes(&need(1, &["gpu"]), &workers, 0), ["tags"]);
        assert_eq!(codes(&need(999_999, &[]), &workers, 3), ["impossible", "ahead"]);
        assert_eq!(codes(&need(2000, &[]), &workers, 0), ["resources"]);
        assert_eq!(codes(&need(50, &[]), &workers, 0), ["nobody_asks"]);
    }

    #[test]
    fn the_closest_worker_is_named_with_the_numbers() {
        let workers = [worker("small", 100, 0), worker("large", 8000, 7000)];
        let need = need(9000, &[]);
        let text = explain(&need, &entrant(&need), &workers, 0)[0].to_string();
        assert!(text.contains("large") && text.contains("9000") && text.contains("8000"), "{text}");
    }
}
