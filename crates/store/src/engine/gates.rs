//! What bounds starts apart from room: paused queues, rates of queues, quotas, limits on what runs,
//! concurrency keys.
//!
//! Guarantee: the counters are read under their locks, so that no number of schedulers can start more
//! than a key, a rate, a limit or a quota allows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{Job, Queue, QueueName, Shape, Unit};
use muster_planner::{Ledger, Wish};

use super::quotas::{self, Holders, Quotas};
use super::work::Work;
use crate::error::StoreError;
use crate::tx::Tx;

/// The gates in front of the pending shapes.
#[derive(Debug, Default)]
pub(super) struct Gates {
    /// How many may still start, by position.
    pub(super) limits: Vec<u32>,
    queues: HashMap<QueueName, (usize, Queue)>,
    keys: HashMap<String, usize>,
    quotas: Quotas,
}

/// Whether what is read stays as it is until the end of the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Lock,
    /// To see what might be possible; to be looked at again before anything starts.
    Peek,
}

impl Gates {
    /// Reads the gates of these shapes.
    pub(super) async fn read<'s, T: Tx>(
        work: &mut Work<'_, T>,
        shapes: impl Iterator<Item = &'s Shape> + Clone,
        look: Look,
    ) -> Result<Self, StoreError> {
        let mut gates = Self::default();
        gates.read_queues(work, shapes.clone(), look).await?;
        gates.read_keys(work, shapes, look).await?;
        Ok(gates)
    }

    async fn read_queues<'s, T: Tx>(
        &mut self,
        work: &mut Work<'_, T>,
        shapes: impl Iterator<Item = &'s Shape> + Clone,
        look: Look,
    ) -> Result<(), StoreError> {
        let names: BTreeSet<QueueName> = shapes.clone().filter_map(|shape| shape.queue.clone()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let names: Vec<QueueName> = names.into_iter().collect();
        let queues = match look {
            Look::Lock => work.tx.lock_queues(&names).await?,
            Look::Peek => {
                let mut all = work.tx.queues().await?;
                all.retain(|queue| names.contains(&queue.name));
                all
            }
        };
        let roots: BTreeSet<QueueName> = queues.iter().filter_map(|queue| queue.tree.clone()).collect();
        for mut queue in queues {
            queue.refill(work.now);
            if let Some(allowance) = queue.allowance() {
                self.limits.push(allowance);
                self.queues.insert(queue.name.clone(), (self.limits.len() - 1, queue));
            }
        }
        if !roots.is_empty() {
            let roots: Vec<QueueName> = roots.into_iter().collect();
            let tree = quotas::trees(work.tx, &roots, look).await?;
            work.refresh_roster(look).await?;
            let holders = Holders::Roster(work.roster);
            self.quotas = Quotas::read(work.tx, &holders, &tree, shapes, &mut self.limits).await?;
        }
        Ok(())
    }

    /// Where jobs of one key name different limits, the smallest counts for all of them.
    async fn read_keys<'s, T: Tx>(
        &mut self,
        work: &mut Work<'_, T>,
        shapes: impl Iterator<Item = &'s Shape>,
        look: Look,
    ) -> Result<(), StoreError> {
        let mut wanted: BTreeMap<&String, u32> = BTreeMap::new();
        for limit in shapes.filter_map(|shape| shape.concurrency.as_ref()) {
            let smallest = wanted.entry(&limit.key).or_insert(limit.limit);
            *smallest = (*smallest).min(limit.limit);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let mut held: HashMap<String, u32> = HashMap::new();
        if look == Look::Lock {
            let keys: Vec<String> = wanted.keys().copied().cloned().collect();
            held.extend(work.tx.lock_keys(&keys).await?);
        } else {
            for (key, limit) in &wanted {
                let holders = work.tx.holders_of_key(key, *limit as usize).await?;
                held.insert((*key).clone(), holders.len() as u32);
            }
        }
        for (key, limit) in wanted {
            self.limits.push(limit.saturating_sub(held.get(key).copied().unwrap_or(0)));
            self.keys.insert(key.clone(), self.limits.len() - 1);
        }
        Ok(())
    }

    /// The limits that a start of such a job counts against.
    pub(super) fn of(&self, shape: &Shape) -> Vec<usize> {
        let queue = shape.queue.as_ref().and_then(|name| self.queues.get(name)).map(|(limit, _)| *limit);
        let key = shape.concurrency.as_ref().and_then(|limit| self.keys.get(&limit.key)).copied();
        queue.into_iter().chain(key).chain(self.quotas.limits_of(shape)).collect()
    }

    /// What queues have and use, if one of those in play shares with others.
    pub(super) fn ledger(&self) -> Option<&Ledger> {
        self.quotas.ledger.as_ref()
    }

    /// The place of the shape's queue in the ledger.
    pub(super) fn seat(&self, shape: &Shape) -> Option<usize> {
        self.ledger()?.seat(shape.queue.as_ref())
    }

    /// How many jobs of this shape may start; the limits on what runs are not used up twice by one job.
    pub(super) fn room(&self, shape: &Shape) -> u32 {
        self.quota_room(shape).unwrap_or(u32::MAX).min(self.room_but_quota(shape))
    }

    /// Whether a job of this shape may start at all.
    pub(super) fn is_open(&self, shape: &Shape) -> bool {
        self.room(shape) > 0
    }

    /// How many jobs of this shape may start as far as limits go, whatever the quotas say.
    pub(super) fn room_but_quota(&self, shape: &Shape) -> u32 {
        self.of(shape).into_iter().map(|limit| self.limits[limit]).min().unwrap_or(u32::MAX)
    }

    /// How many jobs of this shape the quota lets start; `None` where there is none.
    pub(super) fn quota_room(&self, shape: &Shape) -> Option<u32> {
        self.quotas.room(shape)
    }

    /// How many jobs of this shape the quota lets start together beside what is promised to others than `unit`.
    pub(super) fn quota_beside(&self, unit: Option<Unit>, shape: &Shape, jobs: u32) -> Option<u32> {
        let ledger = self.ledger()?;
        let (seat, need) = (self.seat(shape)?, ledger.row(&shape.requirement.resources));
        Some(ledger.room_beside(&Wish { unit, seat, need: &need, jobs, fixed: shape.fixed }))
    }

    /// Counts jobs that start.
    pub(super) fn take(&mut self, shape: &Shape, jobs: u32) {
        for limit in self.of(shape) {
            self.limits[limit] = self.limits[limit].saturating_sub(jobs);
        }
        self.quotas.take(shape, jobs);
    }

    /// Takes the starts out of the rates of their queues.
    pub(super) async fn settle<'j, T: Tx>(
        mut self,
        work: &mut Work<'_, T>,
        started: impl Iterator<Item = &'j Job>,
    ) -> Result<(), StoreError> {
        let mut used: BTreeSet<QueueName> = BTreeSet::new();
        for name in started.filter_map(|job| job.spec.queue.as_ref()) {
            if let Some((_, queue)) = self.queues.get_mut(name).filter(|(_, queue)| queue.rate.is_some()) {
                queue.started(1);
                used.insert(name.clone());
            }
        }
        let queues: Vec<Queue> =
            used.iter().filter_map(|name| Some(self.queues.get(name)?.1.clone())).collect();
        if queues.is_empty() {
            return Ok(());
        }
        work.tx.put_queues(&queues).await
    }
}
