//! Jobs that have something in common.

use serde::Serialize;

use super::Fate;
use super::spread::Spread;

/// How the jobs of a group fared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    pub name: String,
    pub jobs: u64,
    pub wait_s: Spread,
    /// From submission to end.
    pub jct_s: Spread,
    pub bounded_slowdown: Spread,
    pub preemptions: u64,
    /// Jobs that were stopped at least once.
    pub preempted_jobs: u64,
    /// Time in which resources were held in vain, added up over jobs.
    pub lost_s: f64,
}

impl Group {
    pub(super) fn of(name: &str, fates: &[&Fate]) -> Self {
        Self {
            name: name.to_owned(),
            jobs: fates.len() as u64,
            wait_s: Spread::of(fates.iter().map(|fate| fate.wait)),
            jct_s: Spread::of(fates.iter().map(|fate| fate.jct)),
            bounded_slowdown: Spread::of(fates.iter().map(|fate| fate.bounded_slowdown)),
            preemptions: fates.iter().map(|fate| u64::from(fate.preemptions)).sum(),
            preempted_jobs: fates.iter().filter(|fate| fate.preemptions > 0).count() as u64,
            lost_s: fates.iter().map(|fate| fate.lost).sum(),
        }
    }
}
