//! What a job lacks of its queue's quota, and how queues stand against each other, in numbers.

use std::fmt;

use crate::amounts::Quantity;
use crate::ids::QueueName;
use crate::resources::Dimension;

/// A queue and what it uses beyond its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Borrower {
    pub queue: QueueName,
    pub used: u64,
    pub nominal: u64,
}

/// One kind of resource of which a queue may not take what a job needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaRoom {
    pub queue: QueueName,
    pub dimension: Dimension,
    pub needed: u64,
    /// What the queue may still take.
    pub available: u64,
    pub used: u64,
    pub nominal: u64,
    /// The most that it may use beyond its own, where that is bounded.
    pub borrow: Option<u64>,
    /// What all queues of the tree have and use.
    pub tree_nominal: u64,
    pub tree_used: u64,
    /// The job is not preemptible, and such work does not borrow.
    pub fixed: bool,
    /// Queues of the tree that use more than their own, most first.
    pub borrowers: Vec<Borrower>,
}

impl QuotaRoom {
    /// Whether even an idle tree could not give it.
    pub const fn is_hopeless(&self) -> bool {
        let most = match self.borrow {
            Some(borrow) => self.nominal.saturating_add(borrow),
            None => self.tree_nominal,
        };
        let most = if self.fixed { self.nominal } else { most };
        self.needed > most || self.needed > self.tree_nominal
    }
}

impl fmt::Display for QuotaRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |amount: u64| Quantity(&self.dimension, amount);
        let dimension = &self.dimension;
        write!(
            f,
            "the quota of its queue {} leaves {} {dimension}, it needs {}: {} of {} used",
            self.queue,
            of(self.available),
            of(self.needed),
            of(self.used),
            of(self.nominal)
        )?;
        if let Some(borrow) = self.borrow {
            write!(f, ", at most {} borrowed", of(borrow))?;
        }
        if self.tree_nominal != self.nominal || self.tree_used != self.used {
            write!(f, ", {} of {} in its tree", of(self.tree_used), of(self.tree_nominal))?;
        }
        for borrower in &self.borrowers {
            let beyond = borrower.used.saturating_sub(borrower.nominal);
            write!(f, "; {} borrows {}", borrower.queue, of(beyond))?;
        }
        if self.fixed {
            f.write_str("; work that is not preemptible does not borrow")?;
        }
        if self.is_hopeless() {
            f.write_str("; it can never start so")?;
        }
        Ok(())
    }
}

/// A queue and its weighted dominant share, in billionths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareOf {
    pub queue: QueueName,
    pub share: u64,
}

impl fmt::Display for ShareOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.queue.as_str().is_empty() { "(no queue)" } else { self.queue.as_str() };
        write!(f, "{name} ({:.1} %)", self.share as f64 / 1e7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_told_with_those_who_borrow() {
        let borrowers = vec![Borrower { queue: QueueName::new("vision"), used: 24_000, nominal: 8_000 }];
        let room = QuotaRoom {
            queue: QueueName::new("speech"),
            dimension: Dimension::CpuMillis,
            needed: 4_000,
            available: 500,
            used: 7_500,
            nominal: 16_000,
            borrow: Some(2_000),
            tree_nominal: 32_000,
            tree_used: 31_500,
            fixed: false,
            borrowers,
        };
        assert_eq!(
            room.to_string(),
            "the quota of its queue speech leaves 0.5 cpus, it needs 4: 7.5 of 16 used, at most 2 borrowed, \
             31.5 of 32 in its tree; vision borrows 16"
        );
        assert!(QuotaRoom { needed: 18_001, ..room }.is_hopeless());
    }
}
