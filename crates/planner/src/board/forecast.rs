//! The reservation: when the first unit that does not fit will start, and whether another one delays it.
//!
//! Guarantees: what [`Forecast::permits`] lets start leaves room for the holder at its time, as long as
//! nothing runs longer than was said.

use std::collections::BTreeSet;

use muster_domain::Timestamp;

use super::amounts::{Need, Room};
use super::ids::{NodeId, UnitId};
use super::nodes::{Nodes, Places};

/// A node as it will be when the holder starts.
#[derive(Debug, Clone)]
struct Then {
    free: Room,
    /// Tasks of the holder that fit then.
    tasks: u32,
}

/// What keeps room for one unit.
#[derive(Debug, Clone)]
pub(crate) struct Forecast {
    pub(crate) holder: UnitId,
    /// When it will start; `None` while nobody knows when enough will end.
    pub(crate) at: Option<Timestamp>,
    need: Need,
    tasks: u32,
    nodes: Vec<Then>,
    /// Tasks of the holder that fit, over all nodes.
    fit: u64,
}

/// Whom room is sought for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder<'a> {
    pub(crate) unit: UnitId,
    pub(crate) need: &'a Need,
    pub(crate) tasks: u32,
}

impl Forecast {
    /// The state of now, before anything has ended.
    pub(crate) fn of_now(holder: Holder<'_>, nodes: &Nodes) -> Self {
        let mut fit = 0;
        let then = |(_, node): (NodeId, &super::nodes::Node)| {
            let tasks = node.capacity_of(&node.free, holder.need, holder.tasks);
            fit += u64::from(tasks);
            Then { free: node.free.clone(), tasks }
        };
        let list = nodes.iter().map(then).collect();
        let (need, tasks) = (holder.need.clone(), holder.tasks);
        Self { holder: holder.unit, at: None, need, tasks, nodes: list, fit }
    }

    /// Lets what runs end at its time, until the holder fits.
    pub(crate) fn new<'a>(
        holder: Holder<'_>,
        nodes: &Nodes,
        ends: &BTreeSet<(Timestamp, UnitId)>,
        now: Timestamp,
        held: impl Fn(UnitId) -> (&'a Need, &'a Places),
    ) -> Self {
        let mut forecast = Self::of_now(holder, nodes);
        for (end, unit) in ends {
            // All that ends at the same moment is gone by then.
            if forecast.at.is_some_and(|at| *end > at) {
                break;
            }
            let (need, places) = held(*unit);
            forecast.release(nodes, need, places);
            if forecast.at.is_none() && forecast.fit >= u64::from(forecast.tasks) {
                forecast.at = Some((*end).max(now));
            }
        }
        forecast
    }

    pub(crate) fn release(&mut self, nodes: &Nodes, need: &Need, places: &Places) {
        for (node, tasks) in places.iter() {
            let then = &mut self.nodes[node.index()];
            then.free.give(need, *tasks);
            let fits = nodes.get(*node).capacity_of(&then.free, &self.need, self.tasks);
            self.fit += u64::from(fits) - u64::from(then.tasks);
            then.tasks = fits;
        }
    }

    /// Keeps room for the holder on these nodes alone, as if nothing else ran there.
    pub(crate) fn draining(holder: Holder<'_>, nodes: &Nodes, chosen: &[NodeId]) -> Self {
        let mut forecast = Self::of_now(holder, nodes);
        forecast.fit = 0;
        for then in &mut forecast.nodes {
            then.tasks = 0;
        }
        for id in chosen {
            let node = nodes.get(*id);
            let then = &mut forecast.nodes[id.index()];
            then.free = node.total.clone();
            then.tasks = node.capacity_of(&then.free, holder.need, holder.tasks);
            forecast.fit += u64::from(then.tasks);
        }
        forecast
    }

    /// Whether the holder still fits at its time when these places are taken until after it.
    pub(crate) fn permits(&self, need: &Need, places: &Places) -> bool {
        let left: u64 = places.iter().map(|(node, tasks)| self.lost(*node, need, *tasks)).sum();
        self.fit >= left + u64::from(self.tasks)
    }

    fn lost(&self, node: NodeId, need: &Need, tasks: u32) -> u64 {
        let then = &self.nodes[node.index()];
        if then.tasks == 0 {
            return 0;
        }
        let mut free = then.free.clone();
        free.take(need, tasks);
        u64::from(then.tasks - free.capacity(&self.need, then.tasks))
    }

    /// Whether the holder can still start at its time.
    pub(crate) fn holds(&self) -> bool {
        self.fit >= u64::from(self.tasks)
    }

    /// Counts a unit that holds its places beyond the time of the holder.
    pub(crate) fn outlived_by(&mut self, need: &Need, places: &Places) {
        for (node, tasks) in places.iter() {
            let lost = self.lost(*node, need, *tasks);
            self.fit -= lost;
            let then = &mut self.nodes[node.index()];
            then.free.take(need, *tasks);
            then.tasks -= lost as u32;
        }
    }

    /// The nodes that it counts on, the tightest last.
    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        let mut missing = self.tasks;
        let mut chosen = Vec::new();
        for (index, then) in self.nodes.iter().enumerate().filter(|(_, then)| then.tasks > 0) {
            if missing == 0 {
                break;
            }
            chosen.push(NodeId(index as u32));
            missing -= then.tasks.min(missing);
        }
        chosen
    }
}
