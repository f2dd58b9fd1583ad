//! What jobs used, as the API shows it.

use muster_domain as domain;
use muster_protocol as wire;

use crate::clock::to_wire;

use super::resources;

pub(crate) fn spent(spent: &domain::Spent) -> wire::Usage {
    wire::Usage {
        cpu_user_ms: spent.cpu_user_ms,
        cpu_system_ms: spent.cpu_system_ms,
        peak_memory_bytes: spent.peak_memory_bytes,
        read_bytes: spent.read_bytes,
        written_bytes: spent.written_bytes,
        peak_gpu_memory_bytes: spent.peak_gpu_memory_bytes,
    }
}

/// What a job has used so far. An attempt that is under way is not in it.
pub(super) fn of_job(job: &domain::Job) -> Option<Box<wire::JobUsage>> {
    let known = job.spent.as_ref()?;
    let total = known.total();
    let start = domain::Timestamp::default();
    let all = domain::EndedAttempt::of(&job.spec, start, start + job.served, Some(total)).sum();
    let memory_mb = job.spec.resources.as_ref().map_or(0, |requested| requested.memory_mb);
    let peak = known.last.peak_memory_bytes.filter(|_| memory_mb > 0);
    Some(Box::new(wire::JobUsage {
        last: spent(&known.last),
        total: spent(&total),
        cpu_efficiency: all.cpu_efficiency(),
        memory_efficiency: peak.map(|peak| peak as f64 / (memory_mb as f64 * 1_048_576.0)),
    }))
}

/// The attempts of a job by its events, oldest first.
pub(crate) fn attempts(job: &domain::Job, events: &[domain::Event]) -> Vec<wire::Attempt> {
    use domain::EventKind;
    let mut attempts: Vec<wire::Attempt> = Vec::new();
    for event in events {
        let open = attempts.last_mut().filter(|attempt| attempt.ended_at.is_none());
        match (&event.kind, open) {
            (EventKind::Claimed { worker, lease, attempt, .. }, _) => attempts.push(wire::Attempt {
                attempt: *attempt,
                lease: lease.0,
                worker_id: worker.as_ref().map(|worker| worker.as_str().to_owned()),
                started_at: to_wire(event.at),
                requested: job.spec.resources.as_ref().map(resources),
                image_digest: job.image_digest_of(*lease).map(ToString::to_string),
                ..wire::Attempt::default()
            }),
            (EventKind::Started { .. }, Some(open)) => open.started_at = to_wire(event.at),
            (kind, Some(open)) if kind.ends_attempt() => end(open, event),
            _ => {}
        }
    }
    attempts
}

fn end(attempt: &mut wire::Attempt, event: &domain::Event) {
    let (outcome, exit, reason) = ending(&event.kind);
    attempt.ended_at = Some(to_wire(event.at));
    attempt.outcome = Some(outcome.to_owned());
    attempt.exit_code = exit.code;
    attempt.signal = exit.signal;
    attempt.reason = reason;
    if let Some(measured) = &event.measured {
        attempt.usage = Some(spent(&measured.spent));
        if let Some(requested) = &measured.requested {
            attempt.requested = Some(resources(requested));
        }
    }
}

/// How an attempt ended: a word, the exit of its process, and what there is to say.
fn ending(kind: &domain::EventKind) -> (&'static str, domain::Exit, Option<String>) {
    use domain::{EndReason, EventKind, Exit};
    match kind {
        EventKind::Done { exit, .. } | EventKind::Finished { exit, .. } => ("done", *exit, None),
        EventKind::Drained { exit, rule, .. } => ("stopped", *exit, rule.clone()),
        EventKind::Requeued { cause, .. } => {
            let (word, exit, message) = super::events::requeue_cause(cause);
            (word, exit.unwrap_or_default(), message)
        }
        EventKind::Failed { reason, .. } => {
            let (word, exit) = match reason {
                EndReason::Attempt { exit, .. } => ("failed", *exit),
                EndReason::WorkerLost { .. } => ("worker_lost", Exit::default()),
                EndReason::Timeout => ("timeout", Exit::default()),
                _ => ("failed", Exit::default()),
            };
            (word, exit, Some(reason.to_string()))
        }
        EventKind::Cancelled { reason } => ("cancelled", Exit::default(), Some(reason.to_string())),
        _ => ("stopped", Exit::default(), None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::{
        Event, EventKind, Exit, JobId, JobSpec, Lease, Phase, RequeueCause, Span, Timestamp, WorkerId,
    };

    use super::*;

    #[test]
    fn each_attempt_has_its_own_end_and_usage() {
        let resources = domain::Resources { cpu_millis: 2000, ..domain::Resources::default() };
        let spec = JobSpec { resources: Some(resources.clone()), ..JobSpec::shell("x") };
        let id = JobId::from_random([1; 16]);
        let job = domain::Job::new(id, Arc::new(spec), Phase::Pending, Timestamp::default());
        let claimed = |lease, attempt| EventKind::Claimed {
            worker: Some(WorkerId::new("w")),
            lease: Lease(lease),
            attempt,
            waited: Span::ZERO,
        };
        let at = |second: i64, kind| Event::of_job(id, Timestamp::from_micros(second * 1_000_000), kind);
        let exit = Exit { code: Some(3), signal: None };
        let cause = RequeueCause::Failed { exit, message: None };
        let requeued = EventKind::Requeued { lease: Lease(1), attempt: 1, delay: Span::ZERO, cause };
        let spent = domain::Spent { cpu_user_ms: Some(7), ..domain::Spent::default() };
        let asked = domain::Resources { cpu_millis: 1000, ..domain::Resources::default() };
        let measured = domain::Measured { spent, requested: Some(asked) };
        let events = [
            at(0, EventKind::Submitted { blocked: false }),
            at(1, claimed(1, 1)),
            at(4, requeued).measured(Some(measured)),
            at(5, claimed(3, 2)),
        ];
        let shown = attempts(&job, &events);
        assert_eq!(shown.len(), 2);
        assert_eq!((shown[0].outcome.as_deref(), shown[0].exit_code), (Some("failed"), Some(3)));
        assert_eq!(shown[0].usage.unwrap().cpu_user_ms, Some(7));
        assert!((shown[0].requested.as_ref().unwrap().cpus - 1.0).abs() < 1e-9, "as it was then");
        assert_eq!((shown[1].attempt, shown[1].lease, shown[1].ended_at), (2, 3, None));
        assert!((shown[1].requested.as_ref().unwrap().cpus - 2.0).abs() < 1e-9);
    }
}
