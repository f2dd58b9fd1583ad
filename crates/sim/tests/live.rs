//! The scheduler itself under a simulated clock and network: whatever goes wrong, no promise breaks, and everything
//! ends once nothing goes wrong any more.
#![expect(clippy::panic, reason = "a test may fail")]

use muster_sim::{LivePlan, run_live, runs};

fn each(seeds: &[u64], plan: &LivePlan) {
    for seed in runs(seeds, 0).seeds {
        match run_live(seed, plan) {
            Ok(report) => println!("seed {seed}: {report:?}"),
            Err(broken) => panic!("MUSTER_SIM_SEED={seed}: {broken}"),
        }
    }
}

#[test]
fn schedulers_among_faults_keep_their_promises() {
    each(&[1, 2, 3, 4], &LivePlan::default());
}

#[test]
fn a_run_repeats_exactly() {
    let plan = LivePlan { trouble: std::time::Duration::from_secs(120), ..LivePlan::default() };
    let (one, other) = (run_live(5, &plan), run_live(5, &plan));
    match (one, other) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (one, other) => panic!("{one:?}\n{other:?}"),
    }
}
