//! Whether a worker has room for a job.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::container::is_reserved;
use muster_domain::{Dimension, Entrant, Grant, KeptRoom, Requirement, Resources, Shortfall, WorkerId};

use crate::devices::Devices;

/// A worker as a pass sees it. The pass counts what it places against `used`, `running` and `wants`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Its GPUs one by one; without them they are only counted.
    pub devices: Option<Devices>,
    /// A job has it for itself.
    pub exclusive: bool,
    /// Where it is.
    pub labels: BTreeMap<String, String>,
}

impl WorkerView {
    /// Whether the worker could take the job now, if it asked.
    pub fn has_room_for(&self, need: &Requirement) -> bool {
        let Some(total) = &self.total else { return self.carries(need) };
        let slot = self.slots.is_none_or(|slots| self.running < slots) && !self.exclusive;
        let alone = !need.exclusive || self.running == 0;
        slot && alone && self.carries(need) && self.has_amounts(&need.resources, &total.minus(&self.used))
    }

    /// Whether the amounts are there, with GPUs looked at one by one where they are known so.
    fn has_amounts(&self, need: &Resources, free: &Resources) -> bool {
        match (&self.devices, need.gpu_need()) {
            (Some(devices), Some(gpus)) => need.without_gpus().fits_in(free) && devices.fits(gpus),
            (Some(_), None) | (None, _) => need.fits_in(free),
        }
    }

    /// Whether it has the tags. One that never registered is taken at its word, but for what only a registration can give.
    pub fn carries(&self, need: &Requirement) -> bool {
        match self.total {
            Some(_) => need.tags.is_subset(&self.tags),
            None => !need.tags.iter().any(|tag| is_reserved(tag)),
        }
    }

    /// What the worker lacks now; empty when the job fits.
    pub fn shortfalls_now(&self, need: &Requirement) -> Vec<Shortfall> {
        let Some(total) = &self.total else { return Vec::new() };
        let mut missing = shortfalls(&need.resources, &total.minus(&self.used), self.devices.as_ref());
        if self.exclusive || self.slots.is_some_and(|slots| self.running >= slots) {
            missing.push(Shortfall { dimension: Dimension::Slots, needed: 1, available: 0 });
        }
        if need.exclusive && self.running > 0 {
            missing.push(Shortfall { dimension: Dimension::Alone, needed: 1, available: 0 });
        }
        missing
    }

    /// What the worker lacks even when it is empty; empty when it could ever run the job.
    pub fn shortfalls_ever(&self, need: &Requirement) -> Vec<Shortfall> {
        let Some(total) = &self.total else { return Vec::new() };
        let mut missing = shortfalls(&need.resources, total, self.emptied().as_ref());
        if self.slots == Some(0) {
            missing.push(Shortfall { dimension: Dimension::Slots, needed: 1, available: 0 });
        }
        missing
    }

    /// Whether the room that it keeps for others allows this one.
    pub fn admits(&self, entrant: &Entrant<'_>) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.admits(entrant))
    }

    /// Counts one that enters beside the room that is kept; whether less of that is left for others.
    pub fn enter(&mut self, entrant: &Entrant<'_>) -> bool {
        self.kept.as_mut().is_some_and(|kept| kept.enter(entrant))
    }

    /// Counts one that has started: the room that was kept for it is needed no more. Whether that changed what is
    /// kept.
    pub fn settle(&mut self, entrant: &Entrant<'_>) -> bool {
        let own = self.kept.take_if(|kept| kept.unit == entrant.unit).is_some();
        own || self.enter(entrant)
    }

    /// Gives back what one job held.
    pub(crate) fn leave(&mut self, held: &Resources, grant: Option<&Grant>) {
        self.used = self.used.minus(held);
        self.running = self.running.saturating_sub(1);
        // Who has a worker for itself is the only one there.
        self.exclusive &= self.running > 0;
        if let (Some(devices), Some(grant)) = (&mut self.devices, grant) {
            devices.release(grant);
        }
    }

    /// What is free, with GPUs as those see it that want whole ones or a part of one.
    pub(crate) fn free(&self) -> Resources {
        let free = self.total.as_ref().map(|total| total.minus(&self.used)).unwrap_or_default();
        match &self.devices {
            Some(devices) => {
                Resources { gpus: devices.idle_count(), vram_mb: devices.largest_room(), ..free }
            }
            None => free,
        }
    }

    /// Slots that are free; `None` when they are not counted.
    pub(crate) fn free_slots(&self) -> Option<u32> {
        if self.exclusive {
            return Some(0);
        }
        self.slots.map(|slots| slots.saturating_sub(self.running))
    }

    /// How many jobs of one need it would take if it were empty, if no more than `most` may.
    pub(crate) fn capacity_ever(&self, need: &Requirement, most: u32) -> u32 {
        let Some(total) = &self.total else { return most };
        let devices = self.emptied();
        Room { free: total, slots: self.slots, devices: devices.as_ref(), running: 0 }.capacity(need, most)
    }

    /// How many jobs of the entrant's need it takes beside the room that it keeps for others.
    pub(crate) fn capacity_beside(&self, entrant: &Entrant<'_>, need: &Requirement, most: u32) -> u32 {
        match self.kept.as_ref().filter(|kept| !kept.is_open_to(entrant)) {
            Some(kept) => Room { free: &kept.spare, slots: kept.spare_slots, devices: None, running: 0 }
                .capacity(need, most),
            None => most,
        }
    }

    /// Its devices as they are when no job holds any.
    pub(crate) fn emptied(&self) -> Option<Devices> {
        let mut devices = self.devices.clone()?;
        devices.reopen();
        Some(devices)
    }

    /// Counts a placed job, and says which GPUs it gets.
    pub fn take(&mut self, need: &Requirement) -> Option<Grant> {
        self.used.add(&need.resources);
        self.running += 1;
        self.wants = self.wants.saturating_sub(1);
        self.exclusive |= need.exclusive;
        self.devices.as_mut().zip(need.resources.gpu_need()).and_then(|(devices, need)| devices.assign(need))
    }
}

/// What is free of a worker, now or when it is empty.
pub(crate) struct Room<'a> {
    pub(crate) free: &'a Resources,
    pub(crate) slots: Option<u32>,
    pub(crate) devices: Option<&'a Devices>,
    pub(crate) running: u32,
}

impl Room<'_> {
    /// How many jobs of one need fit at once, if no more than `most` may.
    pub(crate) fn capacity(&self, need: &Requirement, most: u32) -> u32 {
        let mut most = self.slots.unwrap_or(u32::MAX).min(most);
        if need.exclusive {
            most = most.min(u32::from(self.running == 0));
        }
        let wanted = &need.resources;
        match (self.devices, wanted.gpu_need()) {
            (Some(devices), Some(gpus)) => {
                let most = most.min(u32::try_from(devices.capacity(gpus)).unwrap_or(u32::MAX));
                times(self.free, &wanted.without_gpus(), most)
            }
            (Some(_), None) | (None, _) => times(self.free, wanted, most),
        }
    }
}

fn times(free: &Resources, need: &Resources, most: u32) -> u32 {
    if most == 0 || !need.fits_in(free) {
        return 0;
    }
    let times = |need: u64, free: u64| free.checked_div(need).unwrap_or(u64::MAX);
    let fixed = times(need.cpu_millis, free.cpu_millis)
        .min(times(need.memory_mb, free.memory_mb))
        .min(times(need.vram_mb, free.vram_mb))
        .min(times(need.gpus, free.gpus));
    let named = need.counters.iter().map(|(name, need)| times(*need, free.counter(name))).min();
    u32::try_from(fixed.min(named.unwrap_or(u64::MAX))).unwrap_or(u32::MAX).min(most)
}

/// What is missing of the amounts, with GPUs looked at one by one where they are known so.
pub(crate) fn shortfalls(need: &Resources, free: &Resources, devices: Option<&Devices>) -> Vec<Shortfall> {
    match (devices, need.gpu_need()) {
        (Some(devices), Some(gpus)) => {
            let mut missing = need.without_gpus().shortfalls(free);
            missing.extend(devices.shortfalls(gpus));
            missing
        }
        (Some(_), None) | (None, _) => need.shortfalls(free),
    }
}
