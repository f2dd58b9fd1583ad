//! Gangs and the labels of workers: which domains (values of a label) the tasks go to.
//!
//! Guarantees: a gang that must be packed is in one domain or not placed; one that must be spread has nearly the
//! same number of tasks in every domain that could take one; what is only preferred never keeps a gang from
//! starting. Every choice takes the least room that does, and depends on names only where all else is equal.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{Topology, TopologyMode};

use crate::fit::WorkerView;
use crate::gang::{GangCandidate, Offer, share};

/// The domains of one label.
struct Domains {
    /// By worker position; workers without the label are in none.
    of: Vec<Option<usize>>,
    count: usize,
}

/// The labels of a cluster.
#[derive(Default)]
pub(crate) struct Labels {
    by_label: BTreeMap<String, Domains>,
}

impl Labels {
    pub(crate) fn of(workers: &[WorkerView]) -> Self {
        let names: BTreeSet<&String> = workers.iter().flat_map(|worker| worker.labels.keys()).collect();
        let domains = |label: &String| {
            let values: BTreeSet<&String> = workers.iter().filter_map(|w| w.labels.get(label)).collect();
            let numbers: BTreeMap<&String, usize> = values.into_iter().zip(0..).collect();
            let of = |worker: &WorkerView| worker.labels.get(label).and_then(|v| numbers.get(v).copied());
            Domains { of: workers.iter().map(of).collect(), count: numbers.len() }
        };
        Self { by_label: names.into_iter().map(|label| (label.clone(), domains(label))).collect() }
    }
}

/// What is known when the tasks of a gang are shared out.
pub(crate) struct Wanted<'a> {
    pub(crate) gang: &'a GangCandidate,
    /// The most tasks that may start.
    pub(crate) allowed: u32,
    /// By worker position: whether it could ever take a task of the gang.
    pub(crate) ever: &'a dyn Fn(usize) -> bool,
}

type Shares = Vec<(Offer, u32)>;

/// Shares the tasks out among these offers; `None` when the gang must wait.
pub(crate) fn share_out(labels: &Labels, wanted: &Wanted<'_>, offers: Vec<Offer>) -> Option<Shares> {
    let count = tasks_in(wanted, &offers)?;
    let Some(topology) = &wanted.gang.topology else {
        return Some(by_default(labels, offers, count));
    };
    let Some(domains) = labels.by_label.get(&topology.label) else {
        return (!topology.required).then(|| share(offers, count));
    };
    match (topology.mode, topology.required) {
        (TopologyMode::Pack, true) => pack(domains, wanted, offers),
        (TopologyMode::Pack, false) => Some(prefer_packed(domains, usable(offers, count), count)),
        (TopologyMode::Spread, true) => spread_evenly(domains, wanted, &offers),
        (TopologyMode::Spread, false) => Some(prefer_spread(domains, usable(offers, count), count)),
    }
}

/// How many tasks go to these offers. Workers to avoid make a gang possible, never larger.
fn tasks_in(wanted: &Wanted<'_>, offers: &[Offer]) -> Option<u32> {
    let fewest = wanted.gang.fewest();
    if room(offers) < u64::from(fewest) || wanted.allowed < fewest {
        return None;
    }
    Some(free_room(offers).clamp(u64::from(fewest), u64::from(wanted.allowed)) as u32)
}

fn room(offers: &[Offer]) -> u64 {
    offers.iter().map(|offer| u64::from(offer.tasks.0)).sum()
}

/// Room on workers that need not be avoided.
fn free_room(offers: &[Offer]) -> u64 {
    offers.iter().filter(|offer| !offer.avoided).map(|offer| u64::from(offer.tasks.0)).sum()
}

/// Without the workers to avoid, where that leaves room enough.
fn usable(mut offers: Vec<Offer>, count: u32) -> Vec<Offer> {
    if free_room(&offers) >= u64::from(count) {
        offers.retain(|offer| !offer.avoided);
    }
    offers
}

/// The offers of each domain, and those of workers in none.
fn by_domain(domains: &Domains, offers: Vec<Offer>) -> (Vec<Vec<Offer>>, Vec<Offer>) {
    let mut inside: Vec<Vec<Offer>> = vec![Vec::new(); domains.count];
    let mut outside = Vec::new();
    for offer in offers {
        match domains.of[offer.worker] {
            Some(domain) => inside[domain].push(offer),
            None => outside.push(offer),
        }
    }
    (inside, outside)
}

/// Whether one worker takes all: nothing is closer together than that.
fn on_one_worker(offers: &[Offer], count: u32) -> bool {
    offers.iter().any(|offer| !offer.avoided && offer.tasks.0 >= count)
}

/// The smallest domain of any label that holds the gang, if nothing was said.
fn by_default(labels: &Labels, offers: Vec<Offer>, count: u32) -> Shares {
    if labels.by_label.is_empty() || on_one_worker(&offers, count) {
        return share(offers, count);
    }
    let mut offers = usable(offers, count);
    let mut best: Option<(u64, &Domains, usize)> = None;
    for domains in labels.by_label.values() {
        let mut rooms = vec![0_u64; domains.count];
        for offer in &offers {
            if let Some(domain) = domains.of[offer.worker] {
                rooms[domain] += u64::from(offer.tasks.0);
            }
        }
        let holding = rooms.into_iter().zip(0..).filter(|(room, _)| *room >= u64::from(count));
        if let Some((room, domain)) = holding.min()
            && best.is_none_or(|(least, ..)| room < least)
        {
            best = Some((room, domains, domain));
        }
    }
    if let Some((_, domains, domain)) = best {
        offers.retain(|offer| domains.of[offer.worker] == Some(domain));
    }
    share(offers, count)
}

/// All in one domain: one that needs no worker to be avoided, then as many tasks as possible, then the least room.
fn pack(domains: &Domains, wanted: &Wanted<'_>, offers: Vec<Offer>) -> Option<Shares> {
    let (inside, _) = by_domain(domains, offers);
    let fewest = u64::from(wanted.gang.fewest());
    let place = |(domain, own): (usize, Vec<Offer>)| {
        let count = tasks_in(wanted, &own)?;
        let key = (free_room(&own) < fewest, Reverse(count), !on_one_worker(&own, count), room(&own), domain);
        Some((key, count, own))
    };
    let (_, count, own) =
        inside.into_iter().enumerate().filter_map(|(d, own)| place((d, own))).min_by_key(|(key, ..)| *key)?;
    Some(share(own, count))
}

/// In one domain, else in as few as possible.
fn prefer_packed(domains: &Domains, offers: Vec<Offer>, count: u32) -> Shares {
    if on_one_worker(&offers, count) {
        return share(offers, count);
    }
    let (mut inside, outside) = by_domain(domains, offers);
    let mut shares = Vec::new();
    let mut left = count;
    while left > 0 {
        let rooms = || inside.iter().map(|own| room(own)).enumerate().filter(|(_, room)| *room > 0);
        let holding =
            rooms().filter(|(_, room)| *room >= u64::from(left)).min_by_key(|(d, room)| (*room, *d));
        let Some((domain, room)) = holding.or_else(|| rooms().min_by_key(|(d, room)| (Reverse(*room), *d)))
        else {
            break;
        };
        let here = u64::from(left).min(room) as u32;
        shares.extend(share(std::mem::take(&mut inside[domain]), here));
        left -= here;
    }
    if left > 0 {
        shares.extend(share(outside, left));
    }
    shares
}

/// One task after the other to the domain that has the fewest and still has room.
fn prefer_spread(domains: &Domains, offers: Vec<Offer>, count: u32) -> Shares {
    let (inside, outside) = by_domain(domains, offers);
    let rooms: Vec<u64> = inside.iter().map(|own| room(own)).collect();
    let counts = level(&rooms, count);
    let left = count - counts.iter().sum::<u32>();
    let mut shares: Shares = Vec::new();
    for (own, tasks) in inside.into_iter().zip(counts).filter(|(_, tasks)| *tasks > 0) {
        shares.extend(share(own, tasks));
    }
    if left > 0 {
        shares.extend(share(outside, left));
    }
    shares
}

/// As even a distribution of `count` tasks as these rooms allow; fewer when there is not room for all.
fn level(rooms: &[u64], count: u32) -> Vec<u32> {
    let mut counts = vec![0_u32; rooms.len()];
    let mut open: BTreeSet<(u32, Reverse<u64>, usize)> = rooms
        .iter()
        .enumerate()
        .filter(|(_, room)| **room > 0)
        .map(|(d, room)| (0, Reverse(*room), d))
        .collect();
    for _ in 0..count {
        let Some((tasks, room, domain)) = open.pop_first() else { break };
        counts[domain] = tasks + 1;
        if u64::from(tasks + 1) < room.0 {
            open.insert((tasks + 1, room, domain));
        }
    }
    counts
}

/// As many tasks as can be shared out with a difference of one at the most between any two domains that could
/// ever take a task.
fn spread_evenly(domains: &Domains, wanted: &Wanted<'_>, offers: &[Offer]) -> Option<Shares> {
    let able: BTreeSet<usize> =
        (0..domains.of.len()).filter(|at| (wanted.ever)(*at)).filter_map(|at| domains.of[at]).collect();
    let attempt = |offers: Vec<Offer>, most: u32| {
        let (mut inside, _) = by_domain(domains, offers);
        let rooms: Vec<u64> = able.iter().map(|domain| room(&inside[*domain])).collect();
        let counts = even(&rooms, wanted.gang.fewest(), most)?;
        let mut shares: Shares = Vec::new();
        for (domain, tasks) in able.iter().zip(counts).filter(|(_, tasks)| *tasks > 0) {
            shares.extend(share(std::mem::take(&mut inside[*domain]), tasks));
        }
        Some(shares)
    };
    let free: Vec<Offer> = offers.iter().filter(|offer| !offer.avoided).copied().collect();
    attempt(free, wanted.allowed).or_else(|| attempt(offers.to_vec(), wanted.gang.fewest()))
}

/// The largest even distribution of at least `fewest` and at most `most` tasks.
pub(crate) fn even(rooms: &[u64], fewest: u32, most: u32) -> Option<Vec<u32>> {
    let least = rooms.iter().copied().min()?;
    let domains = rooms.len() as u64;
    // Every domain gets `base` tasks, and some of those with more room one more.
    let with = |base: u64| {
        let more = rooms.iter().filter(|room| **room > base).count() as u64;
        (base * domains + more.min(domains - 1)).min(u64::from(most))
    };
    let total = with(least).min(u64::from(most));
    let total = u32::try_from(total).ok().filter(|total| *total >= fewest && *total > 0)?;
    let (base, extra) = (total / domains as u32, total as usize % rooms.len());
    let mut by_room: Vec<usize> = (0..rooms.len()).collect();
    by_room.sort_by_key(|domain| (Reverse(rooms[*domain]), *domain));
    let mut counts = vec![base; rooms.len()];
    for domain in by_room.into_iter().take(extra) {
        counts[domain] += 1;
    }
    Some(counts)
}

/// The room in each domain of a label, by value, with workers that carry no such label left out; `room` says how
/// many tasks a worker takes, and whether it could ever take one.
pub(crate) fn rooms<'a>(
    topology: &Topology,
    workers: &[&'a WorkerView],
    room: impl Fn(&WorkerView) -> (u64, bool),
) -> BTreeMap<&'a str, (u64, bool)> {
    let mut found: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
    for worker in workers {
        let Some(value) = worker.labels.get(&topology.label) else { continue };
        let (tasks, able) = room(worker);
        let (sum, ever) = found.entry(value).or_default();
        *sum = sum.saturating_add(tasks);
        *ever |= able;
    }
    found
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
