//! `GET /metrics`: names, labels, buckets, and what moves them.

use muster_tests::{Scheduler, for_each_store, id_of};
use serde_json::json;

const COUNTERS: [&str; 5] = [
    "muster_jobs_submitted_total",
    "muster_jobs_claimed_total",
    "muster_jobs_completed_total",
    "muster_jobs_failed_total",
    "muster_jobs_retried_total",
];

fn buckets(page: &str, histogram: &str) -> Vec<String> {
    let prefix = format!("{histogram}_bucket{{le=\"");
    page.lines().filter_map(|line| Some(line.strip_prefix(&prefix)?.split('"').next()?.to_owned())).collect()
}

for_each_store! {
    fn t28_names_types_and_buckets_are_the_original_ones(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        scheduler.claim(None);
        scheduler.report(&id, "done").expect_empty();
        let response = scheduler.http().get("/metrics");
        let content_type = response.expect(200).header("content-type").unwrap_or_default();
        assert!(content_type.starts_with("text/plain; version=0.0.4"), "{content_type}");
        let page = response.text();
        for (name, kind) in COUNTERS.iter().map(|name| (*name, "counter")).chain([
            ("muster_job_execution_duration_seconds", "histogram"),
            ("muster_job_queue_wait_seconds", "histogram"),
            ("muster_reaper_leader", "gauge"),
            ("muster_jobs_pending", "gauge"),
            ("muster_jobs_running", "gauge"),
            ("muster_jobs_blocked", "gauge"),
            ("process_resident_memory_bytes", "gauge"),
        ]) {
            assert!(page.contains(&format!("# TYPE {name} {kind}\n")), "{name} is missing or no {kind}");
        }
        let execution = ["0.1", "0.5", "1", "5", "10", "30", "60", "300", "+Inf"];
        assert_eq!(buckets(&page, "muster_job_execution_duration_seconds"), execution);
        let wait = ["0.1", "0.5", "1", "5", "10", "30", "60", "120", "300", "+Inf"];
        assert_eq!(buckets(&page, "muster_job_queue_wait_seconds"), wait);
    }

    fn t28_counters_and_gauges_follow_the_jobs(store) {
        let scheduler = Scheduler::start(store);
        let metric = |name: &str| scheduler.metric(name).unwrap_or_else(|| panic!("no {name}"));
        let good = scheduler.submit("good");
        let bad = scheduler.submit("bad");
        scheduler.submit_job(&json!({ "command": "later", "depends_on": [good] }));
        let gauges = || {
            ["muster_jobs_pending", "muster_jobs_running", "muster_jobs_blocked"].map(metric)
        };
        assert_eq!(gauges(), [2, 0, 1]);
        assert_eq!(id_of(&scheduler.claim(None)), good);
        assert_eq!(gauges(), [1, 1, 1]);
        scheduler.report(&good, "done").expect_empty();
        for _ in 0..3 {
            assert_eq!(id_of(&scheduler.claim(None)), bad);
            scheduler.report(&bad, "fail").expect_empty();
        }
        assert_eq!(gauges(), [1, 0, 0]);
        assert_eq!(COUNTERS.map(metric), [3, 4, 1, 1, 2]);
        assert_eq!(metric("muster_job_queue_wait_seconds_count"), 4);
        assert_eq!(metric("muster_job_execution_duration_seconds_count"), 1);
    }

    fn t28_a_refused_submit_is_not_counted(store) {
        let scheduler = Scheduler::start(store);
        scheduler.http().post("/jobs", "{").expect(400);
        scheduler.http().post("/jobs", r#"{"command":"a","depends_on":["job-x"]}"#).expect(400);
        assert_eq!(scheduler.metric("muster_jobs_submitted_total"), Some(0));
    }
}
