//! Why a job or gang that waits has not started, from the same facts that placement uses.
//!
//! Guarantee: every reason that is given holds, and when all that are named are gone the work starts. A test compares
//! this with a second set of plain checks on small clusters.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{
    Explanation, KeptRoom, Reason, Requirement, Shortfall, Start, Timestamp, Unit, WorkerId,
};

use crate::case::{Case, Gate};
use crate::classes;
use crate::explain_gang::gang_reasons;
use crate::fit::WorkerView;
use crate::prospect::prospect;
use crate::suggest::{lacking, suggest};

/// Workers in quarantine that are named.
const NAMED_QUARANTINED: usize = 3;

/// All that can be said of the case. There is a reason for whatever waits.
pub fn explain(case: &Case) -> Explanation {
    let mut explanation = Explanation::from(reasons(case));
    classes::explain(case, &mut explanation);
    explanation.suggestions = suggest(case);
    explanation.start = start(case);
    explanation
}

/// All true reasons.
pub fn reasons(case: &Case) -> Vec<Reason> {
    let mut reasons: Vec<Reason> = case.closed().map(|(_, gate)| Gate::reason(gate)).collect();
    reasons.extend(lacking(case).into_iter().map(|room| Reason::Quota(Box::new(room))));
    let open = reasons.is_empty();
    let found = match case.unit.unit {
        Unit::Job(_) => single_reasons(case, open),
        Unit::Gang(_) => gang_reasons(case, open),
    };
    reasons.extend(found);
    reasons.extend(foreseen(case.unit.unit, &case.workers));
    reasons
}

/// When it is expected to start.
pub(crate) fn start(case: &Case) -> Option<Start> {
    if let Some(Reason::Foreseen { at: Some(at), .. }) = foreseen(case.unit.unit, &case.workers) {
        return Some(Start { at, kept: true, by_history: case.by_history });
    }
    let trial = case.trial();
    if !trial.may_start() || trial.place().is_some() {
        return None;
    }
    let found = prospect(&case.workers, &case.occupants, &case.unit, case.policies.scoring())?;
    Some(Start { at: found.at?.max(case.now), kept: false, by_history: case.by_history })
}

/// Why no worker takes a job outside gangs; `open` when nothing but room can be the reason.
fn single_reasons(case: &Case, open: bool) -> Vec<Reason> {
    let need = &case.unit.requirement;
    let quarantined: Vec<&WorkerView> = in_quarantine(case).map(|(view, _)| view).collect();
    let known: Vec<&WorkerView> = case.workers.iter().chain(quarantined.iter().copied()).collect();
    if let Some(reason) = hopeless(need, &known) {
        return vec![reason];
    }
    let working: Vec<&WorkerView> = case.workers.iter().collect();
    let released = could_ever(need, &quarantined);
    let mut reasons = quarantine_reasons(case, &released);
    let (pool, at_work) = match could_ever(need, &working) {
        workers if workers.is_empty() => (released, false),
        workers => (workers, true),
    };
    let entrant = case.unit.entrant();
    let roomy: Vec<&WorkerView> = pool.iter().copied().filter(|worker| worker.has_room_for(need)).collect();
    let fitting = roomy.iter().filter(|worker| worker.admits(&entrant)).count() as u32;
    if fitting > 0 {
        reasons.extend((at_work && open).then_some(Reason::NobodyAsks { fitting }));
        return reasons;
    }
    if !roomy.is_empty() {
        reasons.extend(kept_for_others(roomy.into_iter()));
        return reasons;
    }
    // One that keeps its room for others would not take it when it is less busy.
    let willing: Vec<&WorkerView> = pool.iter().copied().filter(|worker| worker.admits(&entrant)).collect();
    let nearest = if willing.is_empty() { &pool } else { &willing };
    let found = closest(nearest, |worker| worker.shortfalls_now(need));
    reasons.extend(found.map(|(closest, shortfalls)| Reason::Busy { closest, shortfalls }));
    if willing.is_empty() {
        reasons.extend(kept_for_others(pool.into_iter()));
    }
    reasons
}

/// Why none of these workers could ever run such a job; `None` when one could.
pub fn never(need: &Requirement, workers: &[WorkerView]) -> Option<Reason> {
    let all: Vec<&WorkerView> = workers.iter().collect();
    hopeless(need, &all)
}

fn hopeless(need: &Requirement, workers: &[&WorkerView]) -> Option<Reason> {
    let carrying: Vec<&WorkerView> = workers.iter().copied().filter(|worker| worker.carries(need)).collect();
    if workers.is_empty() {
        return Some(Reason::NoWorkers);
    }
    if carrying.is_empty() {
        return Some(tags(need, workers));
    }
    if carrying.iter().any(|worker| worker.shortfalls_ever(need).is_empty()) {
        return None;
    }
    let (closest, shortfalls) = closest(&carrying, |worker| worker.shortfalls_ever(need))?;
    Some(Reason::Impossible { closest, shortfalls })
}

/// The workers that could run such a job if they were empty.
fn could_ever<'w>(need: &Requirement, workers: &[&'w WorkerView]) -> Vec<&'w WorkerView> {
    let able = |worker: &&WorkerView| worker.carries(need) && worker.shortfalls_ever(need).is_empty();
    workers.iter().copied().filter(able).collect()
}

/// The workers in quarantine, those first that are tried first.
pub(crate) fn in_quarantine(case: &Case) -> impl Iterator<Item = (&WorkerView, Timestamp)> {
    let mut found: Vec<(&WorkerView, Timestamp)> =
        case.aside.iter().filter_map(|aside| Some((&aside.view, aside.quarantined_until?))).collect();
    found.sort_by_key(|(view, until)| (*until, view.id.clone()));
    found.into_iter()
}

/// Some of these workers, which could run it but for their quarantine.
pub(crate) fn quarantine_reasons(case: &Case, able: &[&WorkerView]) -> Vec<Reason> {
    in_quarantine(case)
        .filter(|(view, _)| able.iter().any(|one| one.id == view.id))
        .filter_map(|(view, until)| Some(Reason::Quarantined { worker: view.id.clone()?, until }))
        .take(NAMED_QUARANTINED)
        .collect()
}

/// For whom these workers keep their room, of which each keeps some.
pub(crate) fn kept_for_others<'w>(refusing: impl Iterator<Item = &'w WorkerView>) -> Vec<Reason> {
    let mut kept: BTreeMap<Unit, (u32, Option<Timestamp>)> = BTreeMap::new();
    for room in refusing.filter_map(|worker| worker.kept.as_ref()) {
        kept.entry(room.unit).or_insert((0, room.until)).0 += 1;
    }
    kept.into_iter().map(|(unit, (workers, until))| Reason::Kept { unit, workers, until }).collect()
}

/// The room that is kept for the unit itself.
fn foreseen(unit: Unit, workers: &[WorkerView]) -> Option<Reason> {
    let rooms: Vec<&KeptRoom> =
        workers.iter().filter_map(|worker| worker.kept.as_ref()).filter(|room| room.unit == unit).collect();
    let at = rooms.first()?.until;
    Some(Reason::Foreseen { workers: rooms.len() as u32, at })
}

/// No worker carries all the tags.
pub(crate) fn tags(need: &Requirement, workers: &[&WorkerView]) -> Reason {
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
    use muster_domain::{JobId, QueueName, Resources};

    use super::*;
    use crate::case::Aside;
    use crate::gang::GangCandidate;

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

    fn case(need: &Requirement, workers: &[WorkerView]) -> Case {
        let unit = Unit::Job(JobId::from_random([5; 16]));
        let unit = GangCandidate::plain(unit, 5, 1, need.clone());
        Case::new(unit, workers.to_vec(), Timestamp::default())
    }

    fn codes(need: &Requirement, workers: &[WorkerView]) -> Vec<&'static str> {
        reasons(&case(need, workers)).iter().map(Reason::code).collect()
    }

    #[test]
    fn kept_room_is_told_to_those_who_may_not_have_it_and_to_the_one_who_will() {
        let need = need(50, &[]);
        let kept = |unit: Unit| KeptRoom {
            unit,
            priority: 0,
            pool: muster_domain::PoolAt::default(),
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
        assert_eq!(codes(&need, &keeping(other)), ["kept"]);
        assert_eq!(codes(&need, &keeping(case(&need, &[]).unit.unit)), ["nobody_asks", "foreseen"]);
        let text = reasons(&case(&need, &keeping(other)))[0].to_string();
        assert!(text.contains(&other.to_string()) && text.contains("1 worker"), "{text}");
    }

    #[test]
    fn each_situation_has_its_reason() {
        let workers = [worker("small", 100, 0), worker("large", 8000, 7000)];
        assert_eq!(codes(&need(1, &[]), &[]), ["no_workers"]);
        assert_eq!(codes(&need(1, &["gpu"]), &workers), ["tags"]);
        assert_eq!(codes(&need(999_999, &[]), &workers), ["impossible"]);
        assert_eq!(codes(&need(2000, &[]), &workers), ["resources"]);
        assert_eq!(codes(&need(50, &[]), &workers), ["nobody_asks"]);
    }

    #[test]
    fn the_closest_worker_is_named_with_the_numbers() {
        let workers = [worker("small", 100, 0), worker("large", 8000, 7000)];
        let need = need(9000, &[]);
        let text = reasons(&case(&need, &workers))[0].to_string();
        assert!(text.contains("large") && text.contains("9000") && text.contains("8000"), "{text}");
    }

    #[test]
    fn nobody_asks_is_said_only_when_nothing_else_stands_in_the_way() {
        let mut paused = case(&need(50, &[]), &[worker("w", 100, 0)]);
        paused.gates.push(Gate::Paused { queue: QueueName::new("q") });
        let codes: Vec<&str> = reasons(&paused).iter().map(Reason::code).collect();
        assert_eq!(codes, ["queue_paused"]);
    }

    #[test]
    fn a_worker_in_quarantine_is_named_only_where_it_could_help() {
        let mut alone = case(&need(50, &[]), &[]);
        alone
            .aside
            .push(Aside { view: worker("bad", 100, 0), quarantined_until: Some(Timestamp::default()) });
        let codes = |case: &Case| reasons(case).iter().map(Reason::code).collect::<Vec<_>>();
        assert_eq!(codes(&alone), ["quarantine"]);
        alone.aside[0].view.total = Some(need(10, &[]).resources);
        assert_eq!(codes(&alone), ["impossible"]);
        alone.workers.push(worker("good", 100, 0));
        assert_eq!(codes(&alone), ["nobody_asks"]);
        alone.aside[0].view.total = Some(need(100, &[]).resources);
        assert_eq!(codes(&alone), ["quarantine", "nobody_asks"]);
    }
}
