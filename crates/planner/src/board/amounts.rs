//! Amounts in a form that is quick to compare: kinds by position, names replaced by numbers.
//!
//! Guarantees: a need fits exactly when [`muster_domain::Resources::fits_in`] says so of what they were
//! made from, and tags and slots allow it.

use std::collections::HashMap;

use muster_domain::{Requirement, Resources, Span};

use crate::policy::Service;

/// GPUs, CPUs, memory, VRAM, in this order: nodes are sorted by the first two.
pub(crate) const KINDS: usize = 4;
pub(crate) const GPUS: usize = 0;
pub(crate) const CPUS: usize = 1;

fn fixed(resources: &Resources) -> [u64; KINDS] {
    [resources.gpus, resources.cpu_millis, resources.memory_mb, resources.vram_mb]
}

/// Numbers for names, given out as they come up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names(HashMap<String, u32>);

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len() as u32;
        self.0.insert(name.to_owned(), number);
        number
    }

    pub(crate) fn need(&mut self, requirement: &Requirement) -> Need {
        let counters = requirement.resources.counters.iter().filter(|(_, amount)| **amount > 0);
        let counters = counters.map(|(name, amount)| (self.number(name), *amount)).collect();
        let tags = requirement.tags.iter().map(|tag| self.number(tag)).collect();
        Need { fixed: fixed(&requirement.resources), counters, tags }
    }

    pub(crate) fn room(&mut self, total: &Resources) -> Room {
        let mut counters = Vec::new();
        for (name, amount) in &total.counters {
            let number = self.number(name) as usize;
            if counters.len() <= number {
                counters.resize(number + 1, 0);
            }
            counters[number] = *amount;
        }
        Room { fixed: fixed(total), counters }
    }

    pub(crate) fn tags<'a>(&mut self, tags: impl Iterator<Item = &'a String>) -> Vec<u32> {
        tags.map(|tag| self.number(tag)).collect()
    }
}

/// What one task takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) fixed: [u64; KINDS],
    counters: Vec<(u32, u64)>,
    pub(crate) tags: Vec<u32>,
}

impl Need {
    /// What is scarce for it, per task: GPUs, or thousandths of a core when it needs none.
    pub(crate) fn scarce(&self) -> u64 {
        if self.fixed[GPUS] > 0 { self.fixed[GPUS] } else { self.fixed[CPUS] }
    }

    /// What so many tasks take that have run for so long.
    pub(crate) fn service(&self, tasks: u32, ran: Span) -> Service {
        Service::of(self.fixed[GPUS], self.fixed[CPUS], tasks, ran)
    }
}

/// What is free of a node, or all that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) fixed: [u64; KINDS],
    counters: Vec<u64>,
}

impl Room {
    fn counter(&self, number: u32) -> u64 {
        self.counters.get(number as usize).copied().unwrap_or(0)
    }

    /// How many tasks fit, at most `most`.
    pub(crate) fn capacity(&self, need: &Need, most: u32) -> u32 {
        let mut times = u64::from(most);
        for (need, free) in need.fixed.iter().zip(&self.fixed) {
            // Most needs are for one or two kinds, and a division is slow.
            if *need > 0 && need.saturating_mul(times) > *free {
                times = free / need;
            }
        }
        for (number, need) in &need.counters {
            times = times.min(self.counter(*number) / need);
        }
        times as u32
    }

    pub(crate) fn fits(&self, need: &Need, tasks: u32) -> bool {
        let times = u64::from(tasks);
        need.fixed.iter().zip(&self.fixed).all(|(need, free)| need.saturating_mul(times) <= *free)
            && need.counters.iter().all(|(number, need)| need.saturating_mul(times) <= self.counter(*number))
    }

    pub(crate) fn take(&mut self, need: &Need, tasks: u32) {
        let times = u64::from(tasks);
        for (need, free) in need.fixed.iter().zip(&mut self.fixed) {
            *free = free.saturating_sub(need.saturating_mul(times));
        }
        for (number, need) in &need.counters {
            if let Some(free) = self.counters.get_mut(*number as usize) {
                *free = free.saturating_sub(need.saturating_mul(times));
            }
        }
    }

    pub(crate) fn give(&mut self, need: &Need, tasks: u32) {
        let times = u64::from(tasks);
        for (need, free) in need.fixed.iter().zip(&mut self.fixed) {
            *free = free.saturating_add(need.saturating_mul(times));
        }
        for (number, need) in &need.counters {
            if let Some(free) = self.counters.get_mut(*number as usize) {
                *free = free.saturating_add(need.saturating_mul(times));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_resources() -> impl Strategy<Value = Resources> {
        (0_u64..5, 0_u64..9, 0_u64..4, 0_u64..3, prop::option::of(0_u64..3)).prop_map(
            |(cpu_millis, memory_mb, vram_mb, gpus, licences)| Resources {
                cpu_millis,
                memory_mb,
                vram_mb,
                gpus,
                counters: licences.map(|n| ("licence".to_owned(), n)).into_iter().collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn fits_as_the_domain_says_and_comes_back_whole(need in any_resources(), total in any_resources()) {
            let mut names = Names::default();
            let before = names.room(&total);
            let need = (names.need(&Requirement { resources: need.clone(), ..Requirement::default() }), need);
            prop_assert_eq!(before.fits(&need.0, 1), need.1.fits_in(&total));
            let most = before.capacity(&need.0, 100);
            prop_assert!(before.fits(&need.0, most));
            prop_assert!(most == 100 || !before.fits(&need.0, most + 1));
            let mut room = before.clone();
            room.take(&need.0, most);
            prop_assert!(most == 100 || room.capacity(&need.0, 1) == 0);
            room.give(&need.0, most);
            prop_assert_eq!(room, before);
        }
    }
}
