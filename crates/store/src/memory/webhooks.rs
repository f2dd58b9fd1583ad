//! Webhooks and dead letters in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use muster_domain::{DeadLetter, WebhookId};

use super::data::Data;
use crate::webhooks::LetterFilter;

pub(super) fn remove(data: &mut Data, ids: &[WebhookId]) {
    for id in ids {
        data.webhooks.remove(id);
    }
    data.dead_letters.retain(|delivery, _| !ids.contains(&delivery.hook));
}

pub(super) fn letters(data: &Data, filter: &LetterFilter) -> Vec<DeadLetter> {
    let matches = |letter: &&DeadLetter| {
        filter.hook.is_none_or(|hook| letter.hook == hook)
            && (filter.letters.is_empty() || filter.letters.contains(&letter.delivery()))
            && (!filter.retry || letter.retry)
    };
    let start = filter.after.map_or(Bound::Unbounded, Bound::Excluded);
    let letters = data.dead_letters.range((start, Bound::Unbounded)).map(|(_, letter)| letter);
    letters.filter(matches).take(filter.limit).cloned().collect()
}

pub(super) fn count(data: &Data) -> Vec<(WebhookId, u64)> {
    let mut counts: BTreeMap<WebhookId, u64> = BTreeMap::new();
    for delivery in data.dead_letters.keys() {
        *counts.entry(delivery.hook).or_default() += 1;
    }
    counts.into_iter().collect()
}
