//! A gang of 64 that loses a rank, a worker or its place in every one of its rounds. `make soak` goes through
//! thousands of them.
#![expect(clippy::panic, reason = "a test may fail")]

use muster_sim::{Scenario, runs_with_fresh};

fn torment(test: &str, per_worker: u32, rounds: u32) {
    let runs = runs_with_fresh(&[1], 1, rounds);
    for seed in runs.seeds {
        let rounds = runs.rounds;
        match (Scenario::Gang { per_worker, rounds }).run(seed) {
            Ok(tally) => println!("seed {seed}: {tally:?}"),
            Err(broken) => panic!(
                "again with: MUSTER_SIM_SEED={seed} MUSTER_SIM_ROUNDS={rounds} cargo test -p muster-sim --test gangs \
                 {test}\n{broken}"
            ),
        }
    }
}

#[test]
fn sixty_four_ranks_on_as_many_workers_survive_round_after_round() {
    torment("sixty_four_ranks_on_as_many_workers_survive_round_after_round", 1, 100);
}

#[test]
fn sixty_four_ranks_that_share_workers_survive_too() {
    torment("sixty_four_ranks_that_share_workers_survive_too", 8, 60);
}
