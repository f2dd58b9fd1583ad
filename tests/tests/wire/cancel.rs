//! Cancelling: at once when nothing runs, through a stop order when something does, never after the end.

use muster_tests::{Scheduler, for_each_store, id_of, lease_of};
use serde_json::json;

for_each_store! {
    fn a_waiting_job_is_cancelled_at_once(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        let answer = scheduler.report(&id, "cancel").expect(200).json();
        assert_eq!(answer, json!({ "cancelled": [id], "stopping": [] }));
        let job = scheduler.job(&id);
        assert_eq!(job["status"], "cancelled");
        assert!(job["done_at"].is_string());
        assert!(scheduler.try_claim(None).is_none());
    }

    fn cancelling_takes_the_dependants_along(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit("true");
        let second = id_of(&scheduler.submit_job(&json!({ "command": "true", "depends_on": [first] })));
        let answer = scheduler.report(&first, "cancel").expect(200).json();
        assert_eq!(answer["cancelled"][0], first.as_str(), "{answer}");
        assert!(answer["cancelled"].as_array().is_some_and(|ids| ids.contains(&json!(second))), "{answer}");
    }

    fn a_running_job_is_stopped_first(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("sleep 60");
        let lease = lease_of(&scheduler.claim(Some("w")));
        let answer = scheduler.report(&id, "cancel").expect(200).json();
        assert_eq!(answer, json!({ "cancelled": [], "stopping": [id] }));
        let order = scheduler.report_under(lease, &id, "heartbeat").expect(200).json();
        assert_eq!(order["action"], "preempt");
        scheduler.report(&id, "cancel").expect(200);
        assert_eq!(scheduler.job(&id)["preemption_epoch"], 1, "asking twice is one order");
        scheduler.report_under(lease, &id, "preempted?epoch=1").expect_empty();
        assert_eq!(scheduler.status(&id), "cancelled");
        assert!(scheduler.try_claim(None).is_none());
    }

    fn an_end_reported_under_the_lease_completes_the_cancel(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("sleep 60");
        let lease = lease_of(&scheduler.claim(Some("w")));
        scheduler.report(&id, "cancel").expect(200);
        scheduler.report(&id, "done").expect(409);
        scheduler.report_under(lease, &id, "fail").expect(200);
        assert_eq!(scheduler.status(&id), "cancelled");
    }

    fn a_finished_job_stays_what_it_is(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        scheduler.claim(None);
        scheduler.report(&id, "done").expect_empty();
        let before = scheduler.job(&id);
        let response = scheduler.report(&id, "cancel");
        assert!(matches!(response.status, 200 | 409), "{}", response.status);
        assert_eq!(scheduler.job(&id), before);
        scheduler.report("unknown", "cancel").expect_error(404, "job not found");
    }
}
