//! Made-up workloads are what they say they are.

use super::*;
use crate::workload::Workload;

fn made(text: &str) -> Workload {
    text.parse::<Generator>().unwrap().trace().workload
}

/// What the jobs ask for in the time in which they come, as a share of `total`.
fn load(workload: &Workload, total: f64, amount: impl Fn(&crate::workload::TraceJob) -> f64) -> f64 {
    let work: f64 = workload.jobs.iter().map(|job| amount(job) * job.run.as_secs_f64()).sum();
    let last = workload.jobs.last().unwrap().submit;
    work / (total * last.since(muster_domain::Timestamp::default()).as_secs_f64())
}

#[test]
fn the_same_seed_makes_the_same_jobs() {
    for kind in ["hpc", "ml"] {
        let first = made(&format!("{kind}:jobs=500,seed=7"));
        assert_eq!(first, made(&format!("{kind}:jobs=500,seed=7")));
        assert_ne!(first, made(&format!("{kind}:jobs=500,seed=8")));
        assert_eq!(first.jobs.len(), 500);
        assert!(first.jobs.is_sorted_by_key(|job| job.submit));
    }
}

#[test]
fn the_load_is_as_asked_for() {
    let hpc = made("hpc:jobs=20000,seed=3,size=128,load=0.8");
    let found = load(&hpc, 128.0, |job| f64::from(job.tasks));
    assert!((found - 0.8).abs() < 0.02, "{found}");
    let ml = made("ml:jobs=20000,seed=3,size=32,load=1.1");
    let found = load(&ml, 256.0, |job| f64::from(job.tasks) * job.need.gpus as f64);
    assert!((found - 1.1).abs() < 0.03, "{found}");
}

#[test]
fn sizes_and_times_have_the_traits_of_the_model() {
    let hpc = made("hpc:jobs=20000,seed=5,size=128");
    let share = |test: fn(u32) -> bool| {
        hpc.jobs.iter().filter(|job| test(job.tasks)).count() as f64 / hpc.jobs.len() as f64
    };
    // A quarter is serial, and most of the rest are powers of two.
    assert!((share(|tasks| tasks == 1) - 0.244).abs() < 0.02);
    assert!(share(u32::is_power_of_two) > 0.7);
    assert!(hpc.jobs.iter().all(|job| job.tasks <= 128 && job.limit.unwrap() >= job.run));
    let mut runs: Vec<f64> = hpc.jobs.iter().map(|job| job.run.as_secs_f64()).collect();
    runs.sort_by(f64::total_cmp);
    // One peak at about a minute, the other at about three hours.
    assert!(runs[runs.len() / 4] < 100.0 && runs[runs.len() * 9 / 10] > 8_000.0, "{}", runs[runs.len() / 4]);
}

#[test]
fn ml_has_gangs_that_fit_nodes() {
    let ml = made("ml:jobs=5000,seed=5,gangs=0.5,size=32");
    let gangs = ml.jobs.iter().filter(|job| u64::from(job.tasks) * job.need.gpus > 1).count();
    assert!((2300..2700).contains(&gangs), "{gangs}");
    assert!(ml.jobs.iter().all(|job| job.need.gpus <= 8 && job.tasks <= 16 && job.limit.is_none()));
    assert!(ml.jobs.iter().all(|job| job.tasks == 1 || job.need.gpus == 8));
    assert!(made("ml:jobs=500,gangs=0,size=1").jobs.iter().all(|job| job.need.gpus == 1));
}

#[test]
fn descriptions_are_read_or_refused_with_a_reason() {
    assert_eq!("hpc".parse(), Ok(Generator::new(Kind::Hpc)));
    let generator: Generator = "ml:jobs=5,gangs=0.25,load=1.5".parse().unwrap();
    assert_eq!(generator.to_string().parse(), Ok(generator));
    for (text, part) in [
        ("", "hpc or ml"),
        ("web:jobs=5", "\"web\""),
        ("hpc:jobs", "NAME=VALUE"),
        ("hpc:wheels=4", "wheels"),
        ("hpc:jobs=0", "\"0\""),
        ("ml:load=NaN", "NaN"),
        ("ml:gangs=2", "\"2\""),
        ("ml:seed=-1", "whole number"),
    ] {
        let message = text.parse::<Generator>().unwrap_err().to_string();
        assert!(message.contains(part), "{text}: {message}");
    }
}
