//! The simulator foretells what a running scheduler does: the same workload is played through the board and
//! through the engine of the running scheduler, under the same policy.
//!
//! Both ask the same rules (`muster_planner::policy`) but find places by different means: the board decides on all
//! nodes in one pass, the engine hands singles to workers that ask and places gangs in passes of their own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "test code, also outside of the test functions")]

mod cluster;

use cluster::{Fate, play};
use muster_domain::{Resources, Span};
use muster_replay::generate::{Generator, Kind};
use muster_replay::{Cluster, NodeGroup, Policy, PolicyName, Settings, Workload, replay};

/// Jobs whose time limits are what they take, in one queue; every fourth is more important where that is asked for.
fn workload(generator: Generator, important: bool) -> Workload {
    let mut workload = generator.trace().workload;
    for (at, job) in workload.jobs.iter_mut().enumerate() {
        job.limit = Some(job.run);
        job.queue = 0;
        job.priority = i32::from(important && at % 4 == 0);
    }
    workload
}

fn simulated(workload: &Workload, cluster: &Cluster, policy: Policy) -> Vec<Fate> {
    let outcome = replay(workload, cluster, &policy, &Settings::default(), &mut |_| {}).unwrap();
    outcome.jobs.iter().map(|job| (job.start, job.end)).collect()
}

fn nodes(count: u32, gpus: u64) -> Cluster {
    let each = Resources { gpus, ..Resources::default() };
    Cluster { nodes: vec![NodeGroup { count, each, ..NodeGroup::default() }], ..Cluster::default() }
}

/// Without stops, which take time in a running cluster.
fn calm(name: PolicyName) -> Policy {
    Policy { preempt: false, ..Policy::named(name) }
}

#[test]
fn singles_on_nodes_of_one_place_start_at_the_very_same_times() {
    let generator = Generator { jobs: 250, size: 2, load: 1.4, gangs: 0.0, ..Generator::new(Kind::Ml) };
    for seed in [1, 2] {
        let workload = workload(Generator { seed, ..generator }, true);
        for name in [PolicyName::Fifo, PolicyName::Greedy, PolicyName::Sjf, PolicyName::Muster] {
            let policy = Policy { pin_after: Span::from_secs(1800), ..calm(name) };
            let (sim, live) =
                (simulated(&workload, &nodes(16, 1), policy), play(&workload, &nodes(16, 1), policy));
            let waited = |longer_than: Span| {
                let fates = workload.jobs.iter().zip(&sim);
                fates.filter(|(job, fate)| fate.0.since(job.submit) > longer_than).count()
            };
            println!(
                "{name}, seed {seed}: {} wait, {} for very long",
                waited(Span::ZERO),
                waited(policy.pin_after)
            );
            assert!(waited(Span::ZERO) > 20, "{name}: hardly anybody waits, so that nothing is compared");
            for (at, (sim, live)) in sim.iter().zip(&live).enumerate() {
                assert_eq!(sim, live, "{name}, seed {seed}: job {at} of {:?}", workload.jobs[at]);
            }
        }
    }
}

fn mean_completion(workload: &Workload, fates: &[Fate]) -> f64 {
    let each = workload.jobs.iter().zip(fates).map(|(job, fate)| fate.1.since(job.submit).as_secs_f64());
    each.sum::<f64>() / workload.jobs.len() as f64
}

/// Singles and gangs on nodes of eight GPUs: no longer the same, for the reasons that ADR 21 gives. When this was
/// written the running scheduler was 0.1 to 1.9 % away for `fifo`, `greedy`, `largest-gang`, `sjf` and `sjf-easy`, and 6 to
/// 8 % quicker for `easy`, `easy-sjbf` and `muster`: claims come before the pass over gangs, so that singles start that
/// the board holds back for an earlier gang. The bound leaves some room above that.
fn bound(name: PolicyName) -> f64 {
    match name {
        PolicyName::Fifo
        | PolicyName::Greedy
        | PolicyName::LargestGang
        | PolicyName::Sjf
        | PolicyName::SjfEasy => 0.03,
        PolicyName::Easy | PolicyName::EasySjbf | PolicyName::Muster => 0.10,
    }
}

#[test]
fn gangs_and_singles_complete_about_as_the_simulator_says() {
    let generator = Generator { jobs: 300, size: 8, load: 0.9, gangs: 0.4, ..Generator::new(Kind::Ml) };
    for name in PolicyName::ALL {
        let (mut sim_sum, mut live_sum) = (0.0, 0.0);
        for seed in [1, 2, 3] {
            let workload = workload(Generator { seed, ..generator }, false);
            let (sim, live) =
                (simulated(&workload, &nodes(8, 8), calm(name)), play(&workload, &nodes(8, 8), calm(name)));
            sim_sum += mean_completion(&workload, &sim);
            live_sum += mean_completion(&workload, &live);
        }
        let apart = (live_sum - sim_sum) / sim_sum;
        println!(
            "{name}: {:.0} s simulated, {:.0} s live, {:+.1} %",
            sim_sum / 3.0,
            live_sum / 3.0,
            apart * 100.0
        );
        assert!(apart.abs() <= bound(name), "{name}: {:+.1} % apart", apart * 100.0);
    }
}
