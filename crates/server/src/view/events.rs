//! Events as the API shows them.

use muster_domain as domain;
use muster_protocol as wire;
use serde_json::Value;

use crate::clock::to_wire;

/// An event, with the details of its kind.
pub(crate) fn event(event: &domain::Event) -> wire::Event {
    let claimer = match &event.kind {
        domain::EventKind::Claimed { worker, .. } => worker.as_ref(),
        domain::EventKind::Reserved { worker, .. } => Some(worker),
        _ => None,
    };
    wire::Event {
        id: event.seq,
        at: to_wire(event.at),
        kind: event.kind.name().to_owned(),
        job_id: event.job.map(|id| id.to_string()),
        worker_id: event.worker.as_ref().or(claimer).map(|worker| worker.as_str().to_owned()),
        by: event.by().map(|by| by.to_string()),
        data: data(event),
    }
}

fn data(event: &domain::Event) -> wire::EventData {
    let mut data = event_data(&event.kind);
    if let Some(measured) = &event.measured {
        let usage = serde_json::to_value(super::usage::spent(&measured.spent));
        let requested = measured.requested.as_ref().map(super::resources).map(serde_json::to_value);
        data.extend(usage.ok().map(|usage| ("usage".to_owned(), usage)));
        data.extend(requested.and_then(Result::ok).map(|requested| ("requested".to_owned(), requested)));
    }
    data
}

fn event_data(kind: &domain::EventKind) -> wire::EventData {
    use domain::EventKind;
    let mut data = wire::EventData::new();
    let mut put = |key: &str, value: Value| data.insert(key.to_owned(), value);
    match kind {
        EventKind::Submitted { blocked } => drop(put("blocked", (*blocked).into())),
        EventKind::Claimed { lease, attempt, waited, .. } => {
            put("lease", lease.0.into());
            put("attempt", (*attempt).into());
            put("waited_seconds", waited.as_secs_f64().into());
        }
        EventKind::Requeued { lease, attempt, delay, cause } => {
            put("lease", lease.0.into());
            put("attempt", (*attempt).into());
            if *delay > domain::Span::ZERO {
                put("delay_seconds", delay.as_secs_f64().into());
            }
            let (cause, exit, message) = requeue_cause(cause);
            put("cause", cause.into());
            put_exit(&mut put, exit.unwrap_or_default());
            if let Some(message) = message {
                put("message", message.into());
            }
        }
        EventKind::Finished { lease, exit, ran } | EventKind::Done { lease, exit, ran } => {
            put("lease", lease.0.into());
            put("ran_seconds", ran.as_secs_f64().into());
            put_exit(&mut put, *exit);
        }
        EventKind::Failed { attempt, reason } => put_failure(&mut put, *attempt, reason),
        EventKind::StopRequested { epoch, reason } => {
            put("epoch", (*epoch).into());
            put("reason", reason.clone().into());
        }
        EventKind::Reserved { .. }
        | EventKind::Prepared { .. }
        | EventKind::Started { .. }
        | EventKind::Unreserved { .. }
        | EventKind::Drained { .. } => {
            gang_data(kind, &mut put);
        }
        EventKind::RoomMade { by } => {
            let names: Vec<Value> = by.iter().map(|unit| unit.to_string().into()).collect();
            put("by", names.into());
        }
        EventKind::Pinned { waited } => drop(put("waited_seconds", waited.as_secs_f64().into())),
        EventKind::Cancelled { reason } => drop(put("reason", reason.to_string().into())),
        EventKind::CheckpointSaved { epoch, bytes } => {
            put("epoch", (*epoch).into());
            put("bytes", (*bytes).into());
        }
        EventKind::TerminalOpened { kind } => drop(put("kind", kind.name().into())),
        EventKind::ImagePulling { .. } | EventKind::ImagePulled { .. } => image_data(kind, &mut put),
        EventKind::Held { reason } | EventKind::WorkerReleased { reason } => {
            put("reason", reason.clone().into());
        }
        EventKind::Edited { what } => drop(put("what", what.clone().into())),
        EventKind::WorkerQuarantined { evidence } => drop(put("evidence", evidence.clone().into())),
        EventKind::Unblocked
        | EventKind::Due
        | EventKind::Released
        | EventKind::RetryRequested
        | EventKind::QueueChanged
        | EventKind::WorkerRegistered
        | EventKind::WorkerOffline => {}
    }
    data
}

fn put_exit(put: &mut impl FnMut(&str, Value) -> Option<Value>, exit: domain::Exit) {
    if let Some(code) = exit.code {
        put("exit_code", code.into());
    }
    if let Some(signal) = exit.signal {
        put("signal", signal.into());
    }
}

fn put_failure(put: &mut impl FnMut(&str, Value) -> Option<Value>, attempt: u32, reason: &domain::EndReason) {
    put("attempt", attempt.into());
    put("reason", reason.to_string().into());
    match reason {
        domain::EndReason::Attempt { exit, .. } => put_exit(put, *exit),
        domain::EndReason::OutOfMemory { exit, .. } => {
            put("cause", "oom".into());
            put_exit(put, *exit);
        }
        _ => {}
    }
}

/// What happened to the image of a container.
fn image_data(kind: &domain::EventKind, put: &mut impl FnMut(&str, Value) -> Option<Value>) {
    use domain::EventKind;
    match kind {
        EventKind::ImagePulling { image } => drop(put("image", image.clone().into())),
        EventKind::ImagePulled { image, digest, bytes, took } => {
            put("image", image.clone().into());
            put("digest", digest.as_ref().into());
            put("bytes", (*bytes).into());
            put("seconds", took.as_secs_f64().into());
        }
        _ => {}
    }
}

/// What happened to a task with its gang.
fn gang_data(kind: &domain::EventKind, put: &mut impl FnMut(&str, Value) -> Option<Value>) {
    use domain::EventKind;
    match kind {
        EventKind::Reserved { worker, round, size } => {
            put("worker", worker.as_str().into());
            put("round", (*round).into());
            put("size", (*size).into());
        }
        EventKind::Prepared { lease } => drop(put("lease", lease.0.into())),
        EventKind::Started { lease, round } => {
            put("lease", lease.0.into());
            put("round", (*round).into());
        }
        EventKind::Unreserved { reason } => drop(put("reason", reason.clone().into())),
        EventKind::Drained { epoch, lease, exit, forced, ran, rule } => {
            put("epoch", (*epoch).into());
            put("lease", lease.0.into());
            put("ran_seconds", ran.as_secs_f64().into());
            put_exit(put, *exit);
            if *forced {
                put("forced", true.into());
            }
            if let Some(rule) = rule {
                put("rule", rule.clone().into());
            }
        }
        _ => {}
    }
}

/// Why a job went back to wait: a word, how its process ended, and what there is to say.
pub(super) fn requeue_cause(
    cause: &domain::RequeueCause,
) -> (&'static str, Option<domain::Exit>, Option<String>) {
    use domain::RequeueCause;
    match cause {
        RequeueCause::Failed { exit, message } => ("failed", Some(*exit), message.clone()),
        RequeueCause::WorkerLost => ("worker_lost", None, None),
        RequeueCause::Poison { workers } => {
            let names: Vec<&str> = workers.iter().map(domain::WorkerId::as_str).collect();
            ("poison", None, Some(format!("held after the loss of {}", names.join(", "))))
        }
        RequeueCause::Timeout => ("timeout", None, None),
        RequeueCause::OutOfMemory { exit, message } => ("oom", Some(*exit), message.clone()),
        RequeueCause::AskedFor { exit } => ("asked_for", Some(*exit), None),
        RequeueCause::Released => ("released", None, None),
        RequeueCause::Preempted { rule } => ("preempted", None, rule.clone()),
        RequeueCause::Gang { reason } => ("gang", None, Some(reason.clone())),
    }
}
