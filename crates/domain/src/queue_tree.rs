//! Queues in trees: where a queue stands, what it may use, and which of them belong together.
//!
//! Guarantee: a set of queues that was accepted has no cycle, every parent exists, and each queue knows the
//! root of its tree.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::amounts::Amounts;
use crate::ids::QueueName;
use crate::limits::MAX_QUEUE_DEPTH;
use crate::queue::Queue;
use crate::rejection::Rejection;

/// How a queue shares with others, as an operator sets it. What is absent does not bound.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<QueueName>,
    /// Its part when queues compete, in thousandths; 1000 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight_milli: Option<u32>,
    /// What is its own. A kind of resource that no queue of a tree names is not bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal: Option<Amounts>,
    /// The most that it, with all below it, may use beyond what is theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub borrow: Option<Amounts>,
    /// The most of its own that others may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lend: Option<Amounts>,
    /// The most jobs of it and of all below it that run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// The same for the jobs of each user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running_per_user: Option<u32>,
    /// The most jobs of each user that may wait in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queued_per_user: Option<u64>,
}

impl Terms {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub fn weight_milli(&self) -> u32 {
        self.weight_milli.unwrap_or(1000)
    }

    /// Whether it changes the order among queues or bounds what they use.
    pub fn shares(&self) -> bool {
        self.parent.is_some()
            || self.weight_milli.is_some()
            || self.nominal.is_some()
            || self.borrow.is_some()
            || self.lend.is_some()
    }

    /// Whether a start has to look at what runs in its tree.
    pub fn counts_starts(&self) -> bool {
        self.shares() || self.max_running.is_some() || self.max_running_per_user.is_some()
    }
}

/// The queues that were set, by name.
pub type Queues = BTreeMap<QueueName, Queue>;

/// The way from a queue up to its root, itself first. Ends where a parent is missing or comes twice.
pub fn way_up<'q>(queues: &'q Queues, from: &'q QueueName) -> Vec<&'q QueueName> {
    let mut way = vec![from];
    let mut at = from;
    while let Some(parent) = queues.get(at).and_then(|queue| queue.terms.parent.as_ref()) {
        if way.contains(&parent) {
            break;
        }
        way.push(parent);
        at = parent;
    }
    way
}

/// Puts a queue in its place: makes the parents that are missing and tells every queue the root of its tree.
pub fn put(queues: &mut Queues, queue: Queue) -> Result<(), Rejection> {
    let name = queue.name.clone();
    if let Some(parent) = queue.terms.parent.clone() {
        queues.entry(parent.clone()).or_insert_with(|| Queue::new(parent));
    }
    queues.insert(name.clone(), queue);
    if let Some(path) = cycle(queues, &name) {
        return Err(Rejection::QueueCycle { path });
    }
    for name in queues.keys() {
        let depth = way_up(queues, name).len();
        if depth > MAX_QUEUE_DEPTH {
            return Err(Rejection::QueueTooDeep { queue: name.clone(), depth, limit: MAX_QUEUE_DEPTH });
        }
    }
    tell_roots(queues);
    Ok(())
}

/// The way from a queue back to itself, if its parents lead there.
fn cycle(queues: &Queues, from: &QueueName) -> Option<Vec<QueueName>> {
    let way = way_up(queues, from);
    let last = queues.get(*way.last()?)?;
    (last.terms.parent.as_ref()? == from).then(|| way.into_iter().chain([from]).cloned().collect())
}

fn tell_roots(queues: &mut Queues) {
    let roots: BTreeMap<QueueName, QueueName> = queues
        .keys()
        .filter_map(|name| Some((name.clone(), way_up(queues, name).last().copied()?.clone())))
        .collect();
    let mut counted: BTreeMap<&QueueName, bool> = BTreeMap::new();
    for (name, root) in &roots {
        *counted.entry(root).or_default() |=
            queues.get(name).is_some_and(|queue| queue.terms.counts_starts());
    }
    for (name, queue) in queues.iter_mut() {
        let root = roots.get(name).filter(|root| counted.get(root) == Some(&true));
        queue.tree = root.cloned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(name: &str, parent: &str) -> Queue {
        let terms = Terms { parent: Some(QueueName::new(parent)), ..Terms::default() };
        Queue { terms, ..Queue::new(QueueName::new(name)) }
    }

    fn tree(queues: &Queues, name: &str) -> Option<String> {
        queues[&QueueName::new(name)].tree.as_ref().map(|root| root.as_str().to_owned())
    }

    #[test]
    fn parents_are_made_and_everybody_knows_the_root() {
        let mut queues = Queues::new();
        put(&mut queues, Queue::new(QueueName::new("alone"))).unwrap();
        put(&mut queues, below("vision", "lab")).unwrap();
        put(&mut queues, below("lab", "house")).unwrap();
        assert_eq!(tree(&queues, "vision").as_deref(), Some("house"));
        assert_eq!(tree(&queues, "house").as_deref(), Some("house"));
        assert_eq!(tree(&queues, "alone"), None);
        put(&mut queues, Queue::new(QueueName::new("lab"))).unwrap();
        assert_eq!(tree(&queues, "vision").as_deref(), Some("lab"));
        assert_eq!(tree(&queues, "house"), None, "nothing is below it any more");
    }

    #[test]
    fn a_limit_alone_makes_a_tree_of_one() {
        let mut queues = Queues::new();
        let terms = Terms { max_running: Some(1), ..Terms::default() };
        put(&mut queues, Queue { terms, ..Queue::new(QueueName::new("q")) }).unwrap();
        assert_eq!(tree(&queues, "q").as_deref(), Some("q"));
    }

    #[test]
    fn a_cycle_is_spelled_out() {
        let mut queues = Queues::new();
        put(&mut queues, below("a", "b")).unwrap();
        put(&mut queues, below("b", "c")).unwrap();
        let refusal = put(&mut queues.clone(), below("c", "a")).unwrap_err();
        assert_eq!(refusal.to_string(), "a queue cannot be below itself: c -> a -> b -> c");
        let refusal = put(&mut queues, below("a", "a")).unwrap_err();
        assert_eq!(refusal.to_string(), "a queue cannot be below itself: a -> a");
    }

    #[test]
    fn a_tree_is_not_too_deep() {
        let mut queues = Queues::new();
        let names: Vec<String> = (0..=MAX_QUEUE_DEPTH).map(|n| format!("q{n:02}")).collect();
        let refused = names.windows(2).filter_map(|pair| put(&mut queues, below(&pair[1], &pair[0])).err());
        assert_eq!(refused.count(), 1);
    }
}
