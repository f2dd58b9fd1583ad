//! Reports of a worker on a job: done, fail, heartbeat, preempted, checkpoint.

use base64::Engine;
use muster_tests::{Scheduler, for_each_store};
use serde_json::json;

/// A running job that has been told to stop.
fn stopping_job(scheduler: &Scheduler) -> String {
    let id = scheduler.submit("sleep 60");
    scheduler.claim(None);
    scheduler.report(&id, "cancel").expect(200);
    let job = scheduler.job(&id);
    assert_eq!((&job["status"], &job["preemption_epoch"]), (&json!("preempting"), &json!(1)), "{job}");
    id
}

for_each_store! {
    fn t06_heartbeats_answer_by_status(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        scheduler.report(&id, "heartbeat").expect_error(409, "job is not running");
        scheduler.claim(None);
        scheduler.report(&id, "heartbeat").expect_empty();
        scheduler.report(&id, "done").expect_empty();
        scheduler.report(&id, "heartbeat").expect_error(409, "job is not running");
        let stopping = stopping_job(&scheduler);
        let response = scheduler.report(&stopping, "heartbeat");
        assert_eq!(response.expect(200).header("content-type"), Some("application/json"));
        let expected = json!({ "action": "preempt", "preemption_epoch": 1, "preemptionEpoch": 1 });
        assert_eq!(response.json(), expected);
        assert!(scheduler.job(&stopping)["last_heart_beat"].is_string());
    }

    fn t07_preempted_is_checked_in_order_and_accepted_once(store) {
        let scheduler = Scheduler::start(store);
        scheduler.report("unknown", "preempted").expect_error(404, "job not found");
        let running = scheduler.submit("sleep 60");
        scheduler.claim(None);
        scheduler.report(&running, "preempted").expect_error(400, "epoch query parameter is required");
        scheduler.report(&running, "preempted?epoch=").expect_error(400, "epoch query parameter is required");
        scheduler.report(&running, "preempted?epoch=abc").expect_error(400, "epoch must be an integer");
        scheduler.report(&running, "preempted?epoch=1.5").expect_error(400, "epoch must be an integer");
        scheduler.report(&running, "preempted?epoch=0").expect(409);
        scheduler.report(&running, "preempted?epoch=1").expect(409);
        assert_eq!(scheduler.status(&running), "running");
        let stopping = stopping_job(&scheduler);
        for wrong in ["0", "2", "-1", "99999999999"] {
            scheduler.report(&stopping, &format!("preempted?epoch={wrong}")).expect(409);
        }
        assert_eq!(scheduler.status(&stopping), "preempting");
        scheduler.report(&stopping, "preempted?epoch=1").expect_empty();
        scheduler.report(&stopping, "preempted?epoch=1").expect(409);
        let job = scheduler.job(&stopping);
        assert_eq!((&job["status"], &job["preemption_epoch"]), (&json!("cancelled"), &json!(1)), "{job}");
    }

    fn t07_checkpoint_is_checked_in_order_and_keeps_every_byte(store) {
        let scheduler = Scheduler::start(store);
        let save = |id: &str, query: &str, body: &[u8]| scheduler.http().post(&format!("/jobs/{id}/checkpoint{query}"), body);
        save("unknown", "", b"x").expect_error(404, "job not found");
        let running = scheduler.submit("sleep 60");
        scheduler.claim(None);
        save(&running, "", b"x").expect_error(400, "epoch query parameter is required");
        save(&running, "?epoch=abc", b"x").expect_error(400, "epoch must be an integer");
        save(&running, "?epoch=1", b"").expect_error(400, "checkpoint body is empty");
        save(&running, "?epoch=1", b"x").expect(409);
        scheduler.http().get(&format!("/jobs/{running}/checkpoint")).expect(204);
        let stopping = stopping_job(&scheduler);
        save(&stopping, "?epoch=2", b"x").expect(409);
        save(&stopping, "?epoch=1", b"{\"step\": 1}").expect_empty();
        assert_eq!(scheduler.job(&stopping)["checkpoint"], json!({ "step": 1 }));
        let every_byte: Vec<u8> = (0..=255).collect();
        save(&stopping, "?epoch=1", &every_byte).expect_empty();
        let stored = scheduler.http().get(&format!("/jobs/{stopping}/checkpoint"));
        assert_eq!(stored.expect(200).header("content-type"), Some("application/octet-stream"));
        assert_eq!(stored.body, every_byte);
        let job = scheduler.job(&stopping);
        let encoded = base64::engine::general_purpose::STANDARD.encode(&every_byte);
        assert_eq!((&job["checkpoint"], &job["checkpoint_bytes"]), (&json!(encoded), &json!(256)), "{job}");
        assert_eq!(scheduler.jobs().len(), 2, "lists stay readable whatever the bytes");
    }

    fn t07_json_checkpoints_come_back_byte_for_byte(store) {
        let scheduler = Scheduler::start(store);
        let stopping = stopping_job(&scheduler);
        let spaced = b"{\"b\" : 1,\n  \"a\":  [1.0, 2e3] }\n";
        scheduler.http().post(&format!("/jobs/{stopping}/checkpoint?epoch=1"), spaced).expect_empty();
        assert_eq!(scheduler.http().get(&format!("/jobs/{stopping}/checkpoint")).body, spaced);
    }

    fn t09_three_failures_end_a_job_and_one_success_completes_it(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("false");
        for attempt in 1..=3 {
            let claimed = scheduler.claim(None);
            assert_eq!((&claimed["id"], &claimed["attempts"]), (&json!(id), &json!(attempt)));
            scheduler.report(&id, "fail").expect_empty();
            let expected = if attempt < 3 { "pending" } else { "failed" };
            assert_eq!(scheduler.status(&id), expected, "after failure {attempt}");
        }
        let failed = scheduler.job(&id);
        assert_eq!(failed["attempts"], 3);
        assert!(failed["done_at"].is_string());
        assert!(scheduler.try_claim(None).is_none());
        let good = scheduler.submit("true");
        scheduler.claim(None);
        scheduler.report(&good, "done").expect_empty();
        let done = scheduler.job(&good);
        assert_eq!((&done["status"], &done["attempts"]), (&json!("done"), &json!(1)));
        assert!(done["done_at"].is_string());
    }

    fn t09_max_retries_is_settable_per_job(store) {
        let scheduler = Scheduler::start(store);
        let job = scheduler.submit_job(&json!({ "command": "false", "max_retries": 1 }));
        let id = job["id"].as_str().unwrap_or_default();
        scheduler.claim(None);
        scheduler.report(id, "fail").expect_empty();
        assert_eq!(scheduler.status(id), "failed");
    }

    fn bodies_of_reports_are_ignored(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        scheduler.claim(None);
        let send = |report: &str| scheduler.http().post(&format!("/jobs/{id}/{report}"), [0xff, 0xfe, b'{']);
        send("heartbeat").expect_empty();
        send("done").expect_empty();
    }

    fn a_released_job_costs_no_attempt(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        let claimed = scheduler.claim(Some("leaving"));
        let lease = muster_tests::lease_of(&claimed);
        scheduler.report_under(lease, &id, "release").expect(200);
        let job = scheduler.job(&id);
        assert_eq!((&job["status"], &job["attempts"]), (&json!("pending"), &json!(0)), "{job}");
        assert!(muster_tests::lease_of(&scheduler.claim(None)) > lease, "a lease is never handed out again");
    }
}
