//! What is said about work that waits, as the wire shows it.

use muster_domain as domain;
use muster_domain::{Dimension, Reason, SuggestedChange as Change};
use muster_protocol as wire;

use super::{resources, status};
use crate::clock::to_wire;

pub(crate) fn why(job: &domain::Job, explanation: &domain::Explanation) -> wire::Why {
    let waits = !job.is_terminal() && job.running_since().is_none();
    let expected = job.expected.filter(|_| waits && job.spec.timeout.is_none());
    wire::Why {
        id: job.id.to_string(),
        status: status(job.status()),
        reasons: explanation.reasons.iter().map(reason).collect(),
        classes: explanation.classes.iter().map(class).collect(),
        more_classes: explanation.more_classes,
        more_workers: explanation.more_workers,
        start: explanation.start.map(start),
        expected_seconds: expected.map(domain::Span::as_secs_f64),
        suggestions: explanation.suggestions.iter().map(suggestion).collect(),
    }
}

pub(super) fn start(start: domain::Start) -> wire::Start {
    wire::Start { at: to_wire(start.at), kept: start.kept, by_history: start.by_history }
}

/// Cores rather than thousandths of them.
fn quantity(dimension: &Dimension, amount: u64) -> f64 {
    match dimension {
        Dimension::CpuMillis => amount as f64 / 1e3,
        _ => amount as f64,
    }
}

fn shortfall(one: &domain::Shortfall) -> wire::Shortfall {
    wire::Shortfall {
        resource: one.dimension.to_string(),
        needed: quantity(&one.dimension, one.needed),
        available: quantity(&one.dimension, one.available),
    }
}

fn shortfalls(all: &[domain::Shortfall]) -> Vec<wire::Shortfall> {
    all.iter().map(shortfall).collect()
}

pub(super) fn reason(reason: &Reason) -> wire::Reason {
    let base = wire::Reason {
        code: reason.code().to_owned(),
        message: reason.to_string(),
        ..wire::Reason::default()
    };
    match reason {
        Reason::Dependency { job, .. } => wire::Reason { unit: Some(job.to_string()), ..base },
        Reason::NotBefore { until } | Reason::BackOff { until, .. } => {
            wire::Reason { until: Some(to_wire(*until)), ..base }
        }
        Reason::QueuePaused { queue } => wire::Reason { queue: Some(queue.to_string()), ..base },
        Reason::RateLimited { queue, until } => {
            wire::Reason { queue: Some(queue.to_string()), until: Some(to_wire(*until)), ..base }
        }
        Reason::QueueRuns { queue, running, limit } => wire::Reason {
            queue: Some(queue.to_string()),
            running: Some(*running),
            limit: Some(*limit),
            ..base
        },
        Reason::UserRuns { queue, user, running, limit } => wire::Reason {
            queue: Some(queue.to_string()),
            user: Some(user.clone()),
            running: Some(*running),
            limit: Some(*limit),
            ..base
        },
        Reason::Quota(room) => quota(room, base),
        Reason::Share { own, .. } => wire::Reason { queue: Some(own.queue.to_string()), ..base },
        Reason::Concurrency { limit, holders, .. } => {
            wire::Reason { running: Some(holders.len() as u32), limit: Some(*limit), ..base }
        }
        Reason::Quarantined { worker, until } => {
            wire::Reason { worker: Some(worker.to_string()), until: Some(to_wire(*until)), ..base }
        }
        Reason::Tags { required, missing } => {
            let tags = if missing.is_empty() { required } else { missing };
            wire::Reason { tags: ordinary(tags), ..base }
        }
        Reason::Impossible { closest, shortfalls: lacks } | Reason::Busy { closest, shortfalls: lacks } => {
            wire::Reason { worker: Some(closest.to_string()), shortfalls: shortfalls(lacks), ..base }
        }
        Reason::NobodyAsks { fitting } => wire::Reason { workers: Some(*fitting), ..base },
        _ => placed_reason(reason, base),
    }
}

/// The tags that people gave.
fn ordinary(tags: &[String]) -> Vec<String> {
    tags.iter().filter(|tag| !domain::container::is_reserved(tag)).cloned().collect()
}

fn quota(room: &domain::QuotaRoom, base: wire::Reason) -> wire::Reason {
    let (needed, available) = (room.needed, room.available);
    let lacks = domain::Shortfall { dimension: room.dimension.clone(), needed, available };
    wire::Reason { queue: Some(room.queue.to_string()), shortfalls: vec![shortfall(&lacks)], ..base }
}

/// Reasons of gangs, of kept room and of the line.
fn placed_reason(reason: &Reason, base: wire::Reason) -> wire::Reason {
    match reason {
        Reason::GangRoom(room) | Reason::GangImpossible(room) => wire::Reason {
            tasks: Some(room.needed),
            room: Some(room.room),
            workers: Some(room.fitting),
            shortfalls: room.lacking_some.first().map(|(_, lacks)| shortfalls(lacks)).unwrap_or_default(),
            worker: room.lacking_some.first().map(|(worker, _)| worker.to_string()),
            ..base
        },
        Reason::GangDomains(found) | Reason::GangDomainsImpossible(found) => {
            let room = found.closest.first().map(|(_, room, _)| *room);
            wire::Reason { tasks: Some(found.needed), room, ..base }
        }
        Reason::GangFits { tasks, workers } => {
            wire::Reason { tasks: Some(*tasks), workers: Some(*workers), ..base }
        }
        Reason::Kept { unit, workers, until } => wire::Reason {
            unit: Some(unit.to_string()),
            workers: Some(*workers),
            until: until.map(to_wire),
            ..base
        },
        Reason::Foreseen { workers, at } => {
            wire::Reason { workers: Some(*workers), until: at.map(to_wire), ..base }
        }
        Reason::Spared { gang } => wire::Reason { unit: Some(gang.to_string()), ..base },
        Reason::Assembling { gang, missing } => {
            wire::Reason { unit: Some(gang.to_string()), tasks: Some(missing.len() as u32), ..base }
        }
        Reason::Finished { gang, open } => {
            wire::Reason { unit: Some(gang.to_string()), tasks: Some(open.len() as u32), ..base }
        }
        Reason::Ahead { jobs, gangs, queue } => wire::Reason {
            jobs: Some(*jobs),
            gangs: Some(*gangs),
            queue: queue.as_ref().map(ToString::to_string),
            ..base
        },
        Reason::Running { worker, .. } => {
            wire::Reason { worker: worker.as_ref().map(ToString::to_string), ..base }
        }
        // All others have no numbers, or were told where all reasons are.
        _ => base,
    }
}

fn class(class: &domain::WorkerClass) -> wire::WorkerClass {
    wire::WorkerClass {
        message: class.to_string(),
        workers: class.workers,
        has: resources(&class.has),
        slots: class.slots,
        able: class.is_able(),
        lacks: shortfalls(&class.lacks),
        missing_tags: ordinary(&class.missing_tags),
        with_room: class.room,
        kept: class.kept,
        busy: class.busy,
        quarantined: class.quarantined,
        offline: class.offline,
        free_at: class.free_at.map(to_wire),
        no_end_known: class.endless,
        holders: class.holders.iter().map(holder).collect(),
        more_holders: class.more_holders,
    }
}

fn holder(holder: &domain::Holder) -> wire::Holder {
    wire::Holder {
        id: holder.unit.to_string(),
        queue: holder.queue.as_ref().map(ToString::to_string),
        user: holder.user.clone(),
        workers: holder.workers,
        ends_at: holder.ends.map(to_wire),
    }
}

fn change(what: &str, from: f64, to: f64) -> Vec<wire::AmountChange> {
    vec![wire::AmountChange { what: what.to_owned(), from, to }]
}

fn suggestion(suggestion: &domain::Suggestion) -> wire::Suggestion {
    let first = wire::Suggestion {
        code: suggestion.change.code().to_owned(),
        message: suggestion.to_string(),
        workers: suggestion.workers.iter().map(ToString::to_string).collect(),
        more_workers: suggestion.more_workers,
        also: suggestion.also.as_ref().map(|also| also.code().to_owned()),
        ..wire::Suggestion::default()
    };
    let mut told = about(&suggestion.change, first);
    if let Some(also) = &suggestion.also {
        let second = about(also, wire::Suggestion::default());
        told.amounts.extend(second.amounts);
        told.tags.extend(second.tags);
        told.before.extend(second.before);
        told.stops.extend(second.stops);
        told.label = told.label.or(second.label);
        told.until = told.until.or(second.until);
        told.queue = told.queue.or(second.queue);
        told.user = told.user.or(second.user);
        told.key = told.key.or(second.key);
        told.worker = told.worker.or(second.worker);
    }
    told
}

/// Adds what the change is about.
fn about(what: &Change, base: wire::Suggestion) -> wire::Suggestion {
    let units = |units: &[domain::Unit]| units.iter().map(ToString::to_string).collect();
    match what {
        Change::Less { dimension, from, to } => {
            let (from, to) = (quantity(dimension, *from), quantity(dimension, *to));
            wire::Suggestion { amounts: change(&dimension.to_string(), from, to), ..base }
        }
        Change::FewerTasks { from, to } => {
            wire::Suggestion { amounts: change("tasks", (*from).into(), (*to).into()), ..base }
        }
        Change::MoreOnOne { from, to } => {
            wire::Suggestion { amounts: change("tasks_per_worker", (*from).into(), (*to).into()), ..base }
        }
        Change::WithoutTags { tags } => wire::Suggestion { tags: tags.clone(), ..base },
        Change::Anywhere { label, .. } => wire::Suggestion { label: Some(label.clone()), ..base },
        Change::TimeLimit { limit, unit, until } => wire::Suggestion {
            amounts: change("timeout_seconds", 0.0, limit.as_secs_f64()),
            until: Some(to_wire(*until)),
            before: vec![unit.to_string()],
            ..base
        },
        Change::Priority { from, to, before, stops } => wire::Suggestion {
            amounts: change("priority", (*from).into(), (*to).into()),
            before: units(before),
            stops: units(stops),
            ..base
        },
        Change::Resume { queue } => wire::Suggestion { queue: Some(queue.to_string()), ..base },
        Change::MoreRunning { queue, user, from, to } => wire::Suggestion {
            amounts: change("running", (*from).into(), (*to).into()),
            queue: Some(queue.to_string()),
            user: user.clone(),
            ..base
        },
        Change::MoreOfKey { key, from, to } => wire::Suggestion {
            amounts: change("concurrency", (*from).into(), (*to).into()),
            key: Some(key.clone()),
            ..base
        },
        Change::MoreQuota { queue, amounts, .. } => {
            let amount = |(kind, from, to): &(Dimension, u64, u64)| wire::AmountChange {
                what: kind.to_string(),
                from: quantity(kind, *from),
                to: quantity(kind, *to),
            };
            wire::Suggestion {
                queue: Some(queue.to_string()),
                amounts: amounts.iter().map(amount).collect(),
                ..base
            }
        }
        Change::Release { worker } => wire::Suggestion { worker: Some(worker.to_string()), ..base },
        Change::NotExclusive | Change::Preemptible => base,
    }
}
