//! Quota that is promised to work for which others had to stop.
//!
//! Guarantees: what was given up is not taken by others before the one has started that it was given up for; but
//! what is the own of another queue, its work may always take.

use muster_domain::{Queue, Unit};

use crate::quota::{Ledger, Row};

/// What a unit waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promise {
    unit: Unit,
    seat: usize,
    /// Of one task.
    need: Row,
    tasks: u32,
    fixed: bool,
}

/// Jobs of one queue that want to start together.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// `None` for anybody who was promised nothing.
    pub unit: Option<Unit>,
    pub seat: usize,
    /// Of one job.
    pub need: &'a [u64],
    pub jobs: u32,
    /// Not preemptible.
    pub fixed: bool,
}

impl Ledger {
    pub(crate) fn note_promises(&mut self, queues: &[Queue]) {
        for queue in queues {
            let Some(seat) = self.seat(Some(&queue.name)) else { continue };
            for promised in &queue.promised {
                let need = self.row(&promised.need);
                let (unit, tasks, fixed) = (promised.unit, promised.tasks, promised.fixed);
                self.promises.push(Promise { unit, seat, need, tasks, fixed });
            }
        }
    }

    pub(crate) fn is_promised(&self, unit: Unit) -> bool {
        self.promises.iter().any(|promise| promise.unit == unit)
    }

    pub(crate) fn has_promises(&self) -> bool {
        !self.promises.is_empty()
    }

    /// The one has started that something was promised to.
    pub(crate) fn keep_promise(&mut self, unit: Unit) {
        self.promises.retain(|promise| promise.unit != unit);
    }

    /// How many of these jobs the quota lets start beside what is promised to others.
    pub fn room_beside(&self, wish: &Wish<'_>) -> u32 {
        let Wish { seat, need, fixed, .. } = *wish;
        let all: Row = need.iter().map(|need| need.saturating_mul(u64::from(wish.jobs))).collect();
        let stands = |promise: &&Promise| {
            Some(promise.unit) != wish.unit && (promise.seat == seat || !self.is_within_own(seat, &all))
        };
        let promises: Vec<&Promise> = self.promises.iter().filter(stands).collect();
        if promises.is_empty() {
            return self.room(seat, need, fixed);
        }
        let mut rest = self.clone();
        for promise in promises {
            rest.take(promise.seat, &promise.need, promise.fixed, promise.tasks);
        }
        rest.room(seat, need, fixed)
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{Dimension, JobId, Promised, QueueName, Resources, Terms};

    use super::*;
    use crate::quota::Held;

    fn job(name: u8) -> Unit {
        Unit::Job(JobId::from_random([name; 16]))
    }

    fn gpus(gpus: u64) -> Resources {
        Resources { gpus, ..Resources::default() }
    }

    /// Two queues of one tree with 8 GPUs each, of which `a` promised 4 to the first job.
    fn ledger(used: [u64; 2]) -> Ledger {
        let promised = vec![Promised { unit: job(1), need: gpus(4), tasks: 1, fixed: false }];
        let queue = |name: &str, promised| {
            let nominal = Some([(Dimension::Gpus, 8)].into_iter().collect());
            let terms = Terms { parent: Some(QueueName::new("lab")), nominal, ..Terms::default() };
            Queue { terms, promised, ..Queue::new(QueueName::new(name)) }
        };
        let queues = [queue("a", promised), queue("b", Vec::new()), Queue::new(QueueName::new("lab"))];
        let held = |(name, gpus_used): (&str, u64)| Held {
            queue: Some(QueueName::new(name)),
            need: gpus(1),
            fixed: false,
            jobs: gpus_used as u32,
        };
        Ledger::new(&queues, &[("a", used[0]), ("b", used[1])].map(held))
    }

    fn room(ledger: &Ledger, unit: Option<Unit>, queue: &str, need: u64) -> u32 {
        let need = ledger.row(&gpus(need));
        let seat = ledger.seat(Some(&QueueName::new(queue))).unwrap();
        ledger.room_beside(&Wish { unit, seat, need: &need, jobs: 1, fixed: false })
    }

    #[test]
    fn what_is_promised_is_there_for_the_one_and_gone_for_the_others() {
        let full = ledger([12, 0]);
        assert_eq!(room(&full, Some(job(1)), "a", 4), 1);
        assert_eq!([room(&full, Some(job(2)), "a", 1), room(&full, None, "a", 1)], [0, 0]);
        assert_eq!(room(&ledger([10, 0]), None, "a", 1), 2, "beside it");
        let mut kept = ledger([12, 0]);
        kept.keep_promise(job(1));
        assert_eq!(room(&kept, None, "a", 4), 1);
    }

    #[test]
    fn an_owner_takes_its_own_whatever_others_were_promised() {
        let full = ledger([12, 0]);
        assert_eq!(room(&full, None, "b", 4), 1, "its own");
        let lent = ledger([4, 8]);
        assert_eq!(room(&lent, None, "b", 1), 0, "to borrow would break the promise");
        assert_eq!(full.violations(), [], "a promise is not a use");
    }
}
