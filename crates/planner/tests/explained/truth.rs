//! A plain look at a cluster: who takes what, from lists of jobs, one after the other. Slow and simple on purpose.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{
    Dimension, GangDomains, GangRoom, Grant, QuotaRoom, Reason, Requirement, Resources, Shortfall, Timestamp,
    TopologyMode, Unit, WorkerId,
};
use muster_planner::Gate;

use crate::cluster::{Cluster, Node, State, name};

/// What is left of a node.
#[derive(Debug, Clone)]
struct Room {
    left: Resources,
    slots: Option<u32>,
    running: usize,
    exclusive: bool,
    /// Of each GPU that is told apart: its memory, what is left of it, and whether somebody has it.
    gpus: Option<Vec<(u64, u64, bool)>>,
}

fn room(node: &Node, jobs: &[(&Requirement, Option<&Grant>)]) -> Room {
    let told_apart = node.devices && !node.gpus.is_empty();
    let mut room = Room {
        left: node.total(),
        slots: node.slots,
        running: 0,
        exclusive: false,
        gpus: told_apart.then(|| node.gpus.iter().map(|size| (*size, *size, false)).collect()),
    };
    for (need, grant) in jobs {
        room.left = room.left.minus(&need.resources);
        room.running += 1;
        room.exclusive |= need.exclusive;
        room.slots = room.slots.map(|slots| slots - 1);
        for index in grant.iter().flat_map(|grant| grant.indices()) {
            let gpu = &mut room.gpus.as_mut().unwrap()[*index as usize];
            let share = grant.and_then(Grant::share_mb);
            *gpu = (gpu.0, share.map_or(0, |share| gpu.1 - share), true);
        }
    }
    room
}

fn room_now(cluster: &Cluster, at: usize) -> Room {
    let jobs = cluster.jobs.iter().filter(|job| job.node == at);
    room(&cluster.nodes[at], &jobs.map(|job| (&job.need, job.grant.as_ref())).collect::<Vec<_>>())
}

impl Room {
    /// Takes one more job of this need, if it can.
    fn take(&mut self, need: &Requirement) -> bool {
        let wants = &need.resources;
        let (memory, gpus, vram) = (wants.memory_mb, wants.gpus, wants.vram_mb);
        let refused = self.slots == Some(0) || self.exclusive || (need.exclusive && self.running > 0);
        if refused || memory > self.left.memory_mb || !self.take_gpus(gpus, vram) {
            return false;
        }
        self.left.memory_mb -= memory;
        self.running += 1;
        self.exclusive |= need.exclusive;
        self.slots = self.slots.map(|slots| slots - 1);
        true
    }

    fn take_gpus(&mut self, gpus: u64, vram: u64) -> bool {
        if gpus == 0 && vram == 0 {
            return true;
        }
        let Some(devices) = &mut self.gpus else {
            if gpus > self.left.gpus || vram > self.left.vram_mb {
                return false;
            }
            self.left.gpus -= gpus;
            self.left.vram_mb -= vram;
            return true;
        };
        if gpus == 0 {
            // Any device that is idle or shared, and has so much left.
            let Some(one) = devices.iter_mut().find(|(_, left, _)| *left >= vram) else { return false };
            (one.1, one.2) = (one.1 - vram, true);
            return true;
        }
        let idle: Vec<usize> =
            (0..devices.len()).filter(|at| !devices[*at].2 && devices[*at].0 >= vram).collect();
        if (idle.len() as u64) < gpus {
            return false;
        }
        for at in idle.into_iter().take(gpus as usize) {
            (devices[at].1, devices[at].2) = (0, true);
        }
        true
    }

    fn capacity(mut self, need: &Requirement, most: u32) -> u32 {
        (0..most).take_while(|_| self.take(need)).count() as u32
    }
}

fn carries(cluster: &Cluster, at: usize) -> bool {
    let tags = &cluster.nodes[at].tags;
    cluster.unit.requirement.tags.iter().all(|tag| tags.contains(&tag.as_str()))
}

fn fewest(cluster: &Cluster) -> u32 {
    cluster.unit.least
}

/// Tasks that the room that is kept for others leaves to the unit.
fn beside(cluster: &Cluster, at: usize) -> u32 {
    let unit = &cluster.unit;
    let Some(kept) = &cluster.nodes[at].kept else { return u32::MAX };
    let first = unit.priority > kept.priority || (unit.priority == kept.priority && unit.seq < kept.seq);
    let gone = matches!((unit.ends, kept.until), (Some(ends), Some(until)) if ends <= until);
    if kept.unit == unit.unit || first || gone {
        return u32::MAX;
    }
    let (need, spare) = (&unit.requirement.resources, &kept.spare);
    let holds = |tasks: u64| {
        need.memory_mb * tasks <= spare.memory_mb
            && need.gpus * tasks <= spare.gpus
            && need.vram_mb * tasks <= spare.vram_mb
    };
    let by_amounts = (0..9).take_while(|tasks| holds(tasks + 1)).count() as u32;
    by_amounts.min(kept.spare_slots.unwrap_or(u32::MAX))
}

fn now(cluster: &Cluster, at: usize) -> u32 {
    if !carries(cluster, at) {
        return 0;
    }
    room_now(cluster, at).capacity(&cluster.unit.requirement, cluster.unit.per_worker)
}

fn ever(cluster: &Cluster, at: usize) -> u32 {
    if !carries(cluster, at) {
        return 0;
    }
    room(&cluster.nodes[at], &[]).capacity(&cluster.unit.requirement, cluster.unit.per_worker)
}

fn nodes(cluster: &Cluster, states: &[State]) -> Vec<usize> {
    (0..cluster.nodes.len()).filter(|at| states.contains(&cluster.nodes[*at].state)).collect()
}

fn working(cluster: &Cluster) -> Vec<usize> {
    nodes(cluster, &[State::Working])
}

fn known(cluster: &Cluster) -> Vec<usize> {
    nodes(cluster, &[State::Working, State::Quarantined])
}

/// What the quota leaves of memory.
fn quota_left(cluster: &Cluster) -> Option<u64> {
    let [own, other, _] = cluster.queues.as_slice() else { return None };
    let of =
        |amounts: &Option<muster_domain::Amounts>| amounts.as_ref().and_then(|a| a.get(&Dimension::MemoryMb));
    let (nominal, others) = (of(&own.terms.nominal).unwrap_or(0), of(&other.terms.nominal).unwrap_or(0));
    let (used, used_by_other) = (cluster.held[0].need.memory_mb, cluster.held[1].need.memory_mb);
    let never_lent = of(&other.terms.lend).map_or(0, |lend| others.saturating_sub(lend));
    let pool = nominal + others - never_lent;
    let mut left = pool.saturating_sub(used + used_by_other.saturating_sub(never_lent));
    if let Some(borrow) = of(&own.terms.borrow) {
        left = left.min((nominal + borrow).saturating_sub(used));
    }
    if cluster.unit.fixed {
        let fixed = if cluster.held[0].fixed { used } else { 0 };
        left = left.min(nominal.saturating_sub(fixed));
    }
    Some(left)
}

fn gates_open(cluster: &Cluster) -> bool {
    let needed = cluster.unit.requirement.resources.memory_mb * u64::from(fewest(cluster));
    cluster.gates.iter().all(|gate| gate.left() >= fewest(cluster))
        && quota_left(cluster).is_none_or(|left| needed <= left)
}

/// Whether so much room on these nodes, where it is, is enough.
fn enough(cluster: &Cluster, at: &[usize], rooms: &dyn Fn(usize) -> u32) -> bool {
    let all: u32 = at.iter().map(|at| rooms(*at)).sum();
    all >= fewest(cluster) && in_its_place(cluster, at, rooms)
}

fn in_its_place(cluster: &Cluster, at: &[usize], rooms: &dyn Fn(usize) -> u32) -> bool {
    let Some(topology) = cluster.unit.topology.as_ref().filter(|topology| topology.required) else {
        return true;
    };
    let domains = by_rack(cluster, at, rooms);
    match topology.mode {
        TopologyMode::Pack => domains.values().any(|(room, _)| *room >= fewest(cluster)),
        TopologyMode::Spread => {
            let able: Vec<u32> = domains.values().filter(|(_, able)| *able).map(|(room, _)| *room).collect();
            spreads(&able, fewest(cluster))
        }
    }
}

fn by_rack(
    cluster: &Cluster,
    at: &[usize],
    rooms: &dyn Fn(usize) -> u32,
) -> BTreeMap<&'static str, (u32, bool)> {
    let mut domains: BTreeMap<&'static str, (u32, bool)> = BTreeMap::new();
    for at in at {
        if let Some(rack) = cluster.nodes[*at].rack {
            let domain = domains.entry(rack).or_default();
            domain.0 += rooms(*at);
            domain.1 |= ever(cluster, *at) > 0;
        }
    }
    domains
}

/// Tries every way to share so many tasks out with a difference of one at the most.
fn spreads(rooms: &[u32], tasks: u32) -> bool {
    fn ways(rooms: &[u32], tasks: u32, counts: &mut Vec<u32>) -> bool {
        if counts.len() == rooms.len() {
            let (least, most) = (counts.iter().min(), counts.iter().max());
            return tasks == 0 && most.zip(least).is_some_and(|(most, least)| most - least <= 1);
        }
        (0..=tasks.min(rooms[counts.len()])).any(|count| {
            counts.push(count);
            let found = ways(rooms, tasks - count, counts);
            counts.pop();
            found
        })
    }
    ways(rooms, tasks, &mut Vec::new())
}

/// Whether it starts.
pub(crate) fn fits(cluster: &Cluster) -> bool {
    let takes = |at: usize| now(cluster, at).min(beside(cluster, at));
    gates_open(cluster) && enough(cluster, &working(cluster), &takes)
}

pub(crate) struct Plain {
    pub(crate) room: u32,
    pub(crate) kept: u32,
    pub(crate) busy: u32,
    pub(crate) free_at: Option<Timestamp>,
}

/// The workers that could run a task: with room, with room that is kept, without; and when the first of these has some.
pub(crate) fn classes(cluster: &Cluster) -> Plain {
    let one = |at: usize| room_now(cluster, at).take(&cluster.unit.requirement);
    let able: Vec<usize> = working(cluster).into_iter().filter(|at| ever(cluster, *at) > 0).collect();
    let roomy = |at: &&usize| one(**at);
    let open = |at: &&usize| beside(cluster, **at) > 0;
    let busy: Vec<usize> = able.iter().copied().filter(|at| !one(*at)).collect();
    let free_at = |at: &usize| {
        let ends: BTreeSet<Timestamp> =
            cluster.jobs.iter().filter(|job| job.node == *at).filter_map(|job| job.ends).collect();
        ends.into_iter().find(|end| {
            let stay = cluster.jobs.iter().filter(|job| job.node == *at);
            let stay = stay.filter(|job| job.ends.is_none_or(|ends| ends > *end));
            let jobs: Vec<_> = stay.map(|job| (&job.need, job.grant.as_ref())).collect();
            room(&cluster.nodes[*at], &jobs).take(&cluster.unit.requirement)
        })
    };
    Plain {
        room: able.iter().filter(roomy).filter(open).count() as u32,
        kept: able.iter().filter(roomy).filter(|at| !open(at)).count() as u32,
        busy: busy.len() as u32,
        free_at: busy.iter().filter_map(free_at).min(),
    }
}

type Verdict = Result<(), String>;

fn demand(holds: bool, what: &str) -> Verdict {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

fn place_of(worker: &WorkerId) -> usize {
    worker.as_str()[1..].parse().unwrap()
}

/// Whether the reason holds.
pub(crate) fn check(cluster: &Cluster, reason: &Reason) -> Verdict {
    match reason {
        Reason::NoWorkers => demand(known(cluster).is_empty(), "there are workers"),
        Reason::Tags { required, missing } => tags(cluster, required, missing),
        Reason::Impossible { closest, shortfalls } => {
            demand(known(cluster).iter().all(|at| ever(cluster, *at) == 0), "one could run it when empty")?;
            lacks(cluster, closest, shortfalls, &room(&cluster.nodes[place_of(closest)], &[]))
        }
        Reason::Busy { closest, shortfalls } => {
            demand(ever(cluster, place_of(closest)) > 0, "the closest could never run it")?;
            demand(working(cluster).iter().all(|at| now(cluster, *at) == 0), "one has room")?;
            lacks(cluster, closest, shortfalls, &room_now(cluster, place_of(closest)))
        }
        Reason::NobodyAsks { fitting } => {
            let takes = |at: &&usize| now(cluster, **at) > 0 && beside(cluster, **at) > 0;
            demand(working(cluster).iter().filter(takes).count() as u32 == *fitting, "another number fits")?;
            demand(*fitting > 0 && gates_open(cluster), "something else is in the way")
        }
        Reason::Kept { unit, workers, until } => kept(cluster, *unit, *workers, *until),
        Reason::Foreseen { workers, at } => {
            let own: Vec<_> = keeping(cluster, &working(cluster), cluster.unit.unit);
            demand(own.len() as u32 == *workers, "another number keeps room for it")?;
            demand(cluster.nodes[own[0]].kept.as_ref().unwrap().until == *at, "another time")
        }
        Reason::Quarantined { worker, .. } => {
            let at = place_of(worker);
            demand(cluster.nodes[at].state == State::Quarantined, "it is not in quarantine")?;
            demand(ever(cluster, at) > 0, "it could not run it anyway")
        }
        Reason::GangRoom(found) => gang_room(cluster, found, &working(cluster), &|at| now(cluster, at)),
        Reason::GangImpossible(found) => gang_room(cluster, found, &known(cluster), &|at| ever(cluster, at)),
        Reason::GangDomains(found) => domains(cluster, found, &working(cluster), &|at| now(cluster, at)),
        Reason::GangDomainsImpossible(found) => {
            domains(cluster, found, &known(cluster), &|at| ever(cluster, at))
        }
        Reason::GangFits { workers, .. } => {
            let roomy = working(cluster).into_iter().filter(|at| now(cluster, *at) > 0).count() as u32;
            demand(fits(cluster) && roomy == *workers, "it does not fit, or on others")
        }
        Reason::Quota(found) => quota(cluster, found),
        _ => gate(cluster, reason),
    }
}

fn tags(cluster: &Cluster, required: &[String], missing: &[String]) -> Verdict {
    demand(known(cluster).iter().all(|at| !carries(cluster, *at)), "one carries them all")?;
    demand(required.iter().eq(&cluster.unit.requirement.tags), "other tags are required")?;
    let has = |tag: &&String| known(cluster).iter().any(|at| cluster.nodes[*at].tags.contains(&tag.as_str()));
    demand(required.iter().filter(|tag| !has(tag)).eq(missing), "others are missing")
}

/// Whether the worker lacks exactly this.
fn lacks(cluster: &Cluster, worker: &WorkerId, shortfalls: &[Shortfall], room: &Room) -> Verdict {
    let need = &cluster.unit.requirement;
    demand(carries(cluster, place_of(worker)), "it lacks a tag")?;
    demand(!shortfalls.is_empty() && !room.clone().take(need), "it lacks nothing")?;
    for Shortfall { dimension, needed, available } in shortfalls {
        demand(needed > available, "enough is available")?;
        let idle = room.gpus.as_ref().map(|gpus| gpus.iter().filter(|gpu| !gpu.2).count() as u64);
        let (wants, has) = match dimension {
            Dimension::MemoryMb => (need.resources.memory_mb, room.left.memory_mb),
            Dimension::Gpus => (need.resources.gpus, idle.unwrap_or(room.left.gpus)),
            // Of GPUs that are told apart: the best of one, or of so many.
            Dimension::VramMb => (need.resources.vram_mb, *available),
            Dimension::Slots => (1, 0),
            Dimension::Alone => (u64::from(need.exclusive), u64::from(room.running == 0)),
            _ => return Err("nobody asked for that".to_owned()),
        };
        demand((wants, has) == (*needed, *available), "other numbers")?;
        demand(*dimension != Dimension::Slots || room.slots == Some(0) || room.exclusive, "there is a slot")?;
    }
    Ok(())
}

fn keeping(cluster: &Cluster, at: &[usize], unit: Unit) -> Vec<usize> {
    let keeps = |at: &usize| cluster.nodes[*at].kept.as_ref().is_some_and(|kept| kept.unit == unit);
    at.iter().copied().filter(keeps).collect()
}

fn kept(cluster: &Cluster, unit: Unit, workers: u32, until: Option<Timestamp>) -> Verdict {
    demand(!fits(cluster) && unit != cluster.unit.unit, "it could have it")?;
    let able =
        |at: Vec<usize>| -> Vec<usize> { at.into_iter().filter(|at| ever(cluster, *at) > 0).collect() };
    let mut pool = able(working(cluster));
    let single = matches!(cluster.unit.unit, Unit::Job(_));
    if single && pool.is_empty() {
        pool = able(nodes(cluster, &[State::Quarantined]));
    }
    if !single && !enough(cluster, &working(cluster), &|at| ever(cluster, at)) {
        pool = able(known(cluster));
    }
    if single && pool.iter().any(|at| now(cluster, *at) > 0) {
        pool.retain(|at| now(cluster, *at) > 0);
    }
    pool.retain(|at| beside(cluster, *at) < if single { 1 } else { ever(cluster, *at) });
    let found = keeping(cluster, &pool, unit);
    demand(found.len() as u32 == workers && workers > 0, "another number keeps it")?;
    demand(cluster.nodes[found[0]].kept.as_ref().unwrap().until == until, "another time")
}

fn gang_room(cluster: &Cluster, found: &GangRoom, at: &[usize], rooms: &dyn Fn(usize) -> u32) -> Verdict {
    let all: u32 = at.iter().map(|at| rooms(*at)).sum();
    let fitting: Vec<usize> = at.iter().copied().filter(|at| rooms(*at) > 0).collect();
    let untagged = at.iter().filter(|at| !carries(cluster, **at)).count();
    demand(found.needed == fewest(cluster) && all < found.needed, "there is enough")?;
    demand(u64::from(all) == found.room && fitting.len() as u32 == found.fitting, "other numbers")?;
    let named = found.fitting_some.iter().map(|(worker, tasks)| (worker.clone(), *tasks));
    demand(named.eq(fitting.iter().map(|at| (name(*at), rooms(*at)))), "others fit")?;
    demand(found.untagged as usize == untagged, "another number without the tags")?;
    demand(found.lacking as usize == at.len() - untagged - fitting.len(), "another number lacks something")
}

fn domains(cluster: &Cluster, found: &GangDomains, at: &[usize], rooms: &dyn Fn(usize) -> u32) -> Verdict {
    let all: u32 = at.iter().map(|at| rooms(*at)).sum();
    demand(all >= fewest(cluster), "there is not even room")?;
    demand(!in_its_place(cluster, at, rooms) && found.needed == fewest(cluster), "it has its place")?;
    let carrying: Vec<usize> = at.iter().copied().filter(|at| carries(cluster, *at)).collect();
    let domains = by_rack(cluster, &carrying, rooms);
    let right = |(value, room, _): &(String, u64, u64)| {
        domains.get(value.as_str()).is_some_and(|(has, _)| u64::from(*has) == *room)
    };
    demand(found.closest.iter().all(right), "other rooms")
}

fn quota(cluster: &Cluster, found: &QuotaRoom) -> Verdict {
    let left = quota_left(cluster).ok_or("there is no quota")?;
    let needed = cluster.unit.requirement.resources.memory_mb * u64::from(fewest(cluster));
    demand(found.dimension == Dimension::MemoryMb, "nothing else is bounded")?;
    demand((found.needed, found.available) == (needed, left) && needed > left, "other numbers")
}

fn gate(cluster: &Cluster, reason: &Reason) -> Verdict {
    let says = |gate: &&Gate| match (gate, reason) {
        (Gate::Paused { queue: a }, Reason::QueuePaused { queue: b }) => a == b,
        (Gate::Rate { queue: a, until: c, .. }, Reason::RateLimited { queue: b, until: d }) => {
            (a, c) == (b, d)
        }
        (Gate::Running { running: a, limit: c, .. }, Reason::QueueRuns { running: b, limit: d, .. })
        | (Gate::UserRunning { running: a, limit: c, .. }, Reason::UserRuns { running: b, limit: d, .. }) => {
            (a, c) == (b, d)
        }
        (Gate::Key { holders: a, limit: c, .. }, Reason::Concurrency { holders: b, limit: d, .. }) => {
            (a, c) == (b, d)
        }
        _ => false,
    };
    let mut named = cluster.gates.iter().filter(says);
    demand(named.any(|gate| gate.left() < fewest(cluster)), "no such gate is closed")
}
