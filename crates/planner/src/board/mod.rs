//! A pool of nodes with all that runs and waits on it, kept up to date change by change.
//!
//! Guarantees: no node gives more than it has; a unit starts whole or not at all; a pass decides the same for
//! the same history of changes; its cost follows what changed, not what waits. No clock is read: whoever
//! calls says what time it is, and time never runs backwards.

mod amounts;
mod forecast;
mod ids;
mod lines;
mod muster;
mod nodes;
mod pass;
mod plan;
mod preempt;
mod queues;
mod service;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::{BTreeSet, HashMap};

use muster_domain::{Requirement, Resources, Span, Timestamp};

pub use ids::{NodeId, QueueId, ShapeId, UnitId};
pub use nodes::Places;
pub use plan::{Cause, Hold, Plan, Start, Stop};
pub use queues::QueueTerms;
pub use unit::{Past, Unit};

use crate::policy::{Key, Passing, Policy, PolicyName, Standing, rank};
use amounts::{Names, Need};
use forecast::Forecast;
use lines::{Kept, Lines};
use nodes::{Nodes, Search};
use queues::Queues;
use service::Clocks;
use unit::{Entry, State};

/// A requirement, and what is known about its chances.
#[derive(Debug, Clone)]
struct Shape {
    need: Need,
    /// The most tasks on one empty node.
    most: u32,
    /// So many tasks, or more, found no room since capacity last grew.
    failed: u32,
    failed_in: u64,
    /// Classes of this shape: tasks, number.
    classes: Vec<(u32, u32)>,
}

/// A pool under one policy.
#[derive(Debug, Clone)]
pub struct Board {
    policy: Policy,
    passing: Passing,
    names: Names,
    shapes: Vec<Shape>,
    shape_ids: HashMap<Requirement, ShapeId>,
    nodes: Nodes,
    entries: Vec<Entry>,
    /// Numbers that can be given out again.
    unused: Vec<UnitId>,
    lines: Lines,
    /// What runs, by its expected end.
    ends: BTreeSet<(Timestamp, UnitId)>,
    /// What runs, in no order.
    running_units: Vec<UnitId>,
    forecast: Option<Forecast>,
    /// Nodes that nobody else gets before the holder of the reservation has started.
    kept: Vec<NodeId>,
    /// Only `muster` looks at what follows.
    clocks: Clocks,
    queues: Queues,
    /// Some queue owns something, so there are lenders and borrowers.
    lent: bool,
    /// Counts the times that capacity grew.
    grown: u64,
    /// Kept for its memory: the classes that a pass looks at.
    active: Vec<u32>,
}

impl Board {
    pub fn new(policy: Policy) -> Self {
        let passing = Passing::of(policy.name);
        let muster = policy.name == PolicyName::Muster;
        let kept = Kept {
            queues: passing != Passing::Everybody,
            order: matches!(passing, Passing::Everybody | Passing::InOrder) || muster,
            by_length: matches!(passing, Passing::InOrder | Passing::ShortestFirst),
        };
        Self {
            policy,
            passing,
            names: Names::default(),
            shapes: Vec::new(),
            shape_ids: HashMap::new(),
            nodes: Nodes::default(),
            entries: Vec::new(),
            unused: Vec::new(),
            lines: Lines::new(kept),
            ends: BTreeSet::new(),
            running_units: Vec::new(),
            forecast: None,
            kept: Vec::new(),
            clocks: Clocks::default(),
            queues: Queues::default(),
            lent: false,
            grown: 1,
            active: Vec::new(),
        }
    }

    /// A node that takes work from now on, at most `slots` tasks at once.
    pub fn add_node<'a>(
        &mut self,
        total: &Resources,
        slots: Option<u32>,
        tags: impl Iterator<Item = &'a String>,
    ) -> NodeId {
        let (total, tags) = (self.names.room(total), self.names.tags(tags));
        let id = self.nodes.add(total, slots, tags);
        for shape in &mut self.shapes {
            shape.most = self.nodes.most_on_one(&shape.need);
        }
        self.nodes_changed();
        id
    }

    /// Whether the node takes new work. What runs on it is not touched.
    pub fn set_up(&mut self, node: NodeId, up: bool) {
        self.nodes.set_up(node, up);
        self.nodes_changed();
    }

    /// What an operator says about a queue.
    pub fn set_queue(&mut self, queue: QueueId, terms: &QueueTerms) {
        let nominal = terms.nominal.as_ref().map(|amounts| self.names.room(amounts));
        let borrow = terms.borrow.as_ref().map(|amounts| self.names.room(amounts));
        self.lent |= nominal.is_some();
        self.queues.set(queue, terms, nominal, borrow);
    }

    fn nodes_changed(&mut self) {
        self.forget_reservation();
        self.capacity_grew();
    }

    fn capacity_grew(&mut self) {
        self.grown += 1;
    }

    /// The number of a requirement on this board.
    pub fn shape(&mut self, requirement: &Requirement) -> ShapeId {
        if let Some(id) = self.shape_ids.get(requirement) {
            return *id;
        }
        let id = ShapeId(self.shapes.len() as u32);
        let need = self.names.need(requirement);
        let most = self.nodes.most_on_one(&need);
        self.shapes.push(Shape { need, most, failed: u32::MAX, failed_in: 0, classes: Vec::new() });
        self.shape_ids.insert(requirement.clone(), id);
        id
    }

    /// Adds a unit that waits since `now`.
    pub fn submit(&mut self, unit: Unit, past: Past, now: Timestamp) -> UnitId {
        let shape = &mut self.shapes[unit.shape.index()];
        let class = self.lines.class(unit.shape, unit.tasks, &mut shape.classes);
        let size = shape.need.scarce().saturating_mul(u64::from(unit.tasks));
        let level = self.policy.level(shape.need.service(unit.tasks, past.ran));
        let entry = Entry {
            unit,
            class,
            size,
            state: State::Waiting,
            since: now,
            past,
            level,
            pinned: false,
            stopped_for: Vec::new(),
            position: 0,
            places: Places::default(),
            end: None,
        };
        let id = if let Some(id) = self.unused.pop() {
            self.entries[id.index()] = entry;
            id
        } else {
            self.entries.push(entry);
            UnitId(self.entries.len() as u32 - 1)
        };
        self.enqueue(id);
        id
    }

    /// The unit has ended, or is no longer wanted. Its number may be given to another.
    pub fn end(&mut self, id: UnitId, now: Timestamp) {
        match self.entries[id.index()].state {
            State::Gone => return,
            State::Waiting => {
                self.dequeue(id);
                if self.forecast.as_ref().is_some_and(|forecast| forecast.holder == id) {
                    self.forget_reservation();
                }
            }
            State::Running => self.release(id, now),
        }
        self.entries[id.index()].state = State::Gone;
        self.unused.push(id);
    }

    /// Where it runs; empty when it does not.
    pub fn places(&self, id: UnitId) -> &Places {
        &self.entries[id.index()].places
    }

    /// When it is expected to end, while it runs.
    pub fn expected_end(&self, id: UnitId) -> Option<Timestamp> {
        self.entries[id.index()].end
    }

    pub fn waiting(&self) -> usize {
        self.lines.waiting
    }

    pub fn running(&self) -> usize {
        self.running_units.len()
    }

    /// Whether there is room for it now, whoever else waits.
    pub fn fits_now(&self, id: UnitId) -> bool {
        let entry = &self.entries[id.index()];
        let shape = &self.shapes[entry.unit.shape.index()];
        !self.hopeless(entry.unit.shape, entry.unit.tasks)
            && self.nodes.fits(&shape.need, entry.unit.tasks, Search::All)
    }

    /// Whether it would fit if nothing ran at all.
    pub fn fits_ever(&self, shape: ShapeId, tasks: u32) -> bool {
        let need = &self.shapes[shape.index()].need;
        let fit: u64 =
            self.nodes.iter().map(|(_, node)| u64::from(node.capacity_of(&node.total, need, tasks))).sum();
        fit >= u64::from(tasks)
    }

    /// What is free of GPUs (or of CPUs, in thousandths) on nodes where nothing that waits finds room for a
    /// task. All nodes and all classes are looked at: this is for reports, not for passes.
    pub fn stranded(&self, gpus: bool) -> u64 {
        let kind = if gpus { amounts::GPUS } else { amounts::CPUS };
        let mut waiting: Vec<ShapeId> =
            self.lines.active.iter().map(|class| self.lines.classes[*class as usize].shape).collect();
        waiting.sort_unstable();
        waiting.dedup();
        let takes = |node: &nodes::Node, shape: &ShapeId| {
            node.capacity_of(&node.free, &self.shapes[shape.index()].need, 1) > 0
        };
        let useless =
            |node: &nodes::Node| !waiting.is_empty() && !waiting.iter().any(|shape| takes(node, shape));
        self.nodes.iter().filter(|(_, node)| useless(node)).map(|(_, node)| node.free.fixed[kind]).sum()
    }

    /// The room that is kept, and for whom.
    pub fn hold(&self) -> Option<Hold> {
        let forecast = self.forecast.as_ref()?;
        Some(Hold { unit: forecast.holder, at: forecast.at, nodes: forecast.nodes() })
    }

    fn hopeless(&self, shape: ShapeId, tasks: u32) -> bool {
        let shape = &self.shapes[shape.index()];
        shape.failed_in == self.grown && tasks >= shape.failed
    }

    fn failed(&mut self, shape: ShapeId, tasks: u32) {
        let shape = &mut self.shapes[shape.index()];
        let known = if shape.failed_in == self.grown { shape.failed } else { u32::MAX };
        (shape.failed_in, shape.failed) = (self.grown, known.min(tasks));
    }

    fn key(&self, id: UnitId) -> Key {
        let entry = &self.entries[id.index()];
        let unit = &entry.unit;
        let standing = Standing {
            priority: unit.priority,
            level: entry.level,
            // Those that are pinned have claims of their own.
            pinned: false,
            estimate: unit.estimate,
            size: entry.size,
        };
        Key { rank: rank(self.policy.name, standing), submit: unit.submit, seq: unit.seq, unit: id }
    }

    fn is_muster(&self) -> bool {
        self.policy.name == PolicyName::Muster
    }

    /// The line that counts: policies that do not know queues have one for all.
    fn line_of(&self, entry: &Entry) -> QueueId {
        if self.is_muster() { entry.unit.queue } else { QueueId(0) }
    }

    fn enqueue(&mut self, id: UnitId) {
        let key = self.key(id);
        let entry = &self.entries[id.index()];
        self.lines.insert(key, self.line_of(entry), entry.class, length(entry));
        if self.is_muster() {
            self.clock_waiting(id);
        }
    }

    fn dequeue(&mut self, id: UnitId) {
        if self.is_muster() {
            self.unclock_waiting(id);
        }
        let key = self.key(id);
        let entry = &self.entries[id.index()];
        self.lines.remove(key, self.line_of(entry), entry.class, length(entry));
    }

    fn start(&mut self, id: UnitId, places: Places, now: Timestamp) {
        self.dequeue(id);
        let entry = &mut self.entries[id.index()];
        let need = &self.shapes[entry.unit.shape.index()].need;
        self.nodes.take_all(need, &places);
        entry.places = places;
        entry.state = State::Running;
        entry.past.waited = entry.past.waited + now.since(entry.since);
        entry.since = now;
        entry.end = entry.unit.estimate.map(|estimate| now + estimate);
        if let Some(end) = entry.end {
            self.ends.insert((end, id));
        }
        entry.position = self.running_units.len() as u32;
        self.running_units.push(id);
        if self.policy.name == PolicyName::Muster {
            self.queues.take(entry.unit.queue, need, entry.unit.tasks);
            self.clock_running(id);
        }
    }

    fn release(&mut self, id: UnitId, now: Timestamp) {
        if self.is_muster() {
            self.unclock_running(id);
        }
        let position = self.entries[id.index()].position as usize;
        self.running_units.swap_remove(position);
        if let Some(moved) = self.running_units.get(position) {
            self.entries[moved.index()].position = position as u32;
        }
        let entry = &mut self.entries[id.index()];
        let places = std::mem::take(&mut entry.places);
        let need = &self.shapes[entry.unit.shape.index()].need;
        self.nodes.give_back(need, &places);
        if self.policy.name == PolicyName::Muster {
            self.queues.give(entry.unit.queue, need, entry.unit.tasks);
        }
        entry.past.ran = entry.past.ran + now.since(entry.since);
        if let Some(end) = entry.end {
            self.ends.remove(&(end, id));
        }
        // The forecast let it end at its time; what is over earlier brings the start of the holder forward.
        if entry.end.is_none_or(|end| end > now) && self.kept.is_empty() {
            self.forecast = None;
        }
        self.capacity_grew();
    }
}

/// For the order of those that may pass: what is of unknown length comes last.
fn length(entry: &Entry) -> Span {
    entry.unit.estimate.unwrap_or(Span::from_micros(u64::MAX))
}
