//! Which CPUs an attempt gets for itself: pure, from what the machine is like and what is free.
//!
//! Guarantees: only free CPUs are given, as many as were asked for or none; what fits in one memory node is not spread over
//! two; threads of one core go together as far as they can, so that two attempts rarely share a core.

use std::collections::{BTreeMap, BTreeSet};

/// One CPU of the machine, which may be a thread of a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cpu {
    /// The memory node that it is near to.
    pub(super) node: u32,
    /// The core that it is a thread of: the smallest number of its threads.
    pub(super) core: u32,
    pub(super) number: u32,
}

/// Chooses `count` of the free CPUs; `None` when there are not so many.
pub(super) fn choose(free: &[Cpu], count: usize) -> Option<Vec<u32>> {
    if count == 0 || free.len() < count {
        return None;
    }
    let mut nodes: BTreeMap<u32, Vec<Cpu>> = BTreeMap::new();
    for cpu in free {
        nodes.entry(cpu.node).or_default().push(*cpu);
    }
    // The fullest node that has room for all; else the emptiest ones, so that few nodes are touched.
    let fitting = nodes.values().filter(|cpus| cpus.len() >= count).min_by_key(|cpus| cpus.len());
    if let Some(cpus) = fitting {
        return Some(of_one_node(cpus, count));
    }
    let mut by_room: Vec<&Vec<Cpu>> = nodes.values().collect();
    by_room.sort_by_key(|cpus| std::cmp::Reverse(cpus.len()));
    let mut chosen = Vec::with_capacity(count);
    for cpus in by_room {
        chosen.extend(of_one_node(cpus, cpus.len().min(count - chosen.len())));
    }
    chosen.sort_unstable();
    Some(chosen)
}

/// Whole cores first; what is left over comes from cores that are broken already, the fullest first.
fn of_one_node(cpus: &[Cpu], count: usize) -> Vec<u32> {
    let mut cores: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for cpu in cpus {
        cores.entry(cpu.core).or_default().push(cpu.number);
    }
    let widest = cores.values().map(Vec::len).max().unwrap_or(0);
    let (whole, mut broken): (Vec<_>, Vec<_>) =
        cores.into_values().partition(|threads| threads.len() == widest);
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    let mut whole = whole.into_iter();
    while count - chosen.len() >= widest
        && let Some(threads) = whole.next()
    {
        chosen.extend(threads);
    }
    broken.sort_by_key(Vec::len);
    let rest = broken.into_iter().chain(whole).flatten();
    chosen.extend(rest.take(count - chosen.len()));
    chosen.sort_unstable();
    chosen
}

/// Numbers as the kernel writes them: `0-3,8`.
pub(super) fn parse(list: &str) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            // No machine has more; a broken list must not fill the memory.
            numbers.extend(first..=last.min(first.saturating_add(65_535)));
        }
    }
    numbers
}

/// The same as text.
pub(super) fn format(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two nodes with two cores each, and two threads a core: 0 and 4 are one core, as on real machines.
    fn machine() -> Vec<Cpu> {
        (0..8).map(|number| Cpu { node: (number % 4) / 2, core: number % 4, number }).collect()
    }

    fn without(taken: &[u32]) -> Vec<Cpu> {
        machine().into_iter().filter(|cpu| !taken.contains(&cpu.number)).collect()
    }

    #[test]
    fn threads_of_a_core_go_together_and_a_node_is_filled_before_another() {
        assert_eq!(choose(&machine(), 2), Some(vec![0, 4]));
        assert_eq!(choose(&without(&[0, 4]), 2), Some(vec![1, 5]), "the node that is in use");
        assert_eq!(choose(&without(&[0, 4]), 4), Some(vec![2, 3, 6, 7]), "all of the other node");
        assert_eq!(choose(&machine(), 6), Some(vec![0, 1, 2, 4, 5, 6]), "more than a node has");
        assert_eq!(choose(&without(&[0]), 1), Some(vec![4]), "the other thread of a broken core");
        assert_eq!(choose(&machine(), 3), Some(vec![0, 1, 4]));
        assert_eq!((choose(&machine(), 9), choose(&[], 1), choose(&machine(), 0)), (None, None, None));
    }

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse("0-2,5,8-8\n"), BTreeSet::from([0, 1, 2, 5, 8]));
        assert_eq!(parse(""), BTreeSet::new());
        assert_eq!(parse("x,3-"), BTreeSet::new());
        assert_eq!(format([1, 5, 6]), "1,5,6");
    }

    proptest! {
        #[test]
        fn what_is_given_was_free_and_is_enough(
            cpus in prop::collection::btree_set((0_u32..3, 0_u32..6, 0_u32..40), 0..30), count in 0_usize..32,
        ) {
            let mut seen = BTreeSet::new();
            let free: Vec<Cpu> = cpus
                .into_iter()
                .filter(|(_, _, number)| seen.insert(*number))
                .map(|(node, core, number)| Cpu { node, core, number })
                .collect();
            match choose(&free, count) {
                Some(chosen) => {
                    let distinct: BTreeSet<u32> = chosen.iter().copied().collect();
                    prop_assert_eq!((chosen.len(), distinct.len()), (count, count));
                    prop_assert!(chosen.iter().all(|number| free.iter().any(|cpu| cpu.number == *number)));
                }
                None => prop_assert!(count == 0 || free.len() < count),
            }
        }
    }
}
