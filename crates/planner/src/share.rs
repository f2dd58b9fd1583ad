//! Fair share: which queue's work goes first when several want room.
//!
//! The order: what stays within its queue's own before what must borrow; the pool; priority; the queue with the lower
//! weighted dominant share once the work is started; rank (what is pinned, then who has had less); submit order. Shares are compared among queues that have
//! the same parent, from the root down, so that a queue gains nothing by splitting itself into many.
//!
//! Guarantee: the choice depends on the ledger and on the work alone, not on the order in which it is given.

use std::collections::{BTreeMap, VecDeque};

use muster_domain::{PoolAt, QueueName, ShareOf};

use crate::policy::Policies;
use crate::quota::{Ledger, Row};

/// One share is compared by this many parts.
const BILLION: u128 = 1_000_000_000;

/// The weighted dominant share of a queue, in billionths: of each kind what it uses beyond its own (all that it
/// uses, where no quota bounds it), measured by what its tree (the cluster) has, the largest, by its weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    pub dominant: u64,
    /// Jobs by weight: decides where jobs ask for nothing that could be measured.
    jobs: u64,
}

/// What is measured: a queue's own jobs, or those below it too.
struct Part<'l> {
    used: &'l [u64],
    nominal: &'l [u64],
    jobs: u64,
    weight: u32,
}

impl Ledger {
    /// The share of a queue, with all below it, once so much more is started in it.
    pub fn share(&self, seat: usize, more: &[u64], jobs: u32) -> Share {
        let this = &self.seats[seat];
        let part = Part {
            used: &this.used_below,
            nominal: &this.nominal_below,
            jobs: this.jobs_below,
            weight: this.weight_milli,
        };
        self.measure(seat, &part, more, jobs)
    }

    /// The share of a queue's own jobs, which stand beside the queues below it.
    pub(crate) fn own_share(&self, seat: usize, more: &[u64], jobs: u32) -> Share {
        let this = &self.seats[seat];
        let part = Part { used: &this.own, nominal: &this.nominal, jobs: this.jobs, weight: 1000 };
        self.measure(seat, &part, more, jobs)
    }

    fn measure(&self, seat: usize, part: &Part<'_>, more: &[u64], jobs: u32) -> Share {
        let root = &self.seats[self.seats[seat].root];
        let jobs = part.jobs + u64::from(jobs);
        let weighed = |beyond: u64, of: u64| -> u64 {
            let share = u128::from(beyond) * BILLION * 1000 / (u128::from(of) * u128::from(part.weight));
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let mut unbounded = true;
        let mut dominant = 0;
        for (place, used) in part.used.iter().enumerate() {
            let used = used.saturating_add(more.get(place).copied().unwrap_or(0));
            let bounded = self.is_bounded(seat, place);
            unbounded &= !bounded;
            let (beyond, of) = if bounded {
                (used.saturating_sub(part.nominal[place]), root.nominal_below[place])
            } else {
                (used, self.capacity[place])
            };
            if of > 0 {
                dominant = dominant.max(weighed(beyond, of));
            }
        }
        if !unbounded {
            return Share { dominant, jobs: 0 };
        }
        if self.slots > 0 {
            dominant = dominant.max(weighed(jobs, self.slots));
        }
        Share { dominant, jobs: weighed(jobs, 1_000_000) }
    }

    /// A queue with its share as it stands, for people.
    pub fn share_of(&self, seat: usize) -> ShareOf {
        let queue = self.seats[seat].name.clone().unwrap_or_else(|| QueueName::new(""));
        ShareOf { queue, share: self.share(seat, &[], 0).dominant }
    }
}

/// Work that waits for its turn: a job, or a gang as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contender {
    /// The place of its queue in the ledger.
    pub seat: usize,
    pub pool: PoolAt,
    pub priority: i32,
    /// Its place among work of its queue, by the policy of its pool: smaller goes first.
    pub rank: i64,
    /// Order of submission: smaller is older, and no two are equal.
    pub age: u64,
    /// What it needs in all.
    pub need: Row,
    pub jobs: u32,
}

/// Work by queue, most important first, and the choice of whose turn it is.
#[derive(Debug)]
pub struct Turns {
    work: Vec<Contender>,
    lanes: BTreeMap<(PoolAt, usize), VecDeque<usize>>,
}

impl Turns {
    /// Queues take turns only where the policy of a pool is fair; otherwise all work of it stands in one line.
    pub fn new(work: Vec<Contender>, policies: &Policies) -> Self {
        let mut order: Vec<usize> = (0..work.len()).collect();
        order.sort_by_key(|at| (work[*at].rank, work[*at].age));
        let mut lanes: BTreeMap<(PoolAt, usize), VecDeque<usize>> = BTreeMap::new();
        for at in order {
            let Contender { pool, seat, .. } = work[at];
            let lane = if policies.at(pool).is_fair() { seat } else { 0 };
            lanes.entry((pool, lane)).or_default().push_back(at);
        }
        Self { work, lanes }
    }

    /// Takes out whose turn it is; what is hopeless is left out for good.
    pub fn next(&mut self, ledger: &Ledger, hopeless: impl Fn(usize) -> bool) -> Option<usize> {
        for lane in self.lanes.values_mut() {
            while lane.front().is_some_and(|at| hopeless(*at)) {
                lane.pop_front();
            }
        }
        self.lanes.retain(|_, lane| !lane.is_empty());
        let heads: Vec<usize> = self.lanes.values().filter_map(|lane| lane.front().copied()).collect();
        let first = self.first(ledger, heads)?;
        let lane = self.lanes.values_mut().find(|lane| lane.front() == Some(&first))?;
        lane.pop_front()
    }

    fn first(&self, ledger: &Ledger, heads: Vec<usize>) -> Option<usize> {
        let class = |at: &usize| {
            let work = &self.work[*at];
            let borrows = !ledger.is_within_own(work.seat, &work.need);
            (borrows, work.pool, std::cmp::Reverse(work.priority))
        };
        let best = heads.iter().map(class).min()?;
        let mut equal: Vec<usize> = heads.into_iter().filter(|at| class(at) == best).collect();
        if let [only] = equal.as_slice() {
            return Some(*only);
        }
        equal.sort_unstable();
        self.winner(ledger, &equal, 0)
    }

    /// The winner among work whose queues have the first `depth` queues from the root in common: each branch
    /// sends its own winner, and the branch that would have the lower share with it goes first.
    fn winner(&self, ledger: &Ledger, equal: &[usize], depth: usize) -> Option<usize> {
        let mut branches: BTreeMap<Option<usize>, Vec<usize>> = BTreeMap::new();
        for at in equal {
            let mut way: Vec<usize> = ledger.way_up(self.work[*at].seat).collect();
            way.reverse();
            branches.entry(way.get(depth).copied()).or_default().push(*at);
        }
        let sent = branches.into_iter().filter_map(|(branch, work)| {
            let winner = match branch {
                Some(_) if work.len() > 1 => self.winner(ledger, &work, depth + 1)?,
                _ => work.into_iter().min_by_key(|at| (self.work[*at].rank, self.work[*at].age))?,
            };
            let Contender { seat, need, jobs, rank, age, .. } = &self.work[winner];
            let share = match branch {
                Some(branch) => ledger.share(branch, need, *jobs),
                None => ledger.own_share(*seat, need, *jobs),
            };
            Some((share, *rank, *age, winner))
        });
        sent.min().map(|(_, _, _, winner)| winner)
    }
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
