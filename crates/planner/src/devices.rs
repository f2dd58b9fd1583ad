//! The GPUs of one worker during a pass: which are idle, which are taken, which are shared.
//!
//! Guarantees: a device is given whole to one job or in shares that it has room for, never both; devices of
//! which it is not known who holds them are given to nobody; equal input gives equal devices.

use muster_domain::{Device, Dimension, GpuNeed, Grant, Shortfall};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    index: u32,
    vram_mb: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Taken,
    Shared { free_mb: u64 },
}

impl Slot {
    /// The place of a share on this device among all devices: those in use before idle ones, the fullest first.
    const fn share_key(&self, vram_mb: u64) -> Option<(bool, u64, u32)> {
        match self.state {
            State::Shared { free_mb } if free_mb >= vram_mb => Some((false, free_mb, self.index)),
            State::Idle if self.vram_mb >= vram_mb => Some((true, self.vram_mb, self.index)),
            State::Idle | State::Shared { .. } | State::Taken => None,
        }
    }

    /// Memory that a share could have.
    const fn room(&self) -> u64 {
        match self.state {
            State::Idle => self.vram_mb,
            State::Shared { free_mb } => free_mb,
            State::Taken => 0,
        }
    }

    fn is_idle_with(&self, vram_mb: u64) -> bool {
        self.state == State::Idle && self.vram_mb >= vram_mb
    }
}

/// The devices of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Devices {
    slots: Vec<Slot>,
    /// Somebody holds some of them, and it is not known which.
    closed: bool,
}

impl Devices {
    /// All of them idle.
    pub fn idle(devices: &[Device]) -> Self {
        let slot =
            |device: &Device| Slot { index: device.index, vram_mb: device.vram_mb, state: State::Idle };
        Self { slots: devices.iter().map(slot).collect(), closed: false }
    }

    /// Held in part by jobs that were not read yet.
    pub fn unread(devices: &[Device]) -> Self {
        Self { closed: true, ..Self::idle(devices) }
    }

    pub const fn is_unread(&self) -> bool {
        self.closed
    }

    /// All of them idle, until it is said who holds what.
    pub fn reopen(&mut self) {
        self.closed = false;
        for slot in &mut self.slots {
            slot.state = State::Idle;
        }
    }

    /// Counts what a job holds; `None` for one that uses GPUs without having been told which.
    pub fn hold(&mut self, grant: Option<&Grant>) {
        match grant {
            None => self.closed = true,
            Some(Grant::Whole(indices)) => {
                for slot in self.slots.iter_mut().filter(|slot| indices.contains(&slot.index)) {
                    slot.state = State::Taken;
                }
            }
            Some(Grant::Share { index, vram_mb }) => {
                for slot in self.slots.iter_mut().filter(|slot| slot.index == *index) {
                    slot.state = match slot.state {
                        State::Idle => State::Shared { free_mb: slot.vram_mb.saturating_sub(*vram_mb) },
                        State::Shared { free_mb } => {
                            State::Shared { free_mb: free_mb.saturating_sub(*vram_mb) }
                        }
                        State::Taken => State::Taken,
                    };
                }
            }
        }
    }

    /// Gives back what a job held.
    pub(crate) fn release(&mut self, grant: &Grant) {
        for slot in self.slots.iter_mut().filter(|slot| grant.indices().contains(&slot.index)) {
            slot.state = match (slot.state, grant.share_mb()) {
                (State::Shared { free_mb }, Some(share)) if free_mb + share < slot.vram_mb => {
                    State::Shared { free_mb: free_mb + share }
                }
                _ => State::Idle,
            };
        }
    }

    /// The most memory that a share could have.
    pub(crate) fn largest_room(&self) -> u64 {
        if self.closed { 0 } else { self.slots.iter().map(Slot::room).max().unwrap_or(0) }
    }

    pub fn fits(&self, need: GpuNeed) -> bool {
        if self.closed {
            return false;
        }
        match need {
            GpuNeed::Whole { count, vram_mb } => self.idle_with(vram_mb) >= count,
            GpuNeed::Share { vram_mb } => self.slots.iter().any(|slot| slot.share_key(vram_mb).is_some()),
        }
    }

    /// How many jobs of this need fit at once.
    pub fn capacity(&self, need: GpuNeed) -> u64 {
        if self.closed {
            return 0;
        }
        match need {
            GpuNeed::Whole { count, vram_mb } => {
                self.idle_with(vram_mb).checked_div(count).unwrap_or(u64::MAX)
            }
            GpuNeed::Share { vram_mb } => {
                self.slots.iter().map(|slot| slot.room().checked_div(vram_mb).unwrap_or(u64::MAX)).sum()
            }
        }
    }

    /// Gives out devices: the smallest idle ones that do, or the fullest one that still has room for a share.
    pub fn assign(&mut self, need: GpuNeed) -> Option<Grant> {
        if !self.fits(need) {
            return None;
        }
        let grant = match need {
            GpuNeed::Whole { count, vram_mb } => {
                let mut idle: Vec<(u64, u32)> = self
                    .slots
                    .iter()
                    .filter(|slot| slot.is_idle_with(vram_mb))
                    .map(|slot| (slot.vram_mb, slot.index))
                    .collect();
                idle.sort_unstable();
                let mut indices: Vec<u32> =
                    idle.into_iter().take(count as usize).map(|(_, index)| index).collect();
                indices.sort_unstable();
                Grant::Whole(indices)
            }
            GpuNeed::Share { vram_mb } => {
                let (_, _, index) = self.slots.iter().filter_map(|slot| slot.share_key(vram_mb)).min()?;
                Grant::Share { index, vram_mb }
            }
        };
        self.hold(Some(&grant));
        Some(grant)
    }

    /// What a share would cost here, the smaller the better: whether an idle device would be opened, and the
    /// room on the device that it would go to.
    pub(crate) fn share_cost(&self, vram_mb: u64) -> (bool, u64) {
        let best = self.slots.iter().filter_map(|slot| slot.share_key(vram_mb)).min();
        best.map_or((true, u64::MAX), |(opens, room, _)| (opens, room))
    }

    /// What is missing; empty when it fits.
    pub fn shortfalls(&self, need: GpuNeed) -> Vec<Shortfall> {
        if self.fits(need) {
            return Vec::new();
        }
        let missing = |dimension, needed, available| vec![Shortfall { dimension, needed, available }];
        match need {
            GpuNeed::Whole { count, vram_mb } => {
                let idle = if self.closed { 0 } else { self.idle_with(0) };
                if idle < count {
                    return missing(Dimension::Gpus, count, idle);
                }
                // There are enough, but too small: the best that so many of them have.
                let mut sizes: Vec<u64> =
                    self.slots.iter().filter(|slot| slot.is_idle_with(0)).map(|slot| slot.vram_mb).collect();
                sizes.sort_unstable_by(|a, b| b.cmp(a));
                let least = sizes.get(count as usize - 1).copied().unwrap_or(0);
                missing(Dimension::VramMb, vram_mb, least)
            }
            GpuNeed::Share { vram_mb } => missing(Dimension::VramMb, vram_mb, self.largest_room()),
        }
    }

    /// The memory that shares could have on all of them together.
    pub(crate) fn free_vram(&self) -> u64 {
        self.slots.iter().map(Slot::room).fold(0, u64::saturating_add)
    }

    /// How many nobody holds a part of.
    pub(crate) fn idle_count(&self) -> u64 {
        self.idle_with(0)
    }

    fn idle_with(&self, vram_mb: u64) -> u64 {
        self.slots.iter().filter(|slot| slot.is_idle_with(vram_mb)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn devices(sizes: &[u64]) -> Vec<Device> {
        let device = |(index, vram_mb): (usize, &u64)| Device {
            index: index as u32,
            vram_mb: *vram_mb,
            ..Device::default()
        };
        sizes.iter().enumerate().map(device).collect()
    }

    fn share(vram_mb: u64) -> GpuNeed {
        GpuNeed::Share { vram_mb }
    }

    fn whole(count: u64, vram_mb: u64) -> GpuNeed {
        GpuNeed::Whole { count, vram_mb }
    }

    #[test]
    fn shares_fill_the_fullest_device_before_they_open_another() {
        let mut devices = Devices::idle(&devices(&[80, 40, 80]));
        let given = |grant: Option<Grant>| grant.map(|grant| grant.indices()[0]);
        assert_eq!(given(devices.assign(share(30))), Some(1), "the smallest idle device");
        assert_eq!(given(devices.assign(share(20))), Some(0), "does not fit beside the first");
        assert_eq!(given(devices.assign(share(10))), Some(1), "10 are left there, 60 on the other");
        assert_eq!(given(devices.assign(share(60))), Some(0));
        assert_eq!(devices.assign(whole(2, 0)), None, "shared devices are not given whole");
        assert_eq!(devices.assign(whole(1, 0)), Some(Grant::Whole(vec![2])));
        assert_eq!(devices.assign(share(1)), None);
    }

    #[test]
    fn whole_devices_are_the_smallest_that_do() {
        let mut devices = Devices::idle(&devices(&[80, 40, 80, 40]));
        assert_eq!(devices.assign(whole(1, 0)), Some(Grant::Whole(vec![1])));
        assert_eq!(devices.assign(whole(2, 50)), Some(Grant::Whole(vec![0, 2])));
        let missing = devices.shortfalls(whole(1, 50));
        assert_eq!(missing, [Shortfall { dimension: Dimension::VramMb, needed: 50, available: 40 }]);
        let missing = devices.shortfalls(whole(2, 50));
        assert_eq!(missing, [Shortfall { dimension: Dimension::Gpus, needed: 2, available: 1 }]);
    }

    #[test]
    fn nothing_is_given_while_a_holder_is_unknown() {
        let mut devices = Devices::idle(&devices(&[80, 80]));
        devices.hold(None);
        assert!(devices.assign(share(1)).is_none() && devices.assign(whole(1, 0)).is_none());
        assert_eq!(devices.shortfalls(whole(1, 0))[0].available, 0);
        devices.reopen();
        assert!(devices.fits(whole(2, 80)));
    }

    fn a_need() -> impl Strategy<Value = GpuNeed> {
        prop_oneof![
            (1_u64..4, prop_oneof![Just(0_u64), 1_u64..100])
                .prop_map(|(count, vram_mb)| whole(count, vram_mb)),
            (1_u64..100).prop_map(share),
        ]
    }

    /// Whether the need could be met, by trying every device for a share and counting for whole ones.
    fn possible(sizes: &[u64], held: &BTreeMap<u32, Vec<Option<u64>>>, need: GpuNeed) -> bool {
        let at = |index: usize| held.get(&(index as u32)).map(Vec::as_slice).unwrap_or_default();
        match need {
            GpuNeed::Whole { count, vram_mb } => {
                (0..sizes.len()).filter(|i| at(*i).is_empty() && sizes[*i] >= vram_mb).count() as u64 >= count
            }
            GpuNeed::Share { vram_mb } => (0..sizes.len()).any(|i| {
                at(i).iter().all(Option::is_some) && at(i).iter().flatten().sum::<u64>() + vram_mb <= sizes[i]
            }),
        }
    }

    proptest! {
        #[test]
        fn devices_are_given_when_and_only_when_there_are_some(
            sizes in prop::collection::vec(1_u64..100, 0..6),
            needs in prop::collection::vec((a_need(), any::<bool>()), 0..24),
        ) {
            let known = devices(&sizes);
            let mut view = Devices::idle(&known);
            let mut grants: Vec<Grant> = Vec::new();
            for (need, ends) in needs {
                let mut held: BTreeMap<u32, Vec<Option<u64>>> = BTreeMap::new();
                for grant in &grants {
                    for index in grant.indices() {
                        held.entry(*index).or_default().push(grant.share_mb());
                    }
                }
                let can = possible(&sizes, &held, need);
                prop_assert_eq!(view.fits(need), can);
                prop_assert_eq!(view.capacity(need) > 0, can);
                prop_assert_eq!(view.shortfalls(need).is_empty(), can);
                let mut trial = view.clone();
                let times = std::iter::from_fn(|| trial.assign(need)).count() as u64;
                prop_assert_eq!(view.capacity(need), times, "as many as said");
                match view.assign(need) {
                    None => prop_assert!(!can),
                    Some(grant) => {
                        prop_assert!(grant.answers(Some(need)));
                        for index in grant.indices() {
                            let others = held.remove(index).unwrap_or_default();
                            let size = sizes[*index as usize];
                            match grant.share_mb() {
                                None => prop_assert!(others.is_empty()),
                                Some(mb) => prop_assert!(others.iter().all(Option::is_some)
                                    && others.iter().flatten().sum::<u64>() + mb <= size),
                            }
                        }
                        grants.push(grant);
                    }
                }
                if ends && !grants.is_empty() {
                    view.release(&grants.remove(0));
                    let mut anew = Devices::idle(&known);
                    for grant in &grants {
                        anew.hold(Some(grant));
                    }
                    prop_assert_eq!(&view, &anew, "who leaves gives back what it had");
                }
            }
        }
    }
}
