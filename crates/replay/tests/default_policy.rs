//! What the scheduler runs when nobody says otherwise must not be worse than skipping what does not fit.

mod reference;

use muster_domain::{Span, Timestamp};
use muster_planner::policy::{Policy, PolicyName};
use muster_replay::generate::{Generator, Kind};
use muster_replay::{Cluster, Settings, TraceJob, Workload, parse_cluster};

use reference::{cluster, figures, gpus, play, trace, workload};

/// The mean completion time of the default may be so much longer than that of `greedy`.
const MARGIN: f64 = 1.05;

fn compare(what: &str, workload: &Workload, cluster: &Cluster) {
    let completion = |name| figures(workload, &play(workload, cluster, name, &Settings::default())).flow;
    let (ours, greedy) = (completion(PolicyName::Muster), completion(PolicyName::Greedy));
    println!("{what}: {ours:.0} s, greedy {greedy:.0} s, {:+.1} %", (ours / greedy - 1.0) * 100.0);
    assert!(ours <= greedy * MARGIN, "{what}: {ours:.0} s on average, greedy {greedy:.0} s");
}

#[test]
fn the_default_stops_nothing_for_reasons_of_level() {
    assert!(!Policy::default().preempt_by_level);
}

#[test]
fn no_trace_completes_later_than_with_greedy() {
    let traces = [
        ("itp_c02", "15x8gpu"),
        ("itp_c06", "15x8gpu"),
        ("kth_sp2", "100cpu"),
        ("hpc2n", "240cpu"),
        ("philly", "80x8gpu"),
    ];
    for (name, cluster) in traces {
        let Some(text) = trace(&format!("{name}.csv.gz")) else { continue };
        let trace = muster_replay::trace::read(&text, 0).expect("a trace");
        compare(name, &trace.workload, &parse_cluster(cluster).expect("a cluster"));
    }
}

/// Numbers that look random and are the same everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// More than eight nodes of eight can do: many small jobs of hours, some gangs of two to six nodes, no limits.
fn overloaded(seed: u64) -> Workload {
    let mut numbers = Numbers(seed);
    let mut clock = 0;
    let job = |_| {
        clock += numbers.below(1000);
        let (tasks, each) = match numbers.below(10) {
            0 => (2 + numbers.below(5) as u32, 8),
            1 | 2 => (1, 8),
            3 | 4 => (1, 4),
            _ => (1, 1),
        };
        let hours = if numbers.below(5) == 0 { 30 } else { 3 };
        TraceJob {
            submit: Timestamp::default() + Span::from_secs(clock as u32),
            run: Span::from_secs((60 + numbers.below(hours * 3600)) as u32),
            limit: None,
            tasks,
            need: gpus(each),
            queue: 0,
            user: 0,
            priority: 0,
            preemptible: true,
        }
    };
    workload((0..2000).map(job).collect())
}

#[test]
fn a_small_overloaded_cluster_does_not_collapse() {
    for seed in [1, 2, 3] {
        let jobs = overloaded(seed);
        let cluster = cluster(8, gpus(8));
        let used = figures(&jobs, &play(&jobs, &cluster, PolicyName::Greedy, &Settings::default()));
        assert!(used.wait > 3600.0, "hardly anything waits, so that nothing is compared: {used:?}");
        compare(&format!("overloaded, seed {seed}"), &jobs, &cluster);
    }
    for seed in [4, 5] {
        let ml = Generator { jobs: 1500, size: 8, load: 1.1, seed, ..Generator::new(Kind::Ml) };
        let mut jobs = ml.trace().workload;
        jobs.jobs.iter_mut().for_each(|job| job.limit = None);
        compare(&format!("ml, seed {seed}"), &jobs, &cluster(8, gpus(8)));
    }
}
