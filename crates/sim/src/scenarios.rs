//! Whole runs with a name: what the tests go through, and what a soak picks from by the seed.

use std::fmt;
use std::time::Duration;

use muster_domain::{Resources, Span, Status};

use crate::broken::Broken;
use crate::cluster::{Cluster, Settings};
use crate::faults::Mischief;
use crate::live::{LivePlan, run_live};
use crate::mail::Network;
use crate::plan::GangPlan;

const HOUR: u32 = 3600;

/// What a run has been through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub transactions: u64,
    /// How often gangs were stopped.
    pub stops: u64,
    /// What went wrong on purpose, as far as it was counted.
    pub faults: u64,
}

/// A run that a seed decides.
#[derive(Debug, Clone)]
pub enum Scenario {
    /// Schedulers as they are, among faults.
    Live(LivePlan),
    /// A gang of 64 to which something happens in every round.
    Gang { per_worker: u32, rounds: u32 },
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live(plan) => write!(
                f,
                "{} schedulers, {} workers, {} attempts, {} s of trouble",
                plan.schedulers,
                plan.workers,
                plan.max_attempts,
                plan.trouble.as_secs()
            ),
            Self::Gang { per_worker, rounds } => {
                write!(f, "a gang of 64, {per_worker} to a worker, {rounds} rounds")
            }
        }
    }
}

impl Scenario {
    /// The scenario of a seed in a soak.
    pub fn of(seed: u64) -> Self {
        let live = |schedulers, max_attempts, minutes: u64| {
            let trouble = Duration::from_secs(60 * minutes);
            Self::Live(LivePlan { schedulers, trouble, max_attempts, ..LivePlan::default() })
        };
        match seed % 20 {
            0 => Self::Gang { per_worker: 1, rounds: 1000 },
            1 => Self::Gang { per_worker: 8, rounds: 1000 },
            2..4 => live(1, 1000, 10),
            4..8 => live(2, 3, 10),
            8..10 => live(5, 1000, 30),
            10..14 => live(3, 2, 10),
            _ => live(3, 1000, 20),
        }
    }

    pub fn run(&self, seed: u64) -> Result<Tally, Broken> {
        match self {
            Self::Live(plan) => run_live(seed, plan).map(|report| Tally {
                transactions: report.transactions,
                stops: report.stops,
                faults: report.faults.values().sum(),
            }),
            Self::Gang { per_worker, rounds } => torment(seed, *per_worker, *rounds),
        }
    }
}

fn memory(memory_mb: u64) -> Resources {
    Resources { memory_mb, ..Resources::default() }
}

/// 64 ranks, on workers that are `per_worker` times as large, with some to spare and other gangs about.
fn torment(seed: u64, per_worker: u32, rounds: u32) -> Result<Tally, Broken> {
    let settings = Settings {
        workers: 72 / per_worker as usize,
        resources: memory(1000 * u64::from(per_worker)),
        slots: None,
        retention: Some(Span::from_secs(120)),
    };
    let mut cluster = Cluster::new(seed, &settings)?;
    let gang = cluster.submit_gang(&GangPlan {
        size: 64,
        per_worker,
        max_attempts: 1000,
        need: memory(600),
        ..GangPlan::default()
    })?;
    cluster.pick_on(gang);
    // A hundred messages go into a round: few of them may be lost, or no round would be without a loss.
    let network = Network { lost: 2, answers_lost: 4, doubled: 20, late: 1 };
    let siblings = Mischief { siblings: 3, sibling_needs: [300, 600], ..Mischief::plenty() };
    cluster.set_mischief(Mischief { network, hangs: 1, unpushed: 5, ..siblings });
    cluster.run_until(Span::from_secs(rounds * HOUR / 10), |cluster| cluster.round(gang) >= rounds)?;
    // Everybody is back and the round that is under way has no silent rank when the end is near.
    cluster.calm();
    cluster.run_for(Span::from_secs(300))?;
    cluster.leave_alone();
    cluster.run_until(Span::from_secs(HOUR), |cluster| {
        cluster.tasks(gang).iter().all(|task| task.is_terminal())
    })?;
    let done = cluster.tasks(gang).iter().filter(|task| task.status() == Status::Done).count();
    if done != 64 {
        return Err(cluster.breach(format!("{done} of 64 ranks are done")));
    }
    cluster.run_to_the_end(Span::from_secs(HOUR))?;
    Ok(Tally { transactions: cluster.transactions(), stops: cluster.stops(), faults: u64::from(rounds) })
}
