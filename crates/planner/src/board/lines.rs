//! Who waits, in the orders in which the pass asks for them.
//!
//! Guarantees: adding, removing and asking for the first cost the logarithm of what waits; nothing here
//! walks over all that waits.

use std::collections::BTreeSet;

use muster_domain::Span;

use super::ids::{QueueId, ShapeId, UnitId};
use crate::policy::Key;

/// Units of one class in one queue.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) queue: QueueId,
    /// In the order of the queue.
    pub(crate) order: BTreeSet<Key>,
    /// The shortest first, those of unknown length last.
    pub(crate) by_length: BTreeSet<(Span, Key)>,
}

/// Units that need the same: if one of them finds no room, none does.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) shape: ShapeId,
    pub(crate) tasks: u32,
    /// By queue.
    pub(crate) lines: Vec<Line>,
    pub(crate) waiting: usize,
    /// Its place in the list of classes of which something waits.
    active: usize,
}

/// What of the orders a policy asks for; the others are not kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) queues: bool,
    pub(crate) order: bool,
    pub(crate) by_length: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Lines {
    kept: Kept,
    pub(crate) queues: Vec<BTreeSet<Key>>,
    pub(crate) classes: Vec<Class>,
    /// Those of which something waits, in no order.
    pub(crate) active: Vec<u32>,
    pub(crate) waiting: usize,
}

impl Lines {
    pub(crate) fn new(kept: Kept) -> Self {
        Self { kept, ..Self::default() }
    }

    /// The number of the class, made when it is new.
    pub(crate) fn class(&mut self, shape: ShapeId, tasks: u32, known: &mut Vec<(u32, u32)>) -> u32 {
        if let Some((_, class)) = known.iter().find(|(of, _)| *of == tasks) {
            return *class;
        }
        let class = self.classes.len() as u32;
        known.push((tasks, class));
        self.classes.push(Class { shape, tasks, lines: Vec::new(), waiting: 0, active: 0 });
        class
    }

    pub(crate) fn insert(&mut self, key: Key, queue: QueueId, class: u32, length: Span) {
        self.waiting += 1;
        if self.kept.queues {
            if self.queues.len() <= queue.index() {
                self.queues.resize_with(queue.index() + 1, BTreeSet::new);
            }
            self.queues[queue.index()].insert(key);
        }
        let number = class;
        let class = &mut self.classes[class as usize];
        class.waiting += 1;
        if class.waiting == 1 {
            class.active = self.active.len();
            self.active.push(number);
        }
        if !self.kept.order && !self.kept.by_length {
            return;
        }
        let at = match class.lines.binary_search_by_key(&queue, |line| line.queue) {
            Ok(at) => at,
            Err(at) => {
                class.lines.insert(at, Line { queue, order: BTreeSet::new(), by_length: BTreeSet::new() });
                at
            }
        };
        if self.kept.order {
            class.lines[at].order.insert(key);
        }
        if self.kept.by_length {
            class.lines[at].by_length.insert((length, key));
        }
    }

    pub(crate) fn remove(&mut self, key: Key, queue: QueueId, class: u32, length: Span) {
        self.waiting -= 1;
        if let Some(set) = self.queues.get_mut(queue.index()) {
            set.remove(&key);
        }
        let class = &mut self.classes[class as usize];
        class.waiting -= 1;
        let (empty, active) = (class.waiting == 0, class.active);
        if let Ok(at) = class.lines.binary_search_by_key(&queue, |line| line.queue) {
            let line = &mut class.lines[at];
            line.order.remove(&key);
            if self.kept.by_length {
                line.by_length.remove(&(length, key));
            }
        }
        if empty {
            self.active.swap_remove(active);
            if let Some(moved) = self.active.get(active) {
                self.classes[*moved as usize].active = active;
            }
        }
    }

    /// The first of a queue.
    pub(crate) fn head(&self, queue: QueueId) -> Option<UnitId> {
        self.queues.get(queue.index())?.first().map(|key| key.unit)
    }
}
