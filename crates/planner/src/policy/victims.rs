//! Who is stopped for whom.
//!
//! Guarantees: nobody is touched unless the incoming work then has its room; no victim could be spared with
//! the others stopped; of those that may be stopped, the least important and the cheapest go first.

use std::cmp::Reverse;

use muster_domain::{Span, Timestamp};

/// Why a unit is stopped for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The other one is more important.
    Priority,
    /// It runs on what belongs to the queue of the other one.
    Quota,
    /// It has had more service than the other one.
    Level,
}

/// One side of the question who may stop whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Party {
    pub priority: i32,
    pub level: u8,
    pub pinned: bool,
    pub queue: u32,
    /// Its queue holds more than its own, or would with it. Of two whose queues lend each other nothing,
    /// neither does.
    pub borrows: bool,
}

/// Why what runs may be stopped for what comes; `None` when it may not.
///
/// Who owns comes before priority, as in the order of starts: else a borrower could keep what was lent to it by
/// naming a priority.
pub fn cause(comes: Party, runs: Party, by_level: bool) -> Option<Cause> {
    if runs.borrows != comes.borrows && runs.queue != comes.queue {
        return runs.borrows.then_some(Cause::Quota);
    }
    if runs.priority != comes.priority {
        return (runs.priority < comes.priority).then_some(Cause::Priority);
    }
    (by_level && runs.level > comes.level && !runs.pinned).then_some(Cause::Level)
}

/// What a stop throws away, in size times microseconds: the work since it was last saved, and a new start.
pub fn cost(size: u64, since_saved: Span, restart: Span) -> u64 {
    size.saturating_mul(since_saved.as_micros().saturating_add(restart.as_micros()))
}

/// Somebody who may be stopped. The order of the fields is the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Victim<U> {
    pub priority: i32,
    /// Borrowers first.
    pub owns: bool,
    pub level: Reverse<u8>,
    pub cost: u64,
    /// Among equals the latest, which has done the least.
    pub since: Reverse<Timestamp>,
    pub unit: U,
    pub cause: Cause,
}

/// A place where stops can be tried without anybody being touched.
pub trait Trial<U> {
    /// As if it had stopped.
    fn stop(&mut self, unit: U);
    /// As if it had not.
    fn restore(&mut self, unit: U);
    /// Whether there is room for what comes. More stops never leave less.
    fn fits(&self) -> bool;
}

/// The victims that make room, or `None` when not even all of them would. `candidates` are in the order in which
/// they are taken; `allowed` is the most that stops may cost that priority does not demand.
pub fn choose<U: Copy>(
    trial: &mut impl Trial<U>,
    candidates: &[Victim<U>],
    allowed: u64,
) -> Option<Vec<Victim<U>>> {
    let mut chosen = shortest(trial, candidates)?;
    // The last one taken was needed; of the others, some were not.
    for position in (0..chosen.len().saturating_sub(1)).rev() {
        let unit = chosen[position].unit;
        trial.restore(unit);
        if trial.fits() {
            chosen.remove(position);
        } else {
            trial.stop(unit);
        }
    }
    let counted = chosen.iter().filter(|victim| victim.cause != Cause::Priority);
    let cost = counted.fold(0_u64, |sum, victim| sum.saturating_add(victim.cost));
    (cost <= allowed).then_some(chosen)
}

/// The shortest beginning of the candidates whose stop is enough; they are stopped in the trial. Seeks in
/// growing steps and then between the last two, since to look whether there is room may take long.
fn shortest<U: Copy>(trial: &mut impl Trial<U>, candidates: &[Victim<U>]) -> Option<Vec<Victim<U>>> {
    let (mut least, mut stopped) = (0, 0);
    while !trial.fits() {
        if stopped == candidates.len() {
            return None;
        }
        least = stopped + 1;
        let next = (stopped * 2).clamp(1, candidates.len());
        candidates[stopped..next].iter().for_each(|victim| trial.stop(victim.unit));
        stopped = next;
    }
    let mut enough = stopped;
    while least < enough {
        let middle = usize::midpoint(least, enough);
        if middle < stopped {
            candidates[middle..stopped].iter().for_each(|victim| trial.restore(victim.unit));
        } else {
            candidates[stopped..middle].iter().for_each(|victim| trial.stop(victim.unit));
        }
        stopped = middle;
        if trial.fits() { enough = middle } else { least = middle + 1 }
    }
    candidates[stopped..enough].iter().for_each(|victim| trial.stop(victim.unit));
    Some(candidates[..enough].to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::board::UnitId;

    /// Nodes of 8; each unit holds some of one node; what comes needs so many whole nodes.
    struct Toy {
        free: Vec<u64>,
        units: Vec<(usize, u64)>,
        wanted: usize,
    }

    impl Trial<UnitId> for Toy {
        fn stop(&mut self, unit: UnitId) {
            let (node, held) = self.units[unit.0 as usize];
            self.free[node] += held;
        }

        fn restore(&mut self, unit: UnitId) {
            let (node, held) = self.units[unit.0 as usize];
            self.free[node] -= held;
        }

        fn fits(&self) -> bool {
            self.free.iter().filter(|free| **free >= 8).count() >= self.wanted
        }
    }

    fn toy(units: &[(usize, u64)], wanted: usize) -> (Toy, Vec<Victim<UnitId>>) {
        let mut free = vec![8_u64; 4];
        let mut held = Vec::new();
        for (node, size) in units {
            let size = (*size).min(free[*node]);
            free[*node] -= size;
            held.push((*node, size));
        }
        let victim = |(position, (_, size)): (usize, &(usize, u64))| Victim {
            priority: 0,
            owns: true,
            level: Reverse(1),
            cost: *size,
            since: Reverse(Timestamp::default()),
            unit: UnitId(position as u32),
            cause: Cause::Level,
        };
        let mut victims: Vec<Victim<UnitId>> = held.iter().enumerate().map(victim).collect();
        victims.sort();
        (Toy { free, units: held, wanted }, victims)
    }

    proptest! {
        #[test]
        fn enough_are_stopped_and_none_in_vain(units in prop::collection::vec((0_usize..4, 1_u64..9), 0..12), wanted in 1_usize..5) {
            let (mut trial, victims) = toy(&units, wanted);
            let chosen = choose(&mut trial, &victims, u64::MAX);
            // With nobody left every node is whole.
            let chosen = chosen.expect("all nodes can be emptied");
            prop_assert!(trial.fits());
            for victim in &chosen {
                trial.restore(victim.unit);
                prop_assert!(!trial.fits(), "{victim:?} is stopped in vain");
                trial.stop(victim.unit);
            }
        }

        #[test]
        fn nobody_stops_another_back(
            a in (0_i32..3, 0_u8..3, any::<bool>(), 0_u32..2, any::<bool>()),
            b in (0_i32..3, 0_u8..3, any::<bool>(), 0_u32..2, any::<bool>()),
        ) {
            let party = |(priority, level, pinned, queue, borrows): (i32, u8, bool, u32, bool)| Party {
                priority, level, pinned, queue, borrows,
            };
            let (a, b) = (party(a), party(b));
            prop_assert!(cause(a, a, true).is_none());
            prop_assert!(!(cause(a, b, true).is_some() && cause(b, a, true).is_some()));
            let level = |cause: Option<Cause>| cause == Some(Cause::Level);
            prop_assert!(!level(cause(a, b, false)));
        }
    }

    #[test]
    fn nobody_is_chosen_when_it_costs_too_much_or_does_not_help() {
        let (mut trial, victims) = toy(&[(0, 4), (0, 4), (1, 8), (2, 8), (3, 8)], 1);
        assert_eq!(choose(&mut trial, &victims, 7), None);
        let (mut trial, victims) = toy(&[(0, 4), (0, 4), (1, 8), (2, 8), (3, 8)], 1);
        let chosen = choose(&mut trial, &victims, 8).unwrap();
        assert_eq!(chosen.iter().map(|victim| victim.unit.0).collect::<Vec<_>>(), [0, 1]);
        let (mut trial, _) = toy(&[(0, 1), (1, 1), (2, 1), (3, 1)], 1);
        assert_eq!(choose(&mut trial, &[], u64::MAX), None);
    }
}
