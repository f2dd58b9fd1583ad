//! What bounds starts apart from room: paused queues, rates of queues, concurrency keys.
//!
//! Guarantee: the counters are read under their locks, so that no number of schedulers can start more
//! than a key or a rate allows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use muster_domain::{Job, Queue, QueueName, Shape};

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
}

impl Gates {
    /// Reads and locks the gates of these shapes.
    pub(super) async fn read<'s, T: Tx>(
        work: &mut Work<'_, T>,
        shapes: impl Iterator<Item = &'s Shape> + Clone,
    ) -> Result<Self, StoreError> {
        let mut gates = Self::default();
        gates.read_queues(work, shapes.clone()).await?;
        gates.read_keys(work, shapes).await?;
        Ok(gates)
    }

    async fn read_queues<'s, T: Tx>(
        &mut self,
        work: &mut Work<'_, T>,
        shapes: impl Iterator<Item = &'s Shape>,
    ) -> Result<(), StoreError> {
        let names: BTreeSet<QueueName> = shapes.filter_map(|shape| shape.queue.clone()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let names: Vec<QueueName> = names.into_iter().collect();
        for mut queue in work.tx.lock_queues(&names).await? {
            queue.refill(work.now);
            if let Some(allowance) = queue.allowance() {
                self.limits.push(allowance);
                self.queues.insert(queue.name.clone(), (self.limits.len() - 1, queue));
            }
        }
        Ok(())
    }

    /// Where jobs of one key name different limits, the smallest counts for all of them.
    async fn read_keys<'s, T: Tx>(
        &mut self,
        work: &mut Work<'_, T>,
        shapes: impl Iterator<Item = &'s Shape>,
    ) -> Result<(), StoreError> {
        let mut wanted: BTreeMap<&String, u32> = BTreeMap::new();
        for limit in shapes.filter_map(|shape| shape.concurrency.as_ref()) {
            let smallest = wanted.entry(&limit.key).or_insert(limit.limit);
            *smallest = (*smallest).min(limit.limit);
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = wanted.keys().copied().cloned().collect();
        let held: HashMap<String, u32> = work.tx.lock_keys(&keys).await?.into_iter().collect();
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
        queue.into_iter().chain(key).collect()
    }

    /// Whether a job of this shape may start at all.
    pub(super) fn is_open(&self, shape: &Shape) -> bool {
        self.of(shape).into_iter().all(|limit| self.limits[limit] > 0)
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
