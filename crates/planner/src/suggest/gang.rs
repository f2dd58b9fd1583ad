//! Fewer tasks of a gang, more of them on one worker, anywhere.

use muster_domain::{SuggestedChange as Change, Suggestion, Unit};

use super::{largest, tried};
use crate::case::{Case, Trial};

pub(super) fn suggest(_: &Case, trial: &Trial<'_>) -> Vec<Suggestion> {
    if matches!(trial.unit.unit, Unit::Job(_)) {
        return Vec::new();
    }
    [fewer_tasks(trial), more_on_one(trial), anywhere(trial)].into_iter().flatten().collect()
}

fn fewer_tasks(trial: &Trial<'_>) -> Option<Suggestion> {
    let from = trial.unit.fewest();
    let with = |least: u64| {
        let mut changed = trial.clone();
        changed.unit.least = least as u32;
        changed
    };
    let to = largest(1, from.into(), 1, |least| with(least).place().is_some())?;
    tried(&with(to), Change::FewerTasks { from, to: to as u32 })
}

fn more_on_one(trial: &Trial<'_>) -> Option<Suggestion> {
    let (from, tasks) = (trial.unit.most_on_one(), trial.unit.tasks);
    let with = |per_worker: u32| {
        let mut changed = trial.clone();
        changed.unit.per_worker = per_worker;
        changed
    };
    // The fewest that do: counted down from one more than there are tasks.
    let most = u64::from(tasks) + 1;
    let low = most.checked_sub(u64::from(tasks.max(from)))?;
    let works = |down: u64| with((most - down) as u32).place().is_some();
    let down = largest(low, most - u64::from(from.min(tasks)), 1, works)?;
    let to = (most - down) as u32;
    tried(&with(to), Change::MoreOnOne { from, to })
}

fn anywhere(trial: &Trial<'_>) -> Option<Suggestion> {
    let (change, changed) = scattered(trial)?;
    tried(&changed, change)
}

/// With a topology that is only a wish, whether or not that helps alone.
pub(super) fn scattered<'c>(trial: &Trial<'c>) -> Option<(Change, Trial<'c>)> {
    let mut changed = trial.clone();
    let topology = changed.unit.topology.as_mut().filter(|topology| topology.required)?;
    topology.required = false;
    let change = Change::Anywhere { label: topology.label.clone(), mode: topology.mode };
    Some((change, changed))
}
