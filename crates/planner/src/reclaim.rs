//! What was lent is taken back: whose work may be stopped for an owner of quota.
//!
//! Guarantees: an owner takes back only from queues of its tree that use more than their own, and only as long
//! as their share stays at least as large as that of the owner.

use crate::quota::{Ledger, Row};
use crate::share::Share;

/// Jobs that are about to start in a queue, or to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stake {
    pub(crate) seat: usize,
    /// Of one job.
    pub(crate) need: Row,
    pub(crate) jobs: u32,
    /// Not preemptible.
    pub(crate) fixed: bool,
}

impl Stake {
    /// Of all its jobs together.
    fn all(&self) -> Row {
        self.need.iter().map(|need| need.saturating_mul(u64::from(self.jobs))).collect()
    }
}

impl Ledger {
    /// Whether two queues are of one tree, so that one may use what is the other's.
    pub fn are_related(&self, one: usize, other: usize) -> bool {
        self.seats[one].root == self.seats[other].root
    }

    /// Whether all of it stays within what is its queue's own.
    pub(crate) fn is_own(&self, stake: &Stake) -> bool {
        self.is_within_own(stake.seat, &stake.all())
    }

    /// Whether its tree bounds anything that it needs.
    pub(crate) fn bounds_any(&self, stake: &Stake) -> bool {
        stake.need.iter().enumerate().any(|(place, need)| *need > 0 && self.is_bounded(stake.seat, place))
    }

    /// Whether its queue uses more than its own of anything that it holds.
    pub(crate) fn borrows(&self, stake: &Stake) -> bool {
        let over = |(place, need): (usize, &u64)| {
            *need > 0 && self.is_bounded(stake.seat, place) && self.over(stake.seat, place) > 0
        };
        stake.need.iter().enumerate().any(over)
    }

    /// By seat: whether a queue uses more than its own of anything.
    pub(crate) fn seats_over(&self) -> Vec<bool> {
        let over = |seat: usize, place: usize| self.is_bounded(seat, place) && self.over(seat, place) > 0;
        (0..self.seats.len()).map(|seat| (0..self.dimensions.len()).any(|place| over(seat, place))).collect()
    }

    /// Whether `owner` may start in place of `borrower`: that one uses what is not its own, and has the larger
    /// share before and not the smaller one afterwards. Shares are compared where the two ways up part.
    pub(crate) fn may_take_back(&mut self, owner: &Stake, borrower: &Stake) -> bool {
        let related = owner.seat != borrower.seat && self.are_related(owner.seat, borrower.seat);
        if !related || !self.borrows(borrower) {
            return false;
        }
        let larger = self.shares(owner, borrower);
        self.leave(borrower);
        let left = self.shares(owner, borrower);
        self.enter(borrower);
        larger.1 > larger.0 && left.1 >= left.0
    }

    /// The share of the owner's branch with it, and that of the borrower's branch as it is.
    fn shares(&self, owner: &Stake, borrower: &Stake) -> (Share, Share) {
        let (mut comes, mut runs): (Vec<usize>, Vec<usize>) =
            (self.way_up(owner.seat).collect(), self.way_up(borrower.seat).collect());
        while comes.last().is_some() && comes.last() == runs.last() {
            comes.pop();
            runs.pop();
        }
        // A queue that is above the other one stands beside it with its own jobs.
        let share = |branch: Option<&usize>, seat: usize, more: &[u64], jobs: u32| match branch {
            Some(branch) => self.share(*branch, more, jobs),
            None => self.own_share(seat, more, jobs),
        };
        let with = share(comes.last(), owner.seat, &owner.all(), owner.jobs);
        (with, share(runs.last(), borrower.seat, &[], 0))
    }

    pub(crate) fn enter(&mut self, stake: &Stake) {
        self.take(stake.seat, &stake.need, stake.fixed, stake.jobs);
    }

    pub(crate) fn leave(&mut self, stake: &Stake) {
        self.give_back(stake.seat, &stake.need, stake.fixed, stake.jobs);
    }
}

#[cfg(test)]
#[path = "reclaim_tests.rs"]
mod tests;
