//! Training on nodes of eight GPUs: most jobs small and short, most GPU time in large gangs, and no time limits.
//!
//! The mix is made up: it has the traits that published studies of such clusters share (sizes that are powers
//! of two, run times over many orders of magnitude, larger jobs that run longer, trials that fail at once), and it
//! is fitted to none of them.

use muster_domain::{Resources, Span, Timestamp};

use super::cycle::Cycle;
use super::distributions::normal;
use super::hpc::{arrive, named, popularity};
use super::options::Generator;
use super::random::Random;
use crate::workload::{TraceJob, Workload};

pub(super) const GPUS_OF_A_NODE: u64 = 8;

/// Sizes of gangs in GPUs, and how often they come.
const GANGS: [(u32, f64); 7] =
    [(2, 0.26), (4, 0.24), (8, 0.27), (16, 0.12), (32, 0.07), (64, 0.03), (128, 0.01)];
/// Trials that stop at the first mistake.
const FAILS_AT_ONCE: f64 = 0.2;
// Run times of the others: log-normal around the median, which grows with the size.
const MEDIAN_SECONDS: f64 = 900.0;
const MEDIAN_GROWTH: f64 = 0.45;
const DEVIATION: f64 = 1.7;
const LONGEST_SECONDS: f64 = 14.0 * 86_400.0;
/// The busiest hours come later in the day than in a computing centre.
const DAY: (f64, f64) = (6.0, 5.0);

pub(super) fn jobs(generator: &Generator) -> Workload {
    let mut random = Random::new(generator.seed);
    let mut jobs: Vec<TraceJob> = Vec::with_capacity(generator.jobs as usize);
    let mut gaps = Vec::with_capacity(generator.jobs as usize);
    let popularity = popularity(generator.users);
    // A gang that needs more than half of the cluster is nothing that people wait for every day.
    let largest = (generator.size / 2).max(1) * GPUS_OF_A_NODE as u32;
    let mut work = 0.0;
    for _ in 0..generator.jobs {
        let gpus = size(&mut random, generator.gangs, largest);
        let run = run_seconds(&mut random, gpus);
        let user = random.weighted(&popularity) as u32;
        gaps.push(gap(&mut random));
        work += f64::from(gpus) * f64::from(run);
        let each = u64::from(gpus).min(GPUS_OF_A_NODE);
        jobs.push(TraceJob {
            submit: Timestamp::default(),
            run: Span::from_secs(run),
            limit: None,
            tasks: (u64::from(gpus) / each) as u32,
            need: Resources { gpus: each, ..Resources::default() },
            queue: user % generator.queues,
            user,
            priority: 0,
            preemptible: true,
        });
    }
    let total = f64::from(generator.size) * GPUS_OF_A_NODE as f64;
    arrive(&mut jobs, &gaps, work / (total * generator.load), &Cycle::gamma(DAY.0, DAY.1));
    named(jobs, generator)
}

fn size(random: &mut Random, gangs: f64, largest: u32) -> u32 {
    if !random.chance(gangs) {
        return 1;
    }
    let weights = GANGS.map(|(_, weight)| weight);
    GANGS[random.weighted(&weights)].0.min(largest)
}

fn run_seconds(random: &mut Random, gpus: u32) -> u32 {
    if random.chance(FAILS_AT_ONCE) {
        return random.between(5.0, 120.0) as u32;
    }
    let median = MEDIAN_SECONDS * f64::from(gpus).powf(MEDIAN_GROWTH);
    let seconds = median * (normal(random) * DEVIATION).exp();
    seconds.clamp(10.0, LONGEST_SECONDS).round() as u32
}

/// Sweeps come at once, everything else one by one.
fn gap(random: &mut Random) -> f64 {
    if random.chance(0.3) { 0.01 * random.exponential() } else { random.exponential() }
}
