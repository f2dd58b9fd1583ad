//! What quotas promise, as a check of a ledger. It holds as long as quotas do not shrink below what is used.

use muster_domain::{Dimension, QueueName};

use crate::quota::Ledger;

/// A promise that is broken, with the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaViolation {
    /// The queues of a tree use more than they have.
    Tree { root: Option<QueueName>, dimension: Dimension, used: u64, nominal: u64 },
    /// A queue, with all below it, has borrowed more than it may.
    Borrow { queue: Option<QueueName>, dimension: Dimension, used: u64, most: u64 },
    /// Work that is not preemptible uses more than is its queue's own.
    Fixed { queue: Option<QueueName>, dimension: Dimension, used: u64, nominal: u64 },
}

impl Ledger {
    /// Every promise that what is used breaks.
    pub fn violations(&self) -> Vec<QuotaViolation> {
        let mut found = Vec::new();
        for (at, seat) in self.seats.iter().enumerate() {
            for (place, dimension) in self.dimensions.iter().enumerate() {
                if !self.is_bounded(at, place) {
                    continue;
                }
                let (queue, dimension) = (seat.name.clone(), dimension.clone());
                let (used, nominal) = (seat.used_below[place], seat.nominal_below[place]);
                let most = seat.borrow[place].map_or(u64::MAX, |borrow| nominal.saturating_add(borrow));
                let (fixed, own) = (seat.house_fixed[place], seat.nominal[place]);
                if seat.parent.is_none() && used > nominal {
                    found.push(QuotaViolation::Tree { root: queue, dimension, used, nominal });
                } else if seat.parent.is_some() && used > most {
                    found.push(QuotaViolation::Borrow { queue, dimension, used, most });
                } else if fixed > own {
                    found.push(QuotaViolation::Fixed { queue, dimension, used: fixed, nominal: own });
                }
            }
        }
        found
    }
}
