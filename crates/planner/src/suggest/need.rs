//! Less of one kind, without a tag, not alone on its worker.

use std::collections::BTreeSet;

use muster_domain::container::{given, is_reserved};
use muster_domain::{Dimension, Resources, Shortfall, SuggestedChange as Change, Suggestion};

use super::{largest, tried};
use crate::case::{Case, Trial};

/// Nobody who asks for so much is helped by less than this part of it.
const LEAST_PART: u64 = 8;

/// The closest amount is found to within this part.
const PRECISION: u64 = 64;

pub(super) fn suggest(_: &Case, trial: &Trial<'_>) -> Vec<Suggestion> {
    // What nothing at all falls short of is what is needed.
    let all = trial.unit.requirement.resources.shortfalls(&Resources::default());
    let amounts = all.iter().filter_map(|one| less(trial, one));
    amounts.chain(without_tags(trial)).chain(not_exclusive(trial)).collect()
}

fn less(trial: &Trial<'_>, Shortfall { dimension, needed: from, .. }: &Shortfall) -> Option<Suggestion> {
    let with = |amount: u64| {
        let mut changed = trial.clone();
        set(&mut changed.unit.requirement.resources, dimension, amount);
        changed
    };
    let works = |amount: u64| with(amount).place().is_some();
    let least = from.div_ceil(LEAST_PART);
    let found = largest(least, *from, from / PRECISION, works)?;
    // A round number is easier to type.
    let grain = match dimension {
        Dimension::CpuMillis if found >= 1000 => 500,
        Dimension::MemoryMb | Dimension::VramMb if found >= 1000 => 100,
        _ => 1,
    };
    let to = found - found % grain;
    tried(&with(to), Change::Less { dimension: dimension.clone(), from: *from, to })
}

fn set(resources: &mut Resources, dimension: &Dimension, amount: u64) {
    match dimension {
        Dimension::CpuMillis => resources.cpu_millis = amount,
        Dimension::MemoryMb => resources.memory_mb = amount,
        Dimension::VramMb => resources.vram_mb = amount,
        Dimension::Gpus => resources.gpus = amount,
        Dimension::Counter(name) => {
            resources.counters.insert(name.clone(), amount);
        }
        // Nobody asks for these as amounts.
        Dimension::Slots | Dimension::Alone => {}
    }
}

/// Without one of its tags; without all of them where one is not enough.
fn without_tags(trial: &Trial<'_>) -> Vec<Suggestion> {
    // Nobody can leave out what comes with an image.
    let tags: BTreeSet<String> = given(&trial.unit.requirement.tags).cloned().collect();
    let without = |gone: Vec<String>| {
        let mut changed = trial.clone();
        changed.unit.requirement.tags.retain(|tag| !gone.contains(tag));
        tried(&changed, Change::WithoutTags { tags: gone })
    };
    let single: Vec<Suggestion> = tags.iter().filter_map(|tag| without(vec![tag.clone()])).collect();
    if !single.is_empty() || tags.len() < 2 {
        return single;
    }
    without(tags.iter().cloned().collect()).into_iter().collect()
}

fn not_exclusive(trial: &Trial<'_>) -> Option<Suggestion> {
    let (change, changed) = shared(trial)?;
    tried(&changed, change)
}

fn shared<'c>(trial: &Trial<'c>) -> Option<(Change, Trial<'c>)> {
    let mut changed = trial.clone();
    std::mem::take(&mut changed.unit.requirement.exclusive).then_some((Change::NotExclusive, changed))
}

/// Without its tags, or beside others, whether or not that helps alone.
pub(super) fn demands_dropped<'c>(trial: &Trial<'c>) -> impl Iterator<Item = (Change, Trial<'c>)> {
    let mut changed = trial.clone();
    let tags: Vec<String> = given(&changed.unit.requirement.tags).cloned().collect();
    changed.unit.requirement.tags.retain(|tag| is_reserved(tag));
    let untagged = (!tags.is_empty()).then_some((Change::WithoutTags { tags }, changed));
    untagged.into_iter().chain(shared(trial))
}
