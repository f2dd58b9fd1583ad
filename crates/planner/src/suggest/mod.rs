//! What change would let work start now: each kind of change is a small function that proposes the closest one and
//! asks the placement.
//!
//! Guarantee: nothing is suggested that the placement refused. Changes are tried one at a time; only where none of them
//! helps alone are pairs tried, of which the first opens a gate or drops a demand.

mod gang;
mod gates;
mod line;
mod need;
mod pairs;

pub(crate) use gates::lacking;

use muster_domain::{SuggestedChange, Suggestion, WorkerId};

use crate::case::{Case, Trial};

/// Workers that a suggestion names.
const NAMED: usize = 3;

/// Every change that helps, the most likely ones first. Nothing where the work would start as it is.
pub(crate) fn suggest(case: &Case) -> Vec<Suggestion> {
    let trial = case.trial();
    if trial.place().is_some() {
        return Vec::new();
    }
    let alone = each(case, &trial);
    if alone.is_empty() { pairs::suggest(case, &trial) } else { alone }
}

/// Every single change that helps.
fn each(case: &Case, trial: &Trial<'_>) -> Vec<Suggestion> {
    let kinds: [fn(&Case, &Trial<'_>) -> Vec<Suggestion>; 4] =
        [gates::suggest, need::suggest, gang::suggest, line::suggest];
    kinds.into_iter().flat_map(|kind| kind(case, trial)).collect()
}

/// The suggestion, if the work starts after the change.
fn tried(trial: &Trial<'_>, change: SuggestedChange) -> Option<Suggestion> {
    trial.place().map(|workers| given(change, workers))
}

fn given(change: SuggestedChange, mut workers: Vec<WorkerId>) -> Suggestion {
    let more_workers = workers.len().saturating_sub(NAMED) as u32;
    workers.truncate(NAMED);
    Suggestion { change, also: None, workers, more_workers }
}

/// The largest number from `low` on, below `high`, with which it works, to within `step`; it is taken that what works with
/// a number works with all smaller ones.
fn largest(low: u64, high: u64, step: u64, works: impl Fn(u64) -> bool) -> Option<u64> {
    if low >= high || !works(low) {
        return None;
    }
    let (mut good, mut bad) = (low, high);
    while bad - good > step.max(1) {
        let middle = u64::midpoint(good, bad);
        if works(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}
