//! Quotas, counted anew from the jobs that hold room: no queue, with all below it, uses more than is theirs and
//! the limit of its borrowing, no tree more than it has, and no more jobs run in a queue than it lets.

use std::collections::BTreeMap;

use muster_domain::queue_tree::{Queues, way_up};
use muster_domain::{Amounts, Job, QueueName};

use crate::state::State;

/// Compares what runs with what the queues allow. (Terms that shrink below what is used would look like a breach;
/// the simulation does not do that.)
pub(crate) fn check(state: &State) -> Result<(), String> {
    let queues = state.queues();
    if queues.is_empty() {
        return Ok(());
    }
    let mut held: BTreeMap<&QueueName, Vec<&Job>> = BTreeMap::new();
    for job in state.jobs().iter().filter(|job| job.status().holds_capacity()) {
        if let Some(queue) = &job.spec.queue {
            for above in way_up(queues, queue) {
                held.entry(above).or_default().push(job);
            }
        }
    }
    held.iter().try_for_each(|(queue, jobs)| check_queue(queues, queue, jobs))
}

fn check_queue(queues: &Queues, name: &QueueName, jobs: &[&Job]) -> Result<(), String> {
    let Some(queue) = queues.get(name) else { return Ok(()) };
    if let Some(most) = queue.terms.max_running.filter(|most| jobs.len() > *most as usize) {
        return Err(format!("{} jobs run in queue {name}, which lets {most}", jobs.len()));
    }
    let nominal = nominal_below(queues, name);
    for (dimension, own) in nominal.iter() {
        let used: u64 = jobs.iter().filter_map(|job| Some(job.spec.resources.as_ref()?.get(dimension))).sum();
        let borrow = match (&queue.terms.parent, &queue.terms.borrow) {
            (None, _) => 0,
            (Some(_), Some(borrow)) => borrow.get(dimension).unwrap_or(u64::MAX),
            (Some(_), None) => u64::MAX,
        };
        if used > own.saturating_add(borrow) {
            return Err(format!("queue {name} uses {used} {dimension}, has {own} and may borrow {borrow}"));
        }
    }
    Ok(())
}

/// What a queue and all below it have of their own.
fn nominal_below(queues: &Queues, name: &QueueName) -> Amounts {
    let mut sums = BTreeMap::new();
    for queue in queues.values().filter(|queue| way_up(queues, &queue.name).contains(&name)) {
        for (dimension, amount) in queue.terms.nominal.iter().flat_map(Amounts::iter) {
            *sums.entry(dimension.clone()).or_insert(0_u64) += amount;
        }
    }
    sums.into_iter().collect()
}
