//! Many gangs of different sizes and single jobs on few workers: nobody waits for ever for what another one
//! holds, whatever goes wrong meanwhile.
#![expect(clippy::panic, reason = "a test may fail")]

use std::collections::BTreeMap;

use muster_domain::{EndReason, GangId, Phase, Resources, Span, Status};
use muster_sim::{Broken, Cluster, GangPlan, JobPlan, Mischief, Random, Settings, runs_with_fresh};

const MINUTE: u32 = 60;

fn memory(memory_mb: u64) -> Resources {
    Resources { memory_mb, ..Resources::default() }
}

fn crowded(seed: u64) -> Result<Cluster, Broken> {
    let resources = Resources { gpus: 4, vram_mb: 400, ..memory(1000) };
    let settings = Settings { workers: 6, resources, slots: Some(4), retention: None };
    Cluster::new(seed, &settings)
}

/// Some want whole GPUs, some a part of one.
fn wants(random: &mut Random, most: u32, unit: u64) -> Resources {
    let need = memory(u64::from(random.within(1, most)) * unit);
    match random.within(0, 5) {
        0 => Resources { gpus: 1, ..need },
        1 => Resources { gpus: 2, vram_mb: 100, ..need },
        2 => Resources { vram_mb: u64::from(random.within(2, 8)) * 10, ..need },
        _ => need,
    }
}

/// Gangs that want up to all workers, and singles that fit in between.
fn fill(cluster: &mut Cluster, random: &mut Random, attempts: u32) -> Result<Vec<(GangId, bool)>, Broken> {
    let mut gangs = Vec::new();
    for n in 0..40 {
        let size = random.within(2, 6);
        let keep_done = n % 2 == 0;
        let after = match random.pick(&gangs).copied() {
            Some((before, _)) if random.chance(200) => vec![GangId::to_string(&before)],
            _ => Vec::new(),
        };
        let plan = GangPlan {
            size,
            min: random.chance(200).then(|| size.div_ceil(2)),
            per_worker: random.within(1, 2),
            keep_done,
            priority: random.within(0, 2) as i32,
            max_attempts: attempts,
            need: wants(random, 10, 50),
            after,
            ..GangPlan::default()
        };
        gangs.push((cluster.submit_gang(&plan)?, keep_done));
        let need = wants(random, 5, 100);
        let priority = random.within(0, 2) as i32;
        cluster.submit(&JobPlan { priority, need, max_attempts: attempts, ..JobPlan::default() })?;
    }
    Ok(gangs)
}

/// How the tasks of each gang ended.
fn ends(cluster: &Cluster, gang: GangId) -> BTreeMap<Status, usize> {
    let mut counts = BTreeMap::new();
    for task in cluster.tasks(gang) {
        *counts.entry(task.status()).or_default() += 1;
    }
    counts
}

fn each_seed(test: &str, seeds: &[u64], body: impl Fn(u64) -> Result<Cluster, Broken>) {
    for seed in runs_with_fresh(seeds, 2, 0).seeds {
        println!("seed {seed}");
        match body(seed) {
            Ok(cluster) => println!(
                "seed {seed}: {} stops, {} transactions, {:?}",
                cluster.stops(),
                cluster.transactions(),
                cluster.statuses()
            ),
            Err(broken) => {
                panic!(
                    "again with: MUSTER_SIM_SEED={seed} cargo test -p muster-sim --test crowd {test}\n{broken}"
                )
            }
        }
    }
}

/// Without faults every gang and every single is done, however they compete.
#[test]
fn a_crowd_is_served_to_the_last() {
    each_seed("a_crowd_is_served_to_the_last", &[1, 2, 3, 4, 5, 6], |seed| {
        let mut cluster = crowded(seed)?;
        let gangs = fill(&mut cluster, &mut Random::new(seed), 3)?;
        cluster.run_to_the_end(Span::from_secs(60 * MINUTE))?;
        for (gang, _) in gangs {
            let ends = ends(&cluster, gang);
            assert!(
                ends.keys().all(|s| matches!(s, Status::Done | Status::Cancelled)),
                "seed {seed}: {ends:?}"
            );
            assert!(ends.contains_key(&Status::Done), "seed {seed}: {ends:?}");
        }
        Ok(cluster)
    });
}

/// After half an hour of faults everything still ends; gangs with attempts to spare end well.
#[test]
fn a_crowd_among_faults_ends_once_they_stop() {
    each_seed("a_crowd_among_faults_ends_once_they_stop", &[1, 2, 3, 4, 5, 6], |seed| {
        let mut cluster = crowded(seed)?;
        let gangs = fill(&mut cluster, &mut Random::new(seed), 1000)?;
        let lasts = Some((2_000, 90_000));
        cluster.set_mischief(Mischief { finishes: 50, lasts, ..Mischief::plenty() });
        cluster.run_for(Span::from_secs(30 * MINUTE))?;
        cluster.calm();
        cluster.run_to_the_end(Span::from_secs(120 * MINUTE))?;
        for (gang, _) in gangs {
            for task in cluster.tasks(gang) {
                let well = matches!(
                    &task.phase,
                    Phase::Done { .. }
                        | Phase::Cancelled { reason: EndReason::NotNeeded, .. }
                        | Phase::Failed { reason: EndReason::DependencyFailed { .. }, .. }
                );
                assert!(well, "seed {seed}: {task:?}");
            }
        }
        Ok(cluster)
    });
}

/// With few attempts gangs fail for good, and take nobody else's room with them.
#[test]
fn a_crowd_with_few_attempts_ends_too() {
    each_seed("a_crowd_with_few_attempts_ends_too", &[11, 12, 13, 14, 15, 16], |seed| {
        let mut cluster = crowded(seed)?;
        fill(&mut cluster, &mut Random::new(seed), 2)?;
        let mischief = Mischief {
            retries: true,
            siblings: 4,
            sibling_needs: [200, 500],
            fails: 200,
            ..Mischief::plenty()
        };
        cluster.set_mischief(mischief);
        cluster.run_for(Span::from_secs(20 * MINUTE))?;
        cluster.calm();
        cluster.run_to_the_end(Span::from_secs(120 * MINUTE))?;
        Ok(cluster)
    });
}
