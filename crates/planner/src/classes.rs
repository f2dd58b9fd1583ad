//! The workers by what they have, as one job or gang sees them: who has room, who is busy, with whom and until when.
//!
//! Guarantee: every worker is counted in one class and in one state of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{Explanation, Holder, Requirement, Resources, Timestamp, Unit, WorkerClass};

use crate::case::Case;
use crate::fit::WorkerView;
use crate::prospect::Occupant;

/// Classes that are told.
const CLASSES: usize = 8;

/// Holders that a class names.
const NAMED: usize = 3;

/// Memory of machines of one kind differs by a little.
const MEMORY_STEP_MB: u64 = 1024;

/// What makes workers alike. Sorts first what could run the work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    unable: bool,
    missing_tags: Vec<String>,
    has: Resources,
    slots: Option<u32>,
}

/// A class while it is counted.
#[derive(Default)]
struct Count {
    class: WorkerClass,
    holders: BTreeMap<Unit, (BTreeSet<usize>, bool, Option<Timestamp>)>,
}

/// Puts the classes of all workers into the explanation: those that could run it first, then the largest.
pub(crate) fn explain(case: &Case, explanation: &mut Explanation) {
    let need = &case.unit.requirement;
    let mut on: HashMap<usize, Vec<&Occupant>> = HashMap::new();
    for occupant in &case.occupants {
        on.entry(occupant.worker).or_default().push(occupant);
    }
    let mut counts: BTreeMap<Key, Count> = BTreeMap::new();
    for (at, worker) in case.workers.iter().enumerate() {
        let count = counted(&mut counts, need, worker);
        if !count.class.is_able() {
            continue;
        }
        if worker.has_room_for(need) {
            let admitted = worker.admits(&case.unit.entrant());
            *(if admitted { &mut count.class.room } else { &mut count.class.kept }) += 1;
        } else {
            count.busy(at, worker, on.get(&at).map(Vec::as_slice).unwrap_or_default(), need);
        }
    }
    for aside in &case.aside {
        let class = &mut counted(&mut counts, need, &aside.view).class;
        *(if aside.quarantined_until.is_some() { &mut class.quarantined } else { &mut class.offline }) += 1;
    }
    let mut classes: Vec<WorkerClass> = counts.into_values().map(|count| count.finish(case)).collect();
    // Stable: those of one size stay in the order of what they have.
    classes.sort_by_key(|class| (!class.is_able(), std::cmp::Reverse(class.workers)));
    let rest = classes.split_off(classes.len().min(CLASSES));
    explanation.more_classes = rest.len() as u32;
    explanation.more_workers = rest.iter().map(|class| class.workers).sum();
    explanation.classes = classes;
}

/// The class of a worker, with one more in it.
fn counted<'m>(
    counts: &'m mut BTreeMap<Key, Count>,
    need: &Requirement,
    worker: &WorkerView,
) -> &'m mut Count {
    let lacks = worker.shortfalls_ever(need);
    let missing = need.tags.difference(&worker.tags).filter(|_| !worker.carries(need));
    let missing_tags: Vec<String> = missing.cloned().collect();
    let has = needed(&need.resources, worker.total.as_ref());
    let key = Key {
        unable: !lacks.is_empty() || !missing_tags.is_empty(),
        missing_tags: missing_tags.clone(),
        has: Resources {
            memory_mb: has.memory_mb / MEMORY_STEP_MB,
            vram_mb: has.vram_mb / MEMORY_STEP_MB,
            ..has.clone()
        },
        slots: worker.slots,
    };
    let count = counts.entry(key).or_default();
    let class = &mut count.class;
    if class.workers == 0 {
        (class.has, class.slots) = (has, worker.slots);
        (class.missing_tags, class.lacks) = (missing_tags, lacks);
    } else {
        class.has = class.has.least(&has);
    }
    class.workers += 1;
    count
}

/// What the worker has of the kinds that are needed.
fn needed(need: &Resources, total: Option<&Resources>) -> Resources {
    let Some(total) = total else { return Resources::default() };
    let of = |need: u64, total: u64| if need > 0 { total } else { 0 };
    Resources {
        cpu_millis: of(need.cpu_millis, total.cpu_millis),
        memory_mb: of(need.memory_mb, total.memory_mb),
        vram_mb: of(need.vram_mb, total.vram_mb),
        gpus: of(need.gpus, total.gpus),
        counters: need.counters.keys().map(|name| (name.clone(), total.counter(name))).collect(),
    }
}

impl Count {
    fn busy(&mut self, at: usize, worker: &WorkerView, occupants: &[&Occupant], need: &Requirement) {
        self.class.busy += 1;
        match free_at(worker, occupants, need) {
            Some(end) => {
                let first = self.class.free_at.map_or(end, |first| first.min(end));
                self.class.free_at = Some(first);
            }
            None => self.class.endless += 1,
        }
        for occupant in occupants {
            let (workers, known, ends) =
                self.holders.entry(occupant.unit).or_insert_with(|| (BTreeSet::new(), true, None));
            workers.insert(at);
            *known &= occupant.ends.is_some();
            *ends = (*ends).max(occupant.ends);
        }
    }

    fn finish(self, case: &Case) -> WorkerClass {
        let mut holders: Vec<Holder> = self
            .holders
            .into_iter()
            .map(|(unit, (workers, known, ends))| {
                let owner = case.owners.get(&unit).cloned().unwrap_or_default();
                Holder {
                    unit,
                    queue: owner.queue,
                    user: owner.user,
                    workers: workers.len() as u32,
                    ends: ends.filter(|_| known),
                }
            })
            .collect();
        holders.sort_by_key(|holder| (std::cmp::Reverse(holder.workers), holder.unit));
        let more_holders = holders.len().saturating_sub(NAMED) as u32;
        holders.truncate(NAMED);
        WorkerClass { holders, more_holders, ..self.class }
    }
}

/// When the worker will have room, as far as ends are known.
fn free_at(worker: &WorkerView, occupants: &[&Occupant], need: &Requirement) -> Option<Timestamp> {
    let mut ending: Vec<(Timestamp, &Occupant)> =
        occupants.iter().filter_map(|occupant| Some((occupant.ends?, *occupant))).collect();
    ending.sort_by_key(|(ends, _)| *ends);
    let mut left = worker.clone();
    ending.into_iter().find_map(|(ends, occupant)| {
        left.leave(&occupant.held, occupant.devices.as_ref());
        left.has_room_for(need).then_some(ends)
    })
}

#[cfg(test)]
#[path = "classes_tests.rs"]
mod tests;
