//! Dependencies: released once, in the request that completes them; ended when they can never be.

use muster_tests::{Scheduler, for_each_store, id_of};
use serde_json::{Value, json};

fn submit_after(scheduler: &Scheduler, dependencies: &[&str]) -> String {
    id_of(&scheduler.submit_job(&json!({ "command": "true", "depends_on": dependencies })))
}

/// Claims whatever comes next and reports on it.
fn finish_next(scheduler: &Scheduler, report: &str) -> String {
    let id = id_of(&scheduler.claim(None));
    scheduler.report(&id, report).expect_empty();
    id
}

fn fail_for_good(scheduler: &Scheduler, id: &str) {
    for _ in 0..3 {
        assert_eq!(finish_next(scheduler, "fail"), id);
    }
    assert_eq!(scheduler.status(id), "failed");
}

#[track_caller]
fn assert_ended_because_of(job: &Value, ancestor: &str) {
    assert!(matches!(job["status"].as_str(), Some("failed" | "cancelled")), "{job}");
    assert!(
        job["reason"].as_str().is_some_and(|reason| reason.contains(ancestor)),
        "no word of {ancestor}: {job}"
    );
    assert!(job["done_at"].is_string(), "{job}");
}

for_each_store! {
    fn t10_dependants_are_released_when_all_are_done_in_the_same_request(store) {
        let scheduler = Scheduler::start(store);
        let left = scheduler.submit("left");
        let right = scheduler.submit("right");
        let both = submit_after(&scheduler, &[&left, &right]);
        assert_eq!(scheduler.job(&both)["depends_on"], json!([left, right]));
        assert_eq!(scheduler.status(&both), "blocked");
        finish_next(&scheduler, "done");
        assert_eq!(scheduler.status(&both), "blocked", "one of two is not all");
        finish_next(&scheduler, "done");
        assert_eq!(scheduler.status(&both), "pending");
        assert_eq!(finish_next(&scheduler, "done"), both);
    }

    fn t10_a_chain_releases_one_level_per_completion_and_a_diamond_once(store) {
        let scheduler = Scheduler::start(store);
        let top = scheduler.submit("top");
        let left = submit_after(&scheduler, &[&top]);
        let right = submit_after(&scheduler, &[&top]);
        let bottom = submit_after(&scheduler, &[&left, &right]);
        let last = submit_after(&scheduler, &[&bottom]);
        let statuses = |expected: [&str; 4]| {
            let actual = [&left, &right, &bottom, &last].map(|id| scheduler.status(id));
            assert_eq!(actual, expected);
        };
        statuses(["blocked", "blocked", "blocked", "blocked"]);
        assert_eq!(finish_next(&scheduler, "done"), top);
        statuses(["pending", "pending", "blocked", "blocked"]);
        finish_next(&scheduler, "done");
        assert_eq!(scheduler.status(&bottom), "blocked");
        finish_next(&scheduler, "done");
        statuses(["done", "done", "pending", "blocked"]);
        assert_eq!(finish_next(&scheduler, "done"), bottom);
        assert_eq!(finish_next(&scheduler, "done"), last);
        assert!(scheduler.try_claim(None).is_none());
        assert_eq!(scheduler.job(&bottom)["attempts"], 1);
    }

    fn t10_a_dependency_that_is_already_done_does_not_block(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit("true");
        finish_next(&scheduler, "done");
        let second = submit_after(&scheduler, &[&first]);
        assert_eq!(scheduler.status(&second), "pending");
        assert_eq!(finish_next(&scheduler, "done"), second);
    }

    fn t10_a_retried_dependency_still_releases(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit("flaky");
        let second = submit_after(&scheduler, &[&first]);
        finish_next(&scheduler, "fail");
        assert_eq!(scheduler.status(&second), "blocked");
        finish_next(&scheduler, "done");
        assert_eq!(scheduler.status(&second), "pending");
    }

    fn t11_a_failed_dependency_ends_its_dependants_transitively(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit("false");
        let second = submit_after(&scheduler, &[&first]);
        let third = submit_after(&scheduler, &[&second]);
        let side = submit_after(&scheduler, &[&first]);
        fail_for_good(&scheduler, &first);
        for id in [&second, &third, &side] {
            assert_ended_because_of(&scheduler.job(id), &first);
        }
        assert!(scheduler.jobs().iter().all(|job| job["status"] != "blocked"));
        assert!(scheduler.try_claim(None).is_none());
    }

    fn t11_a_cancelled_dependency_ends_its_dependants(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit("true");
        let second = submit_after(&scheduler, &[&first]);
        let third = submit_after(&scheduler, &[&second]);
        scheduler.report(&first, "cancel").expect(200);
        assert_eq!(scheduler.status(&first), "cancelled");
        for id in [&second, &third] {
            assert_ended_because_of(&scheduler.job(id), &first);
        }
    }

    fn t11_a_submit_behind_a_failed_dependency_does_not_wait(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit("false");
        fail_for_good(&scheduler, &first);
        let request = json!({ "command": "true", "depends_on": [first] });
        let response = scheduler.http().post_json("/jobs", &request);
        if response.status == 201 {
            assert_ended_because_of(&response.json(), &first);
        } else {
            response.expect(400);
            assert!(response.text().contains(&first), "{}", response.text());
            assert_eq!(scheduler.jobs().len(), 1);
        }
    }

    fn a410_an_unknown_dependency_changes_nothing(store) {
        let scheduler = Scheduler::start(store);
        let known = scheduler.submit("true");
        let body = json!({ "command": "true", "depends_on": [known, "job-nobody"] });
        let response = scheduler.http().post_json("/jobs", &body);
        response.expect_error(400, "dependency \"job-nobody\" does not exist");
        assert_eq!(scheduler.jobs().len(), 1);
    }

    fn a_dependency_named_twice_counts_once(store) {
        let scheduler = Scheduler::start(store);
        let first = scheduler.submit("true");
        let second = submit_after(&scheduler, &[&first, &first]);
        finish_next(&scheduler, "done");
        assert_eq!(scheduler.status(&second), "pending");
    }
}
