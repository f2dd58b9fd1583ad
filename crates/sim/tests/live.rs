//! The scheduler itself under a simulated clock and network: whatever goes wrong, no promise breaks, and everything
//! ends once nothing goes wrong any more.
#![expect(clippy::panic, reason = "a test may fail")]

use std::time::Duration;

use muster_sim::{LivePlan, run_live, runs_with_fresh};

/// Runs the plan with each seed. What cannot be repeated cannot be mended, so that a failure says how to.
fn each(test: &str, seeds: &[u64], fresh: usize, plan: &LivePlan) {
    for seed in runs_with_fresh(seeds, fresh, 0).seeds {
        match run_live(seed, plan) {
            Ok(report) => println!(
                "seed {seed}: {} transactions, {} stops, {} faults, {:?}",
                report.transactions,
                report.stops,
                report.faults.values().sum::<u64>(),
                report.statuses
            ),
            Err(broken) => panic!(
                "again with: MUSTER_SIM_SEED={seed} cargo test -p muster-sim --test live {test}\n{broken}"
            ),
        }
    }
}

#[test]
fn schedulers_among_faults_keep_their_promises() {
    let seeds = [1, 2, 3, 4, 5, 6, 7, 8];
    each("schedulers_among_faults_keep_their_promises", &seeds, 4, &LivePlan::default());
}

/// With few attempts gangs fail for good, and take nobody else's room with them.
#[test]
fn few_attempts_among_faults_end_too() {
    let plan = LivePlan { max_attempts: 2, trouble: Duration::from_secs(300), ..LivePlan::default() };
    each("few_attempts_among_faults_end_too", &[1, 2, 3, 4], 2, &plan);
}

#[test]
fn one_scheduler_is_enough() {
    let plan = LivePlan { schedulers: 1, trouble: Duration::from_secs(300), ..LivePlan::default() };
    each("one_scheduler_is_enough", &[1, 2], 1, &plan);
}

/// Workers that stop a job before its lease ends: whatever goes wrong, also when all schedulers are away for longer than
/// any lease, no job runs twice at a time.
#[test]
fn no_job_runs_twice_at_a_time_where_workers_fence_themselves() {
    let plan = LivePlan { fenced: true, blackouts: Some(Duration::from_secs(300)), ..LivePlan::default() };
    each("no_job_runs_twice_at_a_time_where_workers_fence_themselves", &[1, 2, 3, 4, 5, 6], 3, &plan);
}

/// All schedulers are away for up to two minutes, again and again: no job is stopped for it and none runs twice.
#[test]
fn jobs_outlive_schedulers_that_are_all_away() {
    let plan = LivePlan {
        fenced: true,
        blackouts: Some(Duration::from_secs(120)),
        only_blackouts: true,
        trouble: Duration::from_secs(900),
        ..LivePlan::default()
    };
    for seed in runs_with_fresh(&[1, 2, 3, 4], 2, 0).seeds {
        match run_live(seed, &plan) {
            Ok(report) => {
                assert!(report.faults["all schedulers away"] >= 3, "seed {seed}: {report:?}");
                assert_eq!(report.fenced, 0, "seed {seed}: no lease may end: {report:?}");
            }
            Err(broken) => panic!(
                "again with: MUSTER_SIM_SEED={seed} cargo test -p muster-sim --test live outlive\n{broken}"
            ),
        }
    }
}

/// Everything that happens follows from the seed.
#[test]
fn a_run_repeats_exactly() {
    let plan = LivePlan { trouble: Duration::from_secs(120), ..LivePlan::default() };
    for seed in [5, 6] {
        match (run_live(seed, &plan), run_live(seed, &plan)) {
            (Ok(one), Ok(other)) => assert_eq!(one, other),
            (one, other) => panic!("seed {seed}: {one:?}\n{other:?}"),
        }
    }
}

/// A run of another seed is another run.
#[test]
fn seeds_differ() {
    let plan = LivePlan { trouble: Duration::from_secs(30), ..LivePlan::default() };
    match (run_live(1, &plan), run_live(2, &plan)) {
        (Ok(one), Ok(other)) => assert_ne!(one.digest, other.digest),
        (one, other) => panic!("{one:?}\n{other:?}"),
    }
}
