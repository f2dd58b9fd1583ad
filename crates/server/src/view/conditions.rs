//! When a job may start and when it is run again, as the API shows it.

use std::collections::BTreeMap;

use muster_domain as domain;
use muster_protocol as wire;

pub(crate) const fn rule(rule: domain::Rule) -> wire::DependencyRule {
    match rule {
        domain::Rule::AllSuccess => wire::DependencyRule::AllSuccess,
        domain::Rule::AllDone => wire::DependencyRule::AllDone,
        domain::Rule::AllFailed => wire::DependencyRule::AllFailed,
        domain::Rule::OneFailed => wire::DependencyRule::OneFailed,
        domain::Rule::OneSuccess => wire::DependencyRule::OneSuccess,
        domain::Rule::NoneFailed => wire::DependencyRule::NoneFailed,
        domain::Rule::Always => wire::DependencyRule::Always,
    }
}

/// The rules of dependencies that are not simply to succeed, by the job's id.
pub(super) fn rules(spec: &domain::JobSpec) -> BTreeMap<String, wire::DependencyRule> {
    let named = spec.depends_on.iter().zip(&spec.rules);
    named.map(|(id, given)| (id.to_string(), rule(*given))).collect()
}

pub(super) const fn if_unmet(given: domain::IfUnmet) -> wire::IfUnmet {
    match given {
        domain::IfUnmet::Fail => wire::IfUnmet::Fail,
        domain::IfUnmet::Cancel => wire::IfUnmet::Cancel,
        domain::IfUnmet::Run => wire::IfUnmet::Run,
    }
}

pub(super) fn unique(unique: &domain::Unique) -> wire::Unique {
    let on_conflict = if unique.replace { wire::OnConflict::Replace } else { wire::OnConflict::Existing };
    wire::Unique { key: unique.key.clone(), on_conflict }
}

/// `None` for the policy that a job has when it says nothing.
pub(super) fn retry(policy: &domain::retry::RetryPolicy) -> Option<wire::Retry> {
    if *policy == domain::retry::RetryPolicy::default() {
        return None;
    }
    let backoff = policy.backoff;
    let some = |span: domain::Span| (span > domain::Span::ZERO).then(|| span.as_secs_f64());
    let signals = |numbers: &Vec<i32>| numbers.iter().map(|number| domain::signal::name(*number)).collect();
    Some(wire::Retry {
        initial_seconds: some(backoff.initial),
        factor: (backoff.factor_milli > 0).then(|| f64::from(backoff.factor_milli) / 1e3),
        max_seconds: some(backoff.cap),
        jitter: (backoff.jitter_percent > 0).then(|| f64::from(backoff.jitter_percent) / 100.0),
        exit_codes: policy.on.exit_codes.clone(),
        signals: policy.on.signals.as_ref().map(signals),
        lost: (!policy.on.lost).then_some(false),
        timeout: (!policy.on.timeout).then_some(false),
        oom: (!policy.on.oom).then_some(false),
        oom_memory_factor: policy.oom_memory.map(|growth| f64::from(growth.factor_milli) / 1e3),
        oom_memory_max_mb: policy.oom_memory.and_then(|growth| growth.most_mb),
        requeue_exit_codes: Some(policy.requeue_exit_codes.clone()),
    })
}

pub(crate) const fn scope(scope: domain::SignalScope) -> wire::SignalScope {
    match scope {
        domain::SignalScope::Leader => wire::SignalScope::Leader,
        domain::SignalScope::Group => wire::SignalScope::Group,
        domain::SignalScope::Descendants => wire::SignalScope::Descendants,
        domain::SignalScope::All => wire::SignalScope::All,
    }
}

pub(crate) fn concurrency(limit: &domain::Concurrency) -> wire::Concurrency {
    wire::Concurrency { key: limit.key.clone(), limit: limit.limit }
}
