//! Pipelines and arrays as the API shows them: their state is worked out from the counts of their jobs.

use std::collections::BTreeMap;

use muster_domain as domain;
use muster_protocol as wire;
use muster_store::{JobView, SetCount, SetView};

use super::conditions;
use crate::clock::to_wire;

/// Jobs of one step that are named.
const NAMED_JOBS: usize = 100;

fn counts<'c>(parts: impl Iterator<Item = &'c SetCount>) -> wire::Counts {
    let mut counts = wire::Counts::new();
    for part in parts {
        *counts.entry(super::status(part.status)).or_default() += part.jobs;
    }
    counts
}

/// One word for many jobs. Those that were skipped went as they should.
fn status(parts: &[&SetCount]) -> wire::JobStatus {
    use domain::Status as S;
    let any = |wanted: &[S]| parts.iter().any(|part| part.jobs > 0 && wanted.contains(&part.status));
    let waits = any(&[S::Pending, S::Delayed, S::Held, S::Preempted]);
    let blocked = any(&[S::Blocked]);
    let ended = any(&[S::Done, S::Failed, S::Cancelled]);
    if any(&[S::Reserved, S::Running, S::Preempting, S::Finished]) || ((waits || blocked) && ended) {
        return wire::JobStatus::Running;
    }
    if waits {
        return wire::JobStatus::Pending;
    }
    if blocked {
        return wire::JobStatus::Blocked;
    }
    if any(&[S::Failed]) {
        return wire::JobStatus::Failed;
    }
    if parts.iter().any(|part| part.status == S::Cancelled && !part.skipped) {
        return wire::JobStatus::Cancelled;
    }
    wire::JobStatus::Done
}

fn is_open(status: wire::JobStatus) -> bool {
    !matches!(status, wire::JobStatus::Done | wire::JobStatus::Failed | wire::JobStatus::Cancelled)
}

fn done_at<'c>(
    status: wire::JobStatus,
    parts: impl Iterator<Item = &'c SetCount>,
) -> Option<jiff::Timestamp> {
    if is_open(status) {
        return None;
    }
    parts.filter_map(|part| part.last_end).max().map(to_wire)
}

pub(crate) fn set(view: &SetView) -> wire::JobSet {
    let set = &view.set;
    let status = status(&view.counts.iter().collect::<Vec<_>>());
    wire::JobSet {
        id: set.id.to_string(),
        kind: match set.kind {
            domain::SetKind::Pipeline => wire::SetKind::Pipeline,
            domain::SetKind::Array => wire::SetKind::Array,
        },
        name: set.name.clone(),
        status,
        created_at: to_wire(set.created_at),
        done_at: done_at(status, view.counts.iter()),
        size: u64::from(set.size),
        counts: counts(view.counts.iter()),
        max_parallel: set.max_parallel,
        repeated: false,
        warnings: Vec::new(),
    }
}

/// A pipeline with its steps; `jobs` are those that may be named, in any order.
pub(crate) fn pipeline(view: &SetView, jobs: &[JobView]) -> wire::Pipeline {
    let mut named: BTreeMap<&str, Vec<&domain::Job>> = BTreeMap::new();
    for job in jobs.iter().map(|view| &view.job) {
        if let Some(name) = job.member.as_ref().and_then(|member| member.step.as_deref()) {
            named.entry(name).or_default().push(job);
        }
    }
    let steps = view.set.outline.iter().map(|outline| {
        let mut jobs = named.remove(outline.name.as_str()).unwrap_or_default();
        jobs.sort_unstable_by_key(|job| (job.member.as_ref().and_then(|member| member.index), job.seq));
        step(outline, view, &jobs)
    });
    wire::Pipeline { set: set(view), steps: steps.collect() }
}

fn step(outline: &domain::StepOutline, view: &SetView, jobs: &[&domain::Job]) -> wire::Step {
    let own = || view.counts.iter().filter(|part| part.step.as_deref() == Some(outline.name.as_str()));
    let all_skipped = own().next().is_some() && own().all(|part| part.skipped);
    let status = if all_skipped { wire::JobStatus::Cancelled } else { status(&own().collect::<Vec<_>>()) };
    let need = |(name, given): &(String, domain::Rule)| wire::StepNeed {
        step: name.clone(),
        rule: conditions::rule(*given),
    };
    wire::Step {
        name: outline.name.clone(),
        needs: outline.needs.iter().map(need).collect(),
        status,
        size: own().map(|part| part.jobs).sum(),
        counts: counts(own()),
        jobs: jobs.iter().take(NAMED_JOBS).map(|job| job.id.to_string()).collect(),
        started_at: own().filter_map(|part| part.first_start).min().map(to_wire),
        done_at: done_at(status, own()),
        reason: jobs.iter().find_map(|job| job.reason()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(status: domain::Status, jobs: u64, skipped: bool) -> SetCount {
        let set = domain::SetId::from_random([1; 16]);
        SetCount { set, step: None, status, skipped, jobs, first_start: None, last_end: None }
    }

    #[test]
    fn one_word_for_many() {
        use domain::Status as S;
        let word = |parts: &[(S, bool)]| {
            let parts: Vec<SetCount> =
                parts.iter().map(|(status, skipped)| part(*status, 1, *skipped)).collect();
            status(&parts.iter().collect::<Vec<_>>())
        };
        assert_eq!(word(&[(S::Pending, false), (S::Blocked, false)]), wire::JobStatus::Pending);
        assert_eq!(word(&[(S::Blocked, false)]), wire::JobStatus::Blocked);
        assert_eq!(word(&[(S::Blocked, false), (S::Done, false)]), wire::JobStatus::Running);
        assert_eq!(word(&[(S::Done, false), (S::Failed, false)]), wire::JobStatus::Failed);
        assert_eq!(word(&[(S::Done, false), (S::Cancelled, true)]), wire::JobStatus::Done);
        assert_eq!(word(&[(S::Done, false), (S::Cancelled, false)]), wire::JobStatus::Cancelled);
    }
}
