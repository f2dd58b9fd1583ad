//! The page stands on its own and shows every policy.

use muster_domain::{Span, Timestamp};

use super::*;
use crate::figures::figures;
use crate::generate::Generator;
use crate::outcome::{JobOutcome, Sample};

/// As if all jobs had waited a minute, on the cluster of the generator.
fn played(trace: &Trace) -> Outcome {
    let wait = Span::from_secs(60);
    let jobs = trace.workload.jobs.iter().map(|job| JobOutcome {
        start: job.submit + wait,
        end: job.submit + wait + job.run,
        ..JobOutcome::default()
    });
    let jobs: Vec<JobOutcome> = jobs.collect();
    let last = jobs.iter().map(|job| job.end).max().unwrap_or_default();
    let samples = (0..20).map(|step| Sample {
        at: Timestamp::from_micros(last.as_micros() / 19 * step),
        used: 100,
        total: 256,
        stranded: 5,
        waiting_jobs: 3,
        ..Sample::default()
    });
    Outcome { samples: samples.collect(), jobs, passes: 1 }
}

fn page(description: &str, policies: &[&str]) -> String {
    let mut trace = description.parse::<Generator>().unwrap().trace();
    trace.names = vec!["<script>alert(1)</script>".into(); trace.workload.jobs.len()];
    let cluster = trace.cluster.clone().unwrap();
    let outcome = played(&trace);
    let figures = figures(&trace.workload, &cluster, &outcome);
    let run = |policy: &&str| Run { policy: (*policy).to_owned(), figures: &figures, outcome: &outcome };
    let runs: Vec<Run> = policies.iter().map(run).collect();
    let settings = ["estimates <true>".to_owned()];
    Page { source: "a & b", cluster: "32x8gpu", settings: &settings, trace: &trace, runs: &runs }.render()
}

#[test]
fn a_page_needs_nothing_from_outside_and_runs_nothing() {
    let html = page("ml:jobs=30,seed=1", &["easy", "muster"]);
    for word in ["http://", "https://", "<script", "src=", "@import", "url(", "onload"] {
        assert!(!html.contains(word), "{word}");
    }
    for part in ["a &amp; b", "estimates &lt;true&gt;", "&lt;script&gt;", "prefers-color-scheme: dark"] {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(html.matches("<svg").count(), html.matches("</svg>").count());
    assert_eq!(html.matches("<section>").count(), html.matches("</section>").count());
}

#[test]
fn small_runs_have_every_job_and_large_ones_have_not() {
    let small = page("ml:jobs=30,seed=1", &["easy", "muster"]);
    assert!(small.contains("Every job") && small.contains("waited 60 s"));
    for part in ["Use of the cluster", "Queue length", "Wait by size", "Policies side by side", "All figures"]
    {
        assert!(small.contains(part), "{part}");
    }
    let large = page("ml:jobs=2000,seed=1", &["easy"]);
    assert!(!large.contains("Every job"));
    assert!(large.len() < 200_000, "{}", large.len());
}

#[test]
fn nothing_to_show_is_shown_without_a_panic() {
    let trace = Trace::default();
    let outcome = Outcome::default();
    let figures = figures(&trace.workload, &crate::settings::Cluster::default(), &outcome);
    let runs = [Run { policy: "easy".into(), figures: &figures, outcome: &outcome }];
    let html = Page { source: "", cluster: "", settings: &[], trace: &trace, runs: &runs }.render();
    assert!(html.contains("</html>") && !html.contains("NaN") && !html.contains("inf"), "{html}");
}

#[test]
fn no_number_of_a_picture_is_lost() {
    let html = page("hpc:jobs=100,seed=4", &["fifo", "greedy", "sjf"]);
    assert!(!html.contains("NaN") && !html.contains("inf\""));
    assert_eq!(html.matches("swatch b").count(), 3);
}
