//! More memory for the next attempt of a job that ran out of it.
//!
//! Guarantees: a job never asks for less than before, and never for more than it allows itself; nothing grows where no
//! memory was asked for, for then there was no limit; what is asked for in the end fits on the workers that there are.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::queue_tree::{Queues, way_up};
use crate::resources::{Dimension, Resources};
use crate::spec::{JobSpec, ShapeId};

/// How much more an attempt gets than the one before it that ran out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryGrowth {
    /// Growth in thousandths: 2000 doubles.
    #[serde(rename = "f")]
    pub factor_milli: u32,
    /// No attempt asks for more than this because of it.
    #[serde(default, rename = "m", skip_serializing_if = "Option::is_none")]
    pub most_mb: Option<u64>,
}

impl MemoryGrowth {
    /// What the next attempt asks for.
    pub fn after(self, asked_mb: u64) -> u64 {
        let grown = u128::from(asked_mb) * u128::from(self.factor_milli.max(1_000)) / 1_000;
        // Numbers beyond any machine stay far from the end of what can be added up.
        let grown = u64::try_from(grown).unwrap_or(u64::MAX).min(1 << 40);
        grown.min(self.most_mb.unwrap_or(u64::MAX)).max(asked_mb)
    }
}

/// What a job asks for.
pub fn asked_mb(spec: &JobSpec) -> u64 {
    spec.resources.as_ref().map_or(0, |resources| resources.memory_mb)
}

/// Lets the next attempt of a job ask for more, where the job wants that.
pub(crate) fn grow(job: &mut Job) {
    let asked = asked_mb(&job.spec);
    let Some(growth) = job.spec.retry.oom_memory.filter(|_| asked > 0) else { return };
    ask_for(job, growth.after(asked));
}

/// Changes what a waiting job asks for, and its shape with that.
pub fn ask_for(job: &mut Job, memory_mb: u64) {
    if asked_mb(&job.spec) == memory_mb {
        return;
    }
    let mut spec: JobSpec = job.spec.as_ref().clone();
    let resources = spec.resources.take().unwrap_or_default();
    spec.resources = Some(Resources { memory_mb, ..resources });
    job.shape = ShapeId::of(&spec.shape());
    job.spec = Arc::new(spec);
}

/// The most memory that each of `tasks` tasks can have at once on workers with these amounts, no more than `per_worker` on
/// one of them; `None` where they do not fit however little they take.
pub fn most_that_fits(workers_mb: &[u64], tasks: u32, per_worker: u32) -> Option<u64> {
    let (tasks, per_worker) = (u64::from(tasks.max(1)), u64::from(per_worker.max(1)));
    let fits = |memory_mb: u64| {
        let room = |worker: &u64| (worker / memory_mb).min(per_worker);
        workers_mb.iter().map(room).sum::<u64>() >= tasks
    };
    let parts = |worker: &u64| {
        let worker = *worker;
        (1..=per_worker.min(tasks)).map(move |part| worker / part).filter(|memory_mb| *memory_mb > 0)
    };
    let mut amounts: Vec<u64> = workers_mb.iter().flat_map(parts).collect();
    amounts.sort_unstable();
    amounts.dedup();
    // What fits with some amount fits with any smaller one.
    amounts[..amounts.partition_point(|memory_mb| fits(*memory_mb))].last().copied()
}

/// The most memory that the jobs of a queue can ever hold together by the quotas of its tree; `None` when nothing bounds it.
pub fn most_by_quota(queues: &Queues, queue: Option<&crate::QueueName>) -> Option<u64> {
    let way = way_up(queues, queue?);
    let root = way.last()?;
    let nominal = |name: &crate::QueueName| {
        let below = queues.values().filter(|queue| way_up(queues, &queue.name).contains(&name));
        let amounts = below.filter_map(|queue| queue.terms.nominal.as_ref()?.get(&Dimension::MemoryMb));
        amounts.reduce(u64::saturating_add)
    };
    // A kind of resource that no queue of a tree names is not bounded.
    let whole = nominal(root)?;
    let with_borrowed = way.iter().filter_map(|name| {
        let borrow = queues.get(*name)?.terms.borrow.as_ref()?.get(&Dimension::MemoryMb)?;
        Some(nominal(name).unwrap_or(0).saturating_add(borrow))
    });
    Some(with_borrowed.fold(whole, u64::min))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Amounts, Queue, QueueName};

    #[test]
    fn memory_grows_by_the_factor_up_to_the_most() {
        let growth = |factor_milli, most_mb| MemoryGrowth { factor_milli, most_mb };
        assert_eq!(growth(2_000, None).after(64), 128);
        assert_eq!(growth(1_500, None).after(1_000), 1_500);
        assert_eq!(growth(2_000, Some(100)).after(64), 100);
        assert_eq!(growth(2_000, Some(10)).after(64), 64, "never less than before");
        assert_eq!(growth(0, None).after(64), 64);
        assert!(growth(u32::MAX, None).after(u64::MAX / 2) >= u64::MAX / 2);
    }

    #[test]
    fn the_largest_worker_bounds_a_job_and_all_workers_a_gang() {
        assert_eq!(most_that_fits(&[900, 300], 1, 1), Some(900));
        assert_eq!(most_that_fits(&[900, 300], 2, 1), Some(300));
        assert_eq!(most_that_fits(&[900, 300], 2, 2), Some(450));
        assert_eq!(most_that_fits(&[900, 300], 4, 4), Some(300), "three on the larger one");
        assert_eq!(most_that_fits(&[900, 300], 3, 1), None);
        assert_eq!(most_that_fits(&[], 1, 1), None);
    }

    #[test]
    fn quotas_of_the_tree_bound_what_a_job_may_ask_for() {
        let memory = |mb| Some(Amounts::from_iter([(Dimension::MemoryMb, mb)]));
        let queue = |name: &str, parent: Option<&str>, nominal, borrow| {
            let mut queue = Queue::new(QueueName::new(name));
            queue.terms.parent = parent.map(QueueName::new);
            (queue.terms.nominal, queue.terms.borrow) = (nominal, borrow);
            (QueueName::new(name), queue)
        };
        let queues: Queues = [
            queue("lab", None, None, None),
            queue("a", Some("lab"), memory(100), memory(20)),
            queue("b", Some("lab"), memory(300), None),
            queue("free", None, None, None),
        ]
        .into();
        let most = |name: &str| most_by_quota(&queues, Some(&QueueName::new(name)));
        assert_eq!((most("a"), most("b"), most("lab")), (Some(120), Some(400), Some(400)));
        assert_eq!((most("free"), most("unknown"), most_by_quota(&queues, None)), (None, None, None));
    }

    proptest! {
        #[test]
        fn what_is_said_to_fit_fits_and_a_little_more_does_not(
            workers in prop::collection::vec(1_u64..2_000, 1..6), tasks in 1_u32..6, per_worker in 1_u32..4,
        ) {
            let room = |memory_mb: u64| {
                workers.iter().map(|worker| (worker / memory_mb).min(u64::from(per_worker))).sum::<u64>()
            };
            match most_that_fits(&workers, tasks, per_worker) {
                Some(most) => {
                    prop_assert!(room(most) >= u64::from(tasks));
                    prop_assert!(room(most + 1) < u64::from(tasks));
                }
                None => prop_assert!(room(1) < u64::from(tasks)),
            }
        }
    }
}
