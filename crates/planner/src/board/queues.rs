//! Queues: what belongs to them, and what they hold.

use crate::policy::dominant_share;

use super::amounts::{KINDS, Need, Room};
use super::ids::QueueId;

/// What an operator says about a queue. One that was never set has weight one and owns nothing in
/// particular.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueTerms {
    /// A queue with twice the weight gets twice the share.
    pub weight: u32,
    /// What is its own; `None` when nothing is set aside for anybody.
    pub nominal: Option<muster_domain::Resources>,
    /// What it may take beyond its own while others leave it idle; `None` is as much as there is.
    pub borrow: Option<muster_domain::Resources>,
    /// Nothing of it starts.
    pub paused: bool,
}

impl Default for QueueTerms {
    fn default() -> Self {
        Self { weight: 1, nominal: None, borrow: None, paused: false }
    }
}

impl QueueTerms {
    /// Whether so many tasks may ever run at once. Only what may be stopped may borrow.
    pub fn admits_ever(&self, need: &muster_domain::Resources, tasks: u32, preemptible: bool) -> bool {
        let Some(own) = &self.nominal else { return true };
        let all = |amount: u64| amount.saturating_mul(u64::from(tasks));
        let mut whole = need.clone();
        (whole.cpu_millis, whole.memory_mb) = (all(need.cpu_millis), all(need.memory_mb));
        (whole.gpus, whole.vram_mb) = (all(need.gpus), all(need.vram_mb));
        whole.counters.clear();
        let mut most = own.clone();
        match (&self.borrow, preemptible) {
            (None, true) => return true,
            (Some(more), true) => most.add(more),
            (_, false) => {}
        }
        whole.fits_in(&most)
    }
}

/// How a start stands to the quota of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Inside what belongs to the queue.
    Own,
    /// Beyond it.
    Borrows,
    /// Beyond what it may borrow.
    Refused,
}

#[derive(Debug, Clone)]
struct Queue {
    weight: u32,
    nominal: Option<Room>,
    /// Own and borrowed together.
    most: Option<Room>,
    paused: bool,
    used: [u64; KINDS],
}

impl Default for Queue {
    fn default() -> Self {
        Self { weight: 1, nominal: None, most: None, paused: false, used: [0; KINDS] }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Queues(Vec<Queue>);

impl Queues {
    fn known(&mut self, id: QueueId) -> &mut Queue {
        if self.0.len() <= id.index() {
            self.0.resize_with(id.index() + 1, Queue::default);
        }
        &mut self.0[id.index()]
    }

    pub(crate) fn set(
        &mut self,
        id: QueueId,
        terms: &QueueTerms,
        nominal: Option<Room>,
        borrow: Option<Room>,
    ) {
        let most = match (&nominal, borrow) {
            (Some(own), Some(more)) => {
                let mut most = own.clone();
                most.fixed.iter_mut().zip(more.fixed).for_each(|(sum, more)| *sum = sum.saturating_add(more));
                Some(most)
            }
            (None, _) | (_, None) => None,
        };
        let queue = self.known(id);
        (queue.weight, queue.paused, queue.nominal, queue.most) = (terms.weight, terms.paused, nominal, most);
    }

    pub(crate) fn take(&mut self, id: QueueId, need: &Need, tasks: u32) {
        let queue = self.known(id);
        for (used, need) in queue.used.iter_mut().zip(need.fixed) {
            *used = used.saturating_add(need.saturating_mul(u64::from(tasks)));
        }
    }

    pub(crate) fn give(&mut self, id: QueueId, need: &Need, tasks: u32) {
        let queue = self.known(id);
        for (used, need) in queue.used.iter_mut().zip(need.fixed) {
            *used = used.saturating_sub(need.saturating_mul(u64::from(tasks)));
        }
    }

    fn used_with(&self, id: QueueId, need: &Need, tasks: u32) -> [u64; KINDS] {
        let mut used = self.0.get(id.index()).map_or([0; KINDS], |queue| queue.used);
        for (used, need) in used.iter_mut().zip(need.fixed) {
            *used = used.saturating_add(need.saturating_mul(u64::from(tasks)));
        }
        used
    }

    /// The share of a queue once so many more tasks have started.
    pub(crate) fn share_with(&self, id: QueueId, need: &Need, tasks: u32, total: &Room) -> u64 {
        let weight = self.0.get(id.index()).map_or(1, |queue| queue.weight);
        dominant_share(self.used_with(id, need, tasks), total.fixed, weight)
    }

    /// Whether a start would be on the queue's own account. Only what may be stopped may borrow.
    pub(crate) fn standing(&self, id: QueueId, need: &Need, tasks: u32, preemptible: bool) -> Standing {
        let Some(queue) = self.0.get(id.index()) else { return Standing::Own };
        if queue.paused {
            return Standing::Refused;
        }
        if queue.nominal.is_none() {
            return Standing::Own;
        }
        let used = self.used_with(id, need, tasks);
        let within = |bound: &Room| {
            used.iter()
                .zip(&bound.fixed)
                .zip(need.fixed)
                .all(|((used, bound), need)| need == 0 || used <= bound)
        };
        if queue.nominal.as_ref().is_none_or(within) {
            return Standing::Own;
        }
        let lent = preemptible && queue.most.as_ref().is_none_or(within);
        if lent { Standing::Borrows } else { Standing::Refused }
    }

    /// Whether a queue holds more than its own, of anything.
    pub(crate) fn borrows(&self, id: QueueId) -> bool {
        let beyond = |queue: &Queue| {
            let own = queue.nominal.as_ref();
            own.is_some_and(|own| queue.used.iter().zip(own.fixed).any(|(used, own)| *used > own))
        };
        self.0.get(id.index()).is_some_and(beyond)
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{Requirement, Resources};

    use super::super::amounts::Names;
    use super::*;

    fn gpus(gpus: u64) -> Resources {
        Resources { gpus, ..Resources::default() }
    }

    #[test]
    fn own_comes_before_borrowed_and_borrowed_has_its_bound() {
        let (mut names, mut queues, queue) = (Names::default(), Queues::default(), QueueId(3));
        let need = names.need(&Requirement { resources: gpus(1), ..Requirement::default() });
        assert_eq!(queues.standing(queue, &need, 100, false), Standing::Own);
        let terms = QueueTerms { nominal: Some(gpus(4)), borrow: Some(gpus(2)), ..QueueTerms::default() };
        queues.set(queue, &terms, Some(names.room(&gpus(4))), Some(names.room(&gpus(2))));
        queues.take(queue, &need, 3);
        assert_eq!(queues.standing(queue, &need, 1, false), Standing::Own);
        assert_eq!(queues.standing(queue, &need, 2, false), Standing::Refused);
        assert_eq!(queues.standing(queue, &need, 3, true), Standing::Borrows);
        assert_eq!(queues.standing(queue, &need, 4, true), Standing::Refused);
        assert!(!queues.borrows(queue));
        queues.take(queue, &need, 2);
        assert!(queues.borrows(queue));
        queues.give(queue, &need, 1);
        assert!(!queues.borrows(queue));
        let ever = |tasks, preemptible| terms.admits_ever(&gpus(1), tasks, preemptible);
        assert!(ever(4, false) && !ever(5, false) && ever(6, true) && !ever(7, true));
        // What it needs none of is not counted against it.
        let plain = names.need(&Requirement::default());
        assert_eq!(queues.standing(queue, &plain, 9, false), Standing::Own);
    }
}
