//! Figures of an example that was worked out by hand.

use muster_domain::{Resources, Span, Timestamp};

use super::*;
use crate::outcome::JobOutcome;
use crate::settings::NodeGroup;

fn at(seconds: u32) -> Timestamp {
    Timestamp::default() + Span::from_secs(seconds)
}

fn job(submit: u32, run: u32, tasks: u32, queue: u32) -> TraceJob {
    TraceJob {
        submit: at(submit),
        run: Span::from_secs(run),
        limit: None,
        tasks,
        need: Resources { gpus: 4, ..Resources::default() },
        queue,
        user: 0,
        priority: 0,
        preemptible: true,
    }
}

fn cluster() -> Cluster {
    let each = Resources { gpus: 8, ..Resources::default() };
    Cluster { nodes: vec![NodeGroup { count: 2, each, ..NodeGroup::default() }], ..Cluster::default() }
}

/// Three jobs on sixteen GPUs; the second was stopped once and lost 20 s.
fn example() -> (Workload, Outcome) {
    let jobs = vec![job(0, 100, 1, 0), job(10, 100, 4, 1), job(20, 5, 2, 1)];
    let workload = Workload { jobs, queues: vec!["a".into(), "b".into()], users: vec!["u".into()] };
    let fate = |start, end| JobOutcome { start: at(start), end: at(end), ..JobOutcome::default() };
    let stopped = JobOutcome { preemptions: 1, lost: Span::from_secs(20), ..fate(100, 240) };
    let sample = |seconds, used, waiting_jobs, stranded| Sample {
        at: at(seconds),
        used,
        total: 16,
        stranded,
        waiting_jobs,
        ..Sample::default()
    };
    let samples = vec![sample(0, 4, 0, 0), sample(10, 4, 1, 0), sample(20, 12, 1, 4), sample(30, 12, 0, 0)];
    (workload, Outcome { jobs: vec![fate(0, 100), stopped, fate(20, 25)], samples, passes: 7 })
}

#[test]
fn the_example_by_hand() {
    let (workload, outcome) = example();
    let figures = figures(&workload, &cluster(), &outcome);
    let total = &figures.total;
    // Waits 0, 130 and 0; completion 100, 230 and 5; slowdowns 1, 2.3 and 1 (5 s of 10 s at least).
    assert_eq!((total.jobs, figures.makespan_s, figures.passes), (3, 240.0, 7));
    assert!((total.wait_s.mean - 130.0 / 3.0).abs() < 1e-9);
    assert_eq!((total.wait_s.median, total.wait_s.p95, total.wait_s.max), (0.0, 130.0, 130.0));
    assert!((total.jct_s.mean - 335.0 / 3.0).abs() < 1e-9);
    assert!((total.bounded_slowdown.mean - 4.3 / 3.0).abs() < 1e-9);
    assert_eq!((total.preemptions, total.preempted_jobs), (1, 1));
    // 100·4 + 100·16 + 5·8 GPU-seconds were of use, 20·16 were lost, of 240·16.
    assert!((figures.useful - 2040.0 / 3840.0).abs() < 1e-9);
    assert!((figures.utilisation - 2360.0 / 3840.0).abs() < 1e-9);
    assert!((figures.lost_unit_hours - 320.0 / 3600.0).abs() < 1e-9);
    // While jobs waited: 10 s with 4 and 10 s with 12 of 16; 4 of them stranded in the second.
    assert!((figures.utilisation_under_demand - 0.5).abs() < 1e-9);
    assert!((figures.fragmentation - 40.0 / 320.0).abs() < 1e-9);
    // Queue means 1 and 1.65: (2.65)² / (2 · (1 + 2.7225)).
    assert!((figures.fairness_queues - 2.65 * 2.65 / (2.0 * 3.7225)).abs() < 1e-9);
    assert!((figures.fairness_users - 1.0).abs() < 1e-9);
    let names: Vec<(&str, u64)> =
        figures.by_size.iter().map(|group| (group.name.as_str(), group.jobs)).collect();
    assert_eq!(names, [("2-4", 1), ("5-8", 1), ("9-32", 1)]);
    assert_eq!(figures.by_queue[1].jobs, 2);
}

#[test]
fn nothing_at_all_has_figures() {
    let figures = figures(&Workload::default(), &cluster(), &Outcome::default());
    assert_eq!((figures.total.jobs, figures.makespan_s, figures.utilisation), (0, 0.0, 0.0));
    assert!((figures.fairness_queues - 1.0).abs() < 1e-9);
}

#[test]
fn processors_are_counted_in_thousandths() {
    let each = Resources { cpu_millis: 4000, ..Resources::default() };
    let cluster =
        Cluster { nodes: vec![NodeGroup { count: 2, each, ..NodeGroup::default() }], ..Cluster::default() };
    let unit = Unit::of(&cluster);
    assert_eq!((unit, unit.total(&cluster)), (Unit::Processors, 8000));
    let half = TraceJob { need: Resources { cpu_millis: 500, ..Resources::default() }, ..job(0, 1, 3, 0) };
    assert_eq!(SizeClass::of(unit.amount(&half), unit).name(), "2-4");
    assert_eq!(SizeClass::of(0, unit).name(), "0");
    assert_eq!(SizeClass::of(33_000, unit).name(), "33+");
}
