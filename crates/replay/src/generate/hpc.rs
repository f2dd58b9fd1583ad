//! Rigid parallel jobs after the model of Lublin and Feitelson (Journal of Parallel and Distributed Computing
//! 63, 2003), with the parameters that it gives for batch jobs.
//!
//! Ours, not the model's: the gaps are scaled so that the load is as asked for, jobs have users and queues, and
//! users' time limits are drawn as logs show them, as round numbers that are mostly far too long.

use muster_domain::{Resources, Span, Timestamp};

use super::cycle::Cycle;
use super::distributions::gamma;
use super::options::Generator;
use super::random::Random;
use crate::workload::{TraceJob, Workload};

// Sizes: one processor, else a power of two more often than not, from a logarithm in two uniform stages.
const SERIAL: f64 = 0.244;
const POWER_OF_TWO: f64 = 0.576;
const LOG_LOW: f64 = 0.8;
/// Below the logarithm of the machine's size.
const LOG_MEDIUM_BELOW: f64 = 2.5;
const LOWER_STAGE: f64 = 0.86;
// Run times: the logarithm is of one of two gamma distributions, and larger jobs tend to the longer one.
const SHORT: (f64, f64) = (4.2, 0.94);
const LONG: (f64, f64) = (312.0, 0.03);
const SHORT_SLOPE: f64 = -0.0054;
const SHORT_SHARE: f64 = 0.78;
/// About two days.
const LONGEST_LOG: f64 = 12.0;
// Gaps in the busy hours, and how the day is spread.
const GAP: (f64, f64) = (10.2303, 0.4871);
const LONGEST_GAP_LOG: f64 = 13.0;
const DAY: (f64, f64) = (8.1737, 3.9631);

/// Limits that people write, in seconds.
const ROUND_LIMITS: [u32; 14] =
    [300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 28_800, 43_200, 86_400, 129_600, 172_800];

pub(super) fn jobs(generator: &Generator) -> Workload {
    let mut random = Random::new(generator.seed);
    let mut jobs: Vec<TraceJob> = Vec::with_capacity(generator.jobs as usize);
    let mut gaps = Vec::with_capacity(generator.jobs as usize);
    let popularity = popularity(generator.users);
    let mut work = 0.0;
    for _ in 0..generator.jobs {
        let tasks = size(&mut random, generator.size);
        let run = run_seconds(&mut random, tasks);
        let user = random.weighted(&popularity) as u32;
        gaps.push(gamma(&mut random, GAP.0, GAP.1).min(LONGEST_GAP_LOG).exp());
        work += f64::from(tasks) * f64::from(run);
        jobs.push(TraceJob {
            submit: Timestamp::default(),
            run: Span::from_secs(run),
            limit: Some(limit(&mut random, run)),
            tasks,
            need: Resources { cpu_millis: 1000, ..Resources::default() },
            // People stay in the queue of their group.
            queue: user % generator.queues,
            user,
            priority: 0,
            preemptible: true,
        });
    }
    let wanted = work / (f64::from(generator.size) * generator.load);
    arrive(&mut jobs, &gaps, wanted, &Cycle::gamma(DAY.0, DAY.1));
    named(jobs, generator)
}

/// Spreads the jobs over `wanted` seconds, in the proportions of the gaps, and by day rather than by night.
pub(super) fn arrive(jobs: &mut [TraceJob], gaps: &[f64], wanted: f64, cycle: &Cycle) {
    let sum: f64 = gaps.iter().sum();
    let scale = if sum > 0.0 { wanted / sum } else { 0.0 };
    let mut at = 0.0;
    for (job, gap) in jobs.iter_mut().zip(gaps) {
        at = cycle.after(at, gap * scale);
        job.submit = Timestamp::from_micros(at.round() as i64 * 1_000_000);
    }
}

/// Few users submit most jobs.
pub(super) fn popularity(users: u32) -> Vec<f64> {
    (1..=users).map(|rank| 1.0 / f64::from(rank)).collect()
}

pub(super) fn named(jobs: Vec<TraceJob>, generator: &Generator) -> Workload {
    let list = |count: u32, word: &str| (1..=count).map(|number| format!("{word}-{number}")).collect();
    Workload { jobs, queues: list(generator.queues, "queue"), users: list(generator.users, "user") }
}

fn size(random: &mut Random, machine: u32) -> u32 {
    let high = f64::from(machine).log2();
    if machine < 2 || random.chance(SERIAL) {
        return 1;
    }
    let low = LOG_LOW.min(high);
    let medium = (high - LOG_MEDIUM_BELOW).max(low);
    let logarithm =
        if random.chance(LOWER_STAGE) { random.between(low, medium) } else { random.between(medium, high) };
    let size = if random.chance(POWER_OF_TWO) { logarithm.round().exp2() } else { logarithm.exp2() };
    (size.round() as u32).clamp(1, machine)
}

fn run_seconds(random: &mut Random, tasks: u32) -> u32 {
    let short = (SHORT_SLOPE * f64::from(tasks) + SHORT_SHARE).clamp(0.0, 1.0);
    let (shape, scale) = if random.chance(short) { SHORT } else { LONG };
    (gamma(random, shape, scale).min(LONGEST_LOG).exp().round() as u32).max(1)
}

/// A tenth of the users know how long it takes; the others ask for some multiple, as a round number.
fn limit(random: &mut Random, run: u32) -> Span {
    let wanted =
        if random.chance(0.1) { f64::from(run) } else { f64::from(run) / random.positive().max(0.01) };
    let longest = ROUND_LIMITS[ROUND_LIMITS.len() - 1].max(run);
    let round = ROUND_LIMITS.iter().copied().find(|limit| f64::from(*limit) >= wanted).unwrap_or(longest);
    Span::from_secs(round.max(run))
}
