//! Leases: only the current holder changes a job, and a report counts once.

use std::thread;
use std::time::Duration;

use muster_tests::{Scheduler, Settings, for_each_store, id_of, lease_of, until};
use serde_json::{Value, json};

const REPORTS: [&str; 4] = ["done", "fail", "heartbeat", "preempted?epoch=1"];

fn impatient() -> Settings {
    Settings::default().set("job-heartbeat-timeout", "400ms").set("reaper-interval", "100ms")
}

/// A job whose first holder has lost it by silence.
fn reaped_job(scheduler: &Scheduler, worker: &str) -> Value {
    let id = scheduler.submit("sleep 60");
    let claimed = scheduler.claim(Some(worker));
    assert_eq!(claimed["id"], id.as_str());
    scheduler.await_status(&id, "pending", Duration::from_secs(10));
    claimed
}

for_each_store! {
    fn t22_a_reaped_holder_can_change_nothing(store) {
        // The second holder must not be reaped as well while a busy machine works through the reports.
        let scheduler = Scheduler::start_with(store, impatient().set("job-heartbeat-timeout", "5s"));
        let lost = reaped_job(&scheduler, "first");
        let (id, old) = (id_of(&lost), lease_of(&lost));
        for report in REPORTS {
            scheduler.report_under(old, &id, report).expect(409);
        }
        assert_eq!(scheduler.status(&id), "pending");
        let new = lease_of(&scheduler.claim(Some("second")));
        assert!(new > old, "leases grow: {old}, {new}");
        for report in REPORTS {
            scheduler.report_under(old, &id, report).expect(409);
        }
        let job = scheduler.job(&id);
        assert_eq!(job["worker_id"], "second");
        assert!(job.get("last_heart_beat").is_none(), "a stale heartbeat keeps nothing alive: {job}");
        let refused = scheduler.metric("muster_stale_reports_total").unwrap_or_default();
        assert_eq!(refused, 2 * REPORTS.len() as u64, "stale reports are counted");
    }

    fn t22_a_repeated_report_counts_once(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        let lease = lease_of(&scheduler.claim(Some("careful")));
        scheduler.report_under(lease, &id, "done").expect_empty();
        let done = scheduler.job(&id);
        scheduler.report_under(lease, &id, "done").expect_empty();
        assert_eq!(scheduler.job(&id), done, "the repetition changes nothing");
        scheduler.report_under(lease, &id, "fail").expect(409);
        assert_eq!(scheduler.status(&id), "done");
        assert_eq!(scheduler.metric("muster_jobs_completed_total"), Some(1));
    }

    fn t22_a_repeated_acknowledgement_counts_once(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("sleep 60");
        let lease = lease_of(&scheduler.claim(Some("careful")));
        scheduler.report(&id, "cancel").expect(200);
        scheduler.report_under(lease, &id, "preempted?epoch=1").expect_empty();
        let cancelled = scheduler.job(&id);
        scheduler.report_under(lease, &id, "preempted?epoch=1").expect_empty();
        assert_eq!(scheduler.job(&id), cancelled);
        scheduler.report_under(lease, &id, "done").expect(409);
    }

    fn t22_a_repeated_failure_costs_one_attempt(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("false");
        let lease = lease_of(&scheduler.claim(Some("careful")));
        scheduler.report_under(lease, &id, "fail").expect_empty();
        scheduler.report_under(lease, &id, "fail").expect_empty();
        let job = scheduler.job(&id);
        assert_eq!((&job["status"], &job["attempts"]), (&json!("pending"), &json!(1)), "{job}");
        let next = lease_of(&scheduler.claim(Some("other")));
        scheduler.report_under(lease, &id, "done").expect(409);
        scheduler.report_under(next, &id, "done").expect_empty();
    }

    fn t22_a_named_caller_must_be_the_holder(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        scheduler.claim(Some("holder"));
        let as_worker = |worker: &str, report: &str| {
            let request = scheduler.http().request("POST", &format!("/jobs/{id}/{report}"));
            request.header("X-Worker-ID", worker).body("").send()
        };
        as_worker("stranger", "heartbeat").expect(409);
        as_worker("stranger", "done").expect(409);
        scheduler.report(&id, "fail?worker_id=stranger").expect(409);
        assert_eq!(scheduler.status(&id), "running");
        as_worker("holder", "heartbeat").expect_empty();
        as_worker("holder", "done").expect_empty();
    }

    fn t22_a_lease_from_nowhere_is_refused(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        let lease = lease_of(&scheduler.claim(Some("holder")));
        for wrong in [lease + 1, 0, u64::MAX] {
            for report in REPORTS {
                let status = scheduler.report_under(wrong, &id, report).status;
                assert!(matches!(status, 400 | 409), "lease {wrong}, {report}: {status}");
            }
        }
        scheduler.report(&id, "done?lease=abc").expect(400);
        assert_eq!(scheduler.status(&id), "running");
    }

    fn t23_done_racing_the_reaper_is_never_overwritten(store) {
        let scheduler = Scheduler::start_with(store, impatient());
        let jobs: Vec<Value> = (0..40)
            .map(|number| {
                scheduler.submit_job(&json!({ "command": "true", "max_retries": 50 }));
                scheduler.claim(Some(&format!("racer-{number}")))
            })
            .collect();
        // Each racer reports close to the moment at which the reaper takes its job away.
        let http = scheduler.http();
        let racers: Vec<_> = jobs
            .into_iter()
            .enumerate()
            .map(|(number, job)| {
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(300 + 10 * number as u64));
                    let target = format!("/jobs/{}/done?lease={}", id_of(&job), lease_of(&job));
                    (job, http.post(&target, "").status)
                })
            })
            .collect();
        let outcomes: Vec<(Value, u16)> = racers.into_iter().map(|racer| racer.join().unwrap()).collect();
        let ticks = || scheduler.metric(r#"muster_tick_seconds_count{loop="reaper"}"#).unwrap_or(0);
        let before = ticks();
        until("the reaper has passed over all of them again", Duration::from_secs(10), || ticks() >= before + 3);
        for (job, status) in &outcomes {
            let now = scheduler.job(&id_of(job));
            match status {
                200 => assert_eq!((&now["status"], &now["attempts"]), (&json!("done"), &json!(1)), "acknowledged: {now}"),
                409 => assert_eq!(now["status"], "pending", "refused, so it was reaped: {now}"),
                other => panic!("answered {other}: {now}"),
            }
        }
    }
}
