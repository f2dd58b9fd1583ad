//! Several policies at once, as many as the machine has processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use muster_replay::figures::{Figures, figures};
use muster_replay::{Cluster, Outcome, Policy, PolicyName, ReplayError, Settings, Workload, replay};

use super::meter::Meter;
use crate::failure::UsageError;

/// A policy and what came of it.
#[derive(Debug)]
pub(crate) struct Played {
    pub(crate) policy: PolicyName,
    pub(crate) outcome: Outcome,
    pub(crate) figures: Figures,
}

/// Plays the workload under each policy; the answers come in the order of the policies.
pub(crate) fn play(
    workload: &Workload,
    cluster: &Cluster,
    policies: &[Policy],
    settings: &Settings,
) -> anyhow::Result<Vec<Played>> {
    let names: Vec<PolicyName> = policies.iter().map(|policy| policy.name).collect();
    let meter = Meter::new(&names, workload.jobs.len());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<Played, ReplayError>)>> = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(policies.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((index, policy)) = take(&next, policies) {
                    let run = Policy { restart: settings.restart, ..policy };
                    let outcome = replay(workload, cluster, &run, settings, &mut |progress| {
                        meter.advance(index, progress.ended);
                    });
                    meter.finish(index);
                    let played = outcome.map(|outcome| {
                        let figures = figures(workload, cluster, &outcome);
                        Played { policy: policy.name, outcome, figures }
                    });
                    // A thread that panicked takes the whole scope with it, so that the lock is never lost.
                    if let Ok(mut results) = results.lock() {
                        results.push((index, played));
                    }
                }
            });
        }
        meter.show();
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_by_key(|(index, _)| *index);
    let played: Result<Vec<Played>, ReplayError> = results.into_iter().map(|(_, played)| played).collect();
    played.map_err(|error| UsageError(error.to_string()).into())
}

fn take(next: &AtomicUsize, policies: &[Policy]) -> Option<(usize, Policy)> {
    let index = next.fetch_add(1, Ordering::SeqCst);
    policies.get(index).map(|policy| (index, *policy))
}
