//! What an outcome comes to in numbers that can be compared.
//!
//! The wait of a job is all the time between its submission and its end in which it did not get on: before
//! its first start, and after it was stopped. For a job that nobody stops that is the time to its start.

mod class;
mod group;
mod spread;
#[cfg(test)]
mod tests;

pub use class::{SizeClass, Unit};
pub use group::Group;
pub use spread::Spread;

use muster_domain::{Span, Timestamp};
use serde::Serialize;

use crate::outcome::{Outcome, Sample};
use crate::settings::Cluster;
use crate::workload::{TraceJob, Workload};

/// Everything about one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// What sizes and amounts are counted in.
    pub unit: Unit,
    pub total: Group,
    /// From the first submission to the last end.
    pub makespan_s: f64,
    /// The share of the cluster that was held, over the makespan.
    pub utilisation: f64,
    /// The same less what was lost because jobs were stopped.
    pub useful: f64,
    /// The share that was held while jobs waited.
    pub utilisation_under_demand: f64,
    /// The share that was free while jobs waited, on nodes where the smallest of them did not fit.
    pub fragmentation: f64,
    /// Jain's index of the mean bounded slowdowns of queues: 1 when all fare alike.
    pub fairness_queues: f64,
    /// The same for users.
    pub fairness_users: f64,
    /// What was lost, in hours of one unit.
    pub lost_unit_hours: f64,
    pub passes: u64,
    pub by_size: Vec<Group>,
    pub by_queue: Vec<Group>,
}

/// Looks at all jobs of an outcome.
pub fn figures(workload: &Workload, cluster: &Cluster, outcome: &Outcome) -> Figures {
    let unit = Unit::of(cluster);
    let fates: Vec<Fate> =
        workload.jobs.iter().zip(&outcome.jobs).map(|(job, fate)| Fate::of(job, fate, unit)).collect();
    let makespan_s = makespan(workload, outcome).as_secs_f64();
    let room = unit.total(cluster) as f64 * makespan_s;
    let share = |amount: f64| if room > 0.0 { amount / room } else { 0.0 };
    let useful: f64 = fates.iter().map(|fate| fate.run * fate.amount).sum();
    let lost: f64 = fates.iter().map(|fate| fate.lost * fate.amount).sum();
    let demand = Demand::of(&outcome.samples);
    let by_queue = by_name(&fates, &workload.queues, |fate| fate.queue);
    let by_user = by_name(&fates, &workload.users, |fate| fate.user);
    Figures {
        unit,
        total: Group::of("all", &fates.iter().collect::<Vec<_>>()),
        makespan_s,
        utilisation: share(useful + lost),
        useful: share(useful),
        utilisation_under_demand: demand.used,
        fragmentation: demand.stranded,
        fairness_queues: jain(by_queue.iter().map(|group| group.bounded_slowdown.mean)),
        fairness_users: jain(by_user.iter().map(|group| group.bounded_slowdown.mean)),
        lost_unit_hours: lost / unit.scale() / 3600.0,
        passes: outcome.passes,
        by_size: by_size(&fates),
        by_queue,
    }
}

/// How one job fared, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fate {
    pub(crate) wait: f64,
    pub(crate) jct: f64,
    pub(crate) bounded_slowdown: f64,
    pub(crate) run: f64,
    pub(crate) lost: f64,
    /// In parts of the unit, as the cluster counts them.
    pub(crate) amount: f64,
    pub(crate) class: SizeClass,
    pub(crate) preemptions: u32,
    queue: u32,
    user: u32,
}

/// Runs that are shorter count as this long, so that they do not drown everything else.
const SHORTEST_RUN: f64 = 10.0;

impl Fate {
    pub(crate) fn of(job: &TraceJob, fate: &crate::outcome::JobOutcome, unit: Unit) -> Self {
        let run = job.run.as_secs_f64();
        let jct = fate.end.since(job.submit).as_secs_f64();
        let amount = unit.amount(job);
        Self {
            wait: (jct - run).max(0.0),
            jct,
            bounded_slowdown: (jct / run.max(SHORTEST_RUN)).max(1.0),
            run,
            lost: fate.lost.as_secs_f64(),
            amount: amount as f64,
            class: SizeClass::of(amount, unit),
            preemptions: fate.preemptions,
            queue: job.queue,
            user: job.user,
        }
    }
}

/// From the first submission to the last end.
pub fn makespan(workload: &Workload, outcome: &Outcome) -> Span {
    let first = workload.jobs.iter().map(|job| job.submit).min().unwrap_or_default();
    let last: Timestamp = outcome.jobs.iter().map(|fate| fate.end).max().unwrap_or_default();
    last.since(first)
}

/// The waits of all jobs in seconds, the shortest first.
pub(crate) fn waits(workload: &Workload, outcome: &Outcome) -> Vec<f64> {
    let fates = workload.jobs.iter().zip(&outcome.jobs);
    let mut waits: Vec<f64> = fates.map(|(job, fate)| Fate::of(job, fate, Unit::Gpus).wait).collect();
    waits.sort_by(f64::total_cmp);
    waits
}

fn by_size(fates: &[Fate]) -> Vec<Group> {
    let of_class = |class: SizeClass| {
        let members: Vec<&Fate> = fates.iter().filter(|fate| fate.class == class).collect();
        Group::of(class.name(), &members)
    };
    SizeClass::ALL.into_iter().map(of_class).filter(|group| group.jobs > 0).collect()
}

fn by_name(fates: &[Fate], names: &[String], position: impl Fn(&Fate) -> u32) -> Vec<Group> {
    let mut members: Vec<Vec<&Fate>> = vec![Vec::new(); names.len()];
    for fate in fates {
        if let Some(list) = members.get_mut(position(fate) as usize) {
            list.push(fate);
        }
    }
    let groups = names.iter().zip(&members).filter(|(_, list)| !list.is_empty());
    groups.map(|(name, list)| Group::of(name, list)).collect()
}

/// Jain's index: the square of the sum over the number times the sum of squares.
fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares > 0.0 { sum * sum / (count * squares) } else { 1.0 }
}

/// The cluster while jobs waited, as shares of it; each sample stands for the time until the next.
#[derive(Debug, Clone, Copy, Default)]
struct Demand {
    used: f64,
    stranded: f64,
}

impl Demand {
    fn of(samples: &[Sample]) -> Self {
        let (mut room, mut used, mut stranded) = (0.0, 0.0, 0.0);
        for pair in samples.windows(2) {
            let [now, next] = pair else { continue };
            if now.waiting_jobs == 0 {
                continue;
            }
            let seconds = next.at.since(now.at).as_secs_f64();
            room += now.total as f64 * seconds;
            used += now.used as f64 * seconds;
            stranded += now.stranded as f64 * seconds;
        }
        if room > 0.0 { Self { used: used / room, stranded: stranded / room } } else { Self::default() }
    }
}
