//! Nodes, sorted by what is free of them, and the search for the tightest places.
//!
//! Guarantees: no node gives more than it has; a gang is placed whole or nothing changes; equal nodes are
//! taken in the order in which they were added.

use std::collections::BTreeSet;
use std::ops::Bound;

use super::amounts::{CPUS, GPUS, Need, Room};
use super::ids::NodeId;

/// Where a unit runs: nodes with the number of its tasks on each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    /// Most units run on one node, and need no list.
    One((NodeId, u32)),
    Many(Vec<(NodeId, u32)>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl std::ops::Deref for Places {
    type Target = [(NodeId, u32)];

    fn deref(&self) -> &Self::Target {
        match self {
            Self::One(place) => std::slice::from_ref(place),
            Self::Many(places) => places,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) total: Room,
    pub(crate) free: Room,
    /// Tasks that it may still take; `u32::MAX` when nothing bounds them.
    pub(crate) slots: u32,
    tags: Vec<u32>,
    up: bool,
    /// Kept for another: nothing that asks to leave such nodes alone is placed here.
    pub(crate) kept: bool,
}

impl Node {
    pub(crate) fn carries(&self, need: &Need) -> bool {
        need.tags.is_empty() || need.tags.iter().all(|tag| self.tags.contains(tag))
    }

    /// How many tasks fit into `free`, which is what is free now or at another time.
    pub(crate) fn capacity_of(&self, free: &Room, need: &Need, most: u32) -> u32 {
        if !self.up || !self.carries(need) { 0 } else { free.capacity(need, most) }
    }
}

/// What a search for places may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    All,
    /// Not the nodes that are kept for another.
    LeaveKept,
}

/// Free GPUs, free CPUs, node.
type Sorted = (u64, u64, u32);

#[derive(Debug, Clone, Default)]
pub(crate) struct Nodes {
    all: Vec<Node>,
    /// Those that are up and take tasks.
    sorted: BTreeSet<Sorted>,
    /// All that is there, of those that are up.
    pub(crate) total: Room,
}

impl Nodes {
    pub(crate) fn add(&mut self, total: Room, slots: Option<u32>, tags: Vec<u32>) -> NodeId {
        let id = NodeId(self.all.len() as u32);
        let node = Node {
            free: total.clone(),
            total,
            slots: slots.unwrap_or(u32::MAX),
            tags,
            up: false,
            kept: false,
        };
        self.all.push(node);
        self.set_up(id, true);
        id
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        &self.all[id.index()]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.all.iter().enumerate().map(|(index, node)| (NodeId(index as u32), node))
    }

    pub(crate) fn keep(&mut self, id: NodeId, kept: bool) {
        self.all[id.index()].kept = kept;
    }

    /// Whether it takes new tasks. Those that run on it stay counted until they are given back.
    pub(crate) fn set_up(&mut self, id: NodeId, up: bool) {
        let node = &mut self.all[id.index()];
        if node.up == up {
            return;
        }
        node.up = up;
        let key = sorted(id, node);
        for (sum, each) in self.total.fixed.iter_mut().zip(node.total.fixed) {
            *sum = if up { sum.saturating_add(each) } else { sum.saturating_sub(each) };
        }
        if up && node.slots > 0 {
            self.sorted.insert(key);
        } else {
            self.sorted.remove(&key);
        }
    }

    /// The most tasks of this need that any node takes when it is empty.
    pub(crate) fn most_on_one(&self, need: &Need) -> u32 {
        let mut seen: Option<(&Room, &[u32])> = None;
        let mut most = 0;
        for node in &self.all {
            // Nodes come in groups that are alike.
            if seen != Some((&node.total, &node.tags)) {
                seen = Some((&node.total, &node.tags));
                most = most.max(if node.carries(need) { node.total.capacity(need, u32::MAX) } else { 0 });
            }
        }
        most
    }

    /// The node with the least free GPUs, then CPUs, that takes so many tasks.
    fn tightest(&self, need: &Need, tasks: u32, search: Search) -> Option<NodeId> {
        let gpus = need.fixed[GPUS].saturating_mul(u64::from(tasks));
        let cpus = need.fixed[CPUS].saturating_mul(u64::from(tasks));
        let mut from: Sorted = (gpus, cpus, 0);
        loop {
            let mut skipped = None;
            for key in self.sorted.range((Bound::Included(from), Bound::Unbounded)) {
                if key.1 < cpus {
                    // The rest of those with so many free GPUs and too few CPUs is passed over at once.
                    skipped = Some((key.0, cpus, 0));
                    break;
                }
                let node = &self.all[key.2 as usize];
                let open = search == Search::All || !node.kept;
                if open && node.slots >= tasks && node.carries(need) && node.free.fits(need, tasks) {
                    return Some(NodeId(key.2));
                }
            }
            from = skipped?;
        }
    }

    /// Whether so many tasks fit now, taken together.
    pub(crate) fn fits(&self, need: &Need, tasks: u32, search: Search) -> bool {
        if tasks == 1 {
            return self.tightest(need, 1, search).is_some();
        }
        let mut missing = tasks;
        let from: Sorted = (need.fixed[GPUS], 0, 0);
        // From the roomiest, since those take the most.
        for key in self.sorted.range((Bound::Included(from), Bound::Unbounded)).rev() {
            let node = &self.all[key.2 as usize];
            if search == Search::LeaveKept && node.kept || !node.carries(need) {
                continue;
            }
            missing -= node.free.capacity(need, missing.min(node.slots));
            if missing == 0 {
                return true;
            }
        }
        missing == 0
    }

    /// The tightest places for all tasks; nothing is taken. `most` is what [`Nodes::most_on_one`] said.
    pub(crate) fn find(&self, need: &Need, tasks: u32, most: u32, search: Search) -> Option<Places> {
        if let Some(node) = self.tightest(need, tasks, search) {
            return Some(Places::One((node, tasks)));
        }
        if tasks == 1 || !self.fits(need, tasks, search) {
            return None;
        }
        // As many as possible on one node, and the tightest nodes that take as many.
        let mut places: Vec<(NodeId, u32)> = Vec::new();
        let (mut missing, mut at_once) = (tasks, most.min(tasks));
        while missing > 0 && at_once > 0 {
            at_once = at_once.min(missing);
            let before = missing;
            self.each_with_room(need, at_once, search, |id, node| {
                // A node that has got its tasks in an earlier round has no room for as many again.
                let used = places.iter().any(|(used, _)| *used == id);
                if !used && node.slots >= at_once && node.free.fits(need, at_once) {
                    places.push((id, at_once));
                    missing -= at_once;
                }
                missing >= at_once
            });
            if missing == before || missing >= at_once {
                at_once -= 1;
            }
        }
        (missing == 0).then_some(Places::Many(places))
    }

    /// Visits nodes that may have room, the tightest first, as long as `go_on` says so.
    fn each_with_room(
        &self,
        need: &Need,
        tasks: u32,
        search: Search,
        mut go_on: impl FnMut(NodeId, &Node) -> bool,
    ) {
        let from: Sorted = (need.fixed[GPUS].saturating_mul(u64::from(tasks)), 0, 0);
        for key in self.sorted.range((Bound::Included(from), Bound::Unbounded)) {
            let node = &self.all[key.2 as usize];
            let open = search == Search::All || !node.kept;
            if open && node.carries(need) && !go_on(NodeId(key.2), node) {
                return;
            }
        }
    }

    pub(crate) fn give_back(&mut self, need: &Need, places: &Places) {
        for (node, tasks) in places.iter() {
            self.change(*node, |node| {
                node.free.give(need, *tasks);
                if node.slots != u32::MAX {
                    node.slots += *tasks;
                }
            });
        }
    }

    /// Takes exactly these places, which a caller has looked up or remembered.
    pub(crate) fn take_all(&mut self, need: &Need, places: &Places) {
        for (node, tasks) in places.iter() {
            self.take(*node, need, *tasks);
        }
    }

    fn take(&mut self, id: NodeId, need: &Need, tasks: u32) {
        self.change(id, |node| {
            node.free.take(need, tasks);
            if node.slots != u32::MAX {
                node.slots = node.slots.saturating_sub(tasks);
            }
        });
    }

    fn change(&mut self, id: NodeId, how: impl FnOnce(&mut Node)) {
        let node = &mut self.all[id.index()];
        let before = sorted(id, node);
        let was_in = node.up && node.slots > 0;
        how(node);
        let (after, is_in) = (sorted(id, node), node.up && node.slots > 0);
        if was_in && (!is_in || before != after) {
            self.sorted.remove(&before);
        }
        if is_in && (!was_in || before != after) {
            self.sorted.insert(after);
        }
    }
}

fn sorted(id: NodeId, node: &Node) -> Sorted {
    (node.free.fixed[GPUS], node.free.fixed[CPUS], id.0)
}
