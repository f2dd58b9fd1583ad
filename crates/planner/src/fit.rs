//! Whether a worker has room for a job.

use std::collections::BTreeSet;

use muster_domain::{Dimension, Entrant, KeptRoom, Requirement, Resources, Shortfall, WorkerId};

/// A worker as a pass sees it. The pass counts what it places against `used`, `running` and `wants`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerView {
    pub id: Option<WorkerId>,
    /// What it registered; `None` for a claimer that never registered, which is taken at its word.
    pub total: Option<Resources>,
    /// Held by reserved, running and stopping jobs.
    pub used: Resources,
    pub running: u32,
    /// Jobs at once, with what it may queue locally; `None` is unlimited.
    pub slots: Option<u32>,
    pub tags: BTreeSet<String>,
    /// How many jobs it asks for now.
    pub wants: u32,
    /// Room for work that goes first and does not fit yet.
    pub kept: Option<KeptRoom>,
}

impl WorkerView {
    /// Whether the worker could take the job now, if it asked.
    pub fn has_room_for(&self, need: &Requirement) -> bool {
        let Some(total) = &self.total else { return true };
        let slot = self.slots.is_none_or(|slots| self.running < slots);
        slot && self.carries(need) && need.resources.fits_in(&total.minus(&self.used))
    }

    pub fn carries(&self, need: &Requirement) -> bool {
        self.total.is_none() || need.tags.is_subset(&self.tags)
    }

    /// What the worker lacks now; empty when the job fits.
    pub fn shortfalls_now(&self, need: &Requirement) -> Vec<Shortfall> {
        let Some(total) = &self.total else { return Vec::new() };
        let mut missing = need.resources.shortfalls(&total.minus(&self.used));
        if self.slots.is_some_and(|slots| self.running >= slots) {
            missing.push(Shortfall { dimension: Dimension::Slots, needed: 1, available: 0 });
        }
        missing
    }

    /// What the worker lacks even when it is empty; empty when it could ever run the job.
    pub fn shortfalls_ever(&self, need: &Requirement) -> Vec<Shortfall> {
        let Some(total) = &self.total else { return Vec::new() };
        need.resources.shortfalls(total)
    }

    /// Whether the room that it keeps for others allows this one.
    pub fn admits(&self, entrant: &Entrant<'_>) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.admits(entrant))
    }

    /// Counts one that enters beside the room that is kept; whether less of that is left for others.
    pub fn enter(&mut self, entrant: &Entrant<'_>) -> bool {
        self.kept.as_mut().is_some_and(|kept| kept.enter(entrant))
    }

    /// Gives back what one job held.
    pub(crate) fn leave(&mut self, held: &Resources) {
        self.used = self.used.minus(held);
        self.running = self.running.saturating_sub(1);
    }

    /// Counts a placed job.
    pub fn take(&mut self, need: &Requirement) {
        self.used.add(&need.resources);
        self.running += 1;
        self.wants = self.wants.saturating_sub(1);
    }
}
