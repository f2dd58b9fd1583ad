//! A gang of 64 that loses a rank, a worker or its place in every one of its rounds. `make soak` goes through
//! thousands of them.
#![expect(clippy::panic, reason = "a test may fail")]

use muster_domain::{Resources, Span, Status};
use muster_sim::{Broken, Cluster, GangPlan, Mischief, Network, Settings, runs};

const HOUR: u32 = 3600;

fn memory(memory_mb: u64) -> Resources {
    Resources { memory_mb, ..Resources::default() }
}

/// 64 ranks, on workers that are `per_worker` times as large, with some to spare and other gangs about.
fn torment(seed: u64, per_worker: u32, rounds: u32) -> Result<(u64, u64), Broken> {
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
    assert_eq!(done, 64, "seed {seed}");
    cluster.run_to_the_end(Span::from_secs(HOUR))?;
    Ok((cluster.stops(), cluster.transactions()))
}

fn torment_all(per_worker: u32, rounds: u32) {
    let runs = runs(&[1], rounds);
    for seed in runs.seeds {
        match torment(seed, per_worker, runs.rounds) {
            Ok((stops, transactions)) => {
                println!("seed {seed}: {} rounds, {stops} stops, {transactions} transactions", runs.rounds);
            }
            Err(broken) => panic!("MUSTER_SIM_SEED={seed} MUSTER_SIM_ROUNDS={}: {broken}", runs.rounds),
        }
    }
}

#[test]
fn sixty_four_ranks_on_as_many_workers_survive_round_after_round() {
    torment_all(1, 150);
}

#[test]
fn sixty_four_ranks_that_share_workers_survive_too() {
    torment_all(8, 100);
}
