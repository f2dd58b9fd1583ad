//! Queues and quotas as they cross the wire, and what is wrong with those that came.

use muster_domain::account::is_user_name;
use muster_domain::{self as domain, Amounts, Dimension, QueueName};
use muster_protocol::{Queue, QueueUpdate, Quota, RateLimit};
use muster_store::{AccessChange, QueueStanding, TermsChange};

use crate::config::Limits;
use crate::error::ApiError;
use crate::submission::{MAX_AMOUNT, check_text};

/// The most that a queue may weigh; the least is a thousandth.
const MAX_WEIGHT: f64 = 1e6;
/// The most users that one list of a queue names.
const MAX_USERS: usize = 1_000;

pub(crate) fn queue(queue: &domain::Queue) -> Queue {
    let terms = &queue.terms;
    Queue {
        name: queue.name.as_str().to_owned(),
        paused: queue.paused,
        max_queued: queue.max_queued,
        rate: queue.rate.map(|rate| RateLimit { starts: rate.starts, seconds: rate.per.as_secs_f64() }),
        parent: terms.parent.as_ref().map(|parent| parent.as_str().to_owned()),
        weight: terms.weight_milli.map(|milli| f64::from(milli) / 1e3),
        nominal: terms.nominal.as_ref().map(quota),
        borrow: terms.borrow.as_ref().map(quota),
        lend: terms.lend.as_ref().map(quota),
        max_running: terms.max_running,
        max_running_per_user: terms.max_running_per_user,
        max_queued_per_user: terms.max_queued_per_user,
        submitters: queue.access.submitters.clone(),
        admins: queue.access.admins.clone(),
        viewers: queue.access.viewers.clone(),
        ..Queue::default()
    }
}

/// A queue with what it uses; one that stands alone and has no terms is shown without.
pub(crate) fn standing(standing: &QueueStanding) -> Queue {
    let shown = queue(&standing.queue);
    if standing.queue.tree.is_none() {
        return shown;
    }
    Queue {
        running_below: Some(standing.running_below),
        used: quota(&standing.used),
        used_below: quota(&standing.used_below),
        borrowed: quota(&standing.borrowed),
        lent: quota(&standing.lent),
        share: Some(standing.share as f64 / 1e9),
        ..shown
    }
}

pub(crate) fn quota(amounts: &Amounts) -> Quota {
    let mut quota = Quota::default();
    for (dimension, amount) in amounts.iter() {
        match dimension {
            Dimension::CpuMillis => quota.cpus = Some(amount as f64 / 1e3),
            Dimension::MemoryMb => quota.memory_mb = Some(amount),
            Dimension::VramMb => quota.vram_mb = Some(amount),
            Dimension::Gpus => quota.gpus = Some(amount),
            Dimension::Counter(name) => {
                quota.counters.insert(name.clone(), amount);
            }
            Dimension::Slots | Dimension::Alone => {}
        }
    }
    quota
}

/// What a client asks of the terms of a queue, checked.
pub(crate) fn terms(update: QueueUpdate, limits: &Limits) -> Result<TermsChange, ApiError> {
    let amounts = |field: &'static str, quota: Option<Option<Quota>>| {
        quota.map(|quota| quota.map(|quota| checked(field, quota, limits)).transpose()).transpose()
    };
    if let Some(Some(parent)) = &update.parent {
        check_text("parent", parent, limits.name)?;
        if parent.is_empty() {
            return Err(ApiError::invalid_field("parent", "parent must have a name; null removes it"));
        }
    }
    Ok(TermsChange {
        parent: update.parent.map(|parent| parent.map(QueueName::new)),
        weight_milli: update.weight.map(|weight| weight.map(checked_weight).transpose()).transpose()?,
        nominal: amounts("nominal", update.nominal)?,
        borrow: amounts("borrow", update.borrow)?,
        lend: amounts("lend", update.lend)?,
        max_running: update.max_running,
        max_running_per_user: update.max_running_per_user,
        max_queued_per_user: update.max_queued_per_user,
    })
}

/// Which lists of users are to change.
pub(crate) fn access(update: &mut QueueUpdate) -> Result<AccessChange, ApiError> {
    let list = |field: &'static str, names: Option<Option<Vec<String>>>| {
        names.map(|names| checked_users(field, names.unwrap_or_default())).transpose()
    };
    Ok(AccessChange {
        submitters: list("submitters", update.submitters.take())?,
        admins: list("admins", update.admins.take())?,
        viewers: list("viewers", update.viewers.take())?,
    })
}

fn checked_users(field: &'static str, mut names: Vec<String>) -> Result<Vec<String>, ApiError> {
    if names.len() > MAX_USERS {
        return Err(ApiError::over_limit(field, MAX_USERS, "users"));
    }
    if let Some(wrong) = names.iter().find(|name| !is_user_name(name)) {
        let message = format!("{field}: {wrong:?} cannot be the name of a user");
        return Err(ApiError::invalid_field(field, message));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

fn checked_weight(weight: f64) -> Result<u32, ApiError> {
    if !(0.001..=MAX_WEIGHT).contains(&weight) {
        return Err(ApiError::invalid_field("weight", "weight must be from 0.001 to 1000000"));
    }
    Ok((weight * 1e3).round() as u32)
}

fn checked(field: &'static str, quota: Quota, limits: &Limits) -> Result<Amounts, ApiError> {
    if quota.cpus.is_some_and(|cpus| !(0.0..=1e9).contains(&cpus)) {
        let message = format!("{field}: cpus must be a number from 0 to 1000000000");
        return Err(ApiError::invalid_field(field, message));
    }
    if quota.counters.len() > limits.counters {
        return Err(ApiError::over_limit(field, limits.counters, "counters"));
    }
    for name in quota.counters.keys() {
        check_text(field, name, limits.name)?;
    }
    let fixed = [
        // What a queue has is never rounded up.
        (Dimension::CpuMillis, quota.cpus.map(|cpus| (cpus * 1e3).floor() as u64)),
        (Dimension::MemoryMb, quota.memory_mb),
        (Dimension::VramMb, quota.vram_mb),
        (Dimension::Gpus, quota.gpus),
    ];
    let fixed = fixed.into_iter().filter_map(|(dimension, amount)| Some((dimension, amount?)));
    let named = quota.counters.into_iter().map(|(name, amount)| (Dimension::Counter(name), amount));
    let amounts: Amounts = fixed.chain(named).collect();
    if let Some((dimension, _)) = amounts.iter().find(|(_, amount)| *amount > MAX_AMOUNT) {
        let message = format!("{field}: {dimension} must be at most {MAX_AMOUNT}");
        return Err(ApiError::invalid_field(field, message));
    }
    Ok(amounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_shown() {
        let gpus = Quota { gpus: Some(0), cpus: Some(1.5), ..Quota::default() };
        let update = QueueUpdate {
            nominal: Some(Some(gpus.clone())),
            borrow: Some(None),
            weight: Some(Some(2.5)),
            ..QueueUpdate::default()
        };
        let change = terms(update, &Limits::default()).unwrap();
        assert_eq!((change.weight_milli, change.borrow, change.lend), (Some(Some(2500)), Some(None), None));
        assert_eq!(quota(&change.nominal.unwrap().unwrap()), gpus);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        let wrong = |update: QueueUpdate| terms(update, &Limits::default()).unwrap_err().message.into_owned();
        for weight in [0.0, -1.0, 1e7, f64::NAN] {
            assert!(
                wrong(QueueUpdate { weight: Some(Some(weight)), ..Default::default() }).contains("0.001")
            );
        }
        let much = Quota { gpus: Some(u64::MAX), ..Quota::default() };
        let message = wrong(QueueUpdate { lend: Some(Some(much)), ..Default::default() });
        assert!(message.starts_with("lend: gpus must be at most"), "{message}");
        assert!(
            wrong(QueueUpdate { parent: Some(Some(String::new())), ..Default::default() }).contains("name")
        );
    }
}
