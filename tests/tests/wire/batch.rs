//! `POST /jobs/batch`: many jobs in one request, with local names, whole or one by one.

use muster_tests::{Scheduler, for_each_store};
use serde_json::{Value, json};

fn ids(answer: &Value) -> Vec<String> {
    let items = answer.as_array().unwrap_or_else(|| panic!("not an array: {answer}"));
    items.iter().filter_map(|item| item["id"].as_str().map(str::to_owned)).collect()
}

for_each_store! {
    fn a_batch_answers_in_the_order_of_the_request(store) {
        let scheduler = Scheduler::start(store);
        let request: Vec<Value> = (0..100).map(|number| json!({ "command": format!("echo {number}") })).collect();
        let response = scheduler.http().post_json("/jobs/batch", &json!(request));
        assert!(matches!(response.status, 200 | 201), "{}: {}", response.status, response.text());
        let ids = ids(&response.json());
        assert_eq!(ids.len(), 100);
        for number in [0, 37, 99] {
            assert_eq!(scheduler.job(&ids[number])["command"], format!("echo {number}"));
        }
        assert_eq!(scheduler.metric("muster_jobs_submitted_total"), Some(100));
    }

    fn local_names_join_a_pipeline(store) {
        let scheduler = Scheduler::start(store);
        let request = json!([
            { "ref": "last", "command": "last", "depends_on": ["left", "right"] },
            { "ref": "left", "command": "left", "depends_on": ["first"] },
            { "ref": "right", "command": "right", "depends_on": ["first"] },
            { "ref": "first", "command": "first" },
        ]);
        let answer = scheduler.http().post_json("/jobs/batch?atomic=true", &request).json();
        let ids = ids(&answer);
        let statuses: Vec<String> = ids.iter().map(|id| scheduler.status(id)).collect();
        assert_eq!(statuses, ["blocked", "blocked", "blocked", "pending"]);
        assert_eq!(scheduler.job(&ids[0])["depends_on"], json!([ids[1], ids[2]]));
        for expected in ["first", "left", "right", "last"] {
            let claimed = scheduler.claim(None);
            if expected == "left" || expected == "right" {
                assert!(claimed["command"] == "left" || claimed["command"] == "right");
            } else {
                assert_eq!(claimed["command"], expected);
            }
            scheduler.report(claimed["id"].as_str().unwrap_or_default(), "done").expect_empty();
        }
    }

    fn a_cycle_is_refused_and_named(store) {
        let scheduler = Scheduler::start(store);
        let request = json!([
            { "ref": "a", "command": "a", "depends_on": ["b"] },
            { "ref": "b", "command": "b", "depends_on": ["c"] },
            { "ref": "c", "command": "c", "depends_on": ["a"] },
        ]);
        let response = scheduler.http().post_json("/jobs/batch?atomic=true", &request);
        response.expect(400);
        assert!(response.text().contains("cycle detected"), "{}", response.text());
        let own = json!([{ "ref": "a", "command": "a", "depends_on": ["a"] }]);
        scheduler.http().post_json("/jobs/batch?atomic=true", &own).expect(400);
        assert!(scheduler.jobs().is_empty());
    }

    fn an_atomic_batch_is_all_or_nothing(store) {
        let scheduler = Scheduler::start(store);
        let request = json!([{ "command": "good" }, { "command": "" }, { "command": "good" }]);
        scheduler.http().post_json("/jobs/batch?atomic=true", &request).expect(400);
        let request = json!([{ "command": "good" }, { "command": "bad", "depends_on": ["job-nobody"] }]);
        let response = scheduler.http().post_json("/jobs/batch?atomic=true", &request);
        response.expect(400);
        assert!(response.text().contains("job-nobody"), "{}", response.text());
        assert!(scheduler.jobs().is_empty());
    }

    fn a_plain_batch_refuses_only_what_is_wrong(store) {
        let scheduler = Scheduler::start(store);
        let request = json!([
            { "command": "good" },
            { "command": "" },
            { "command": "bad", "depends_on": ["job-nobody"] },
            { "command": "good" },
        ]);
        let response = scheduler.http().post_json("/jobs/batch", &request);
        assert!(matches!(response.status, 200 | 201 | 207), "{}", response.status);
        let answer = response.json();
        assert!(answer[0]["id"].is_string() && answer[3]["id"].is_string(), "{answer}");
        assert_eq!(answer[1]["error"], "command is required");
        assert_eq!(answer[2]["error"], "dependency \"job-nobody\" does not exist");
        assert!(answer[1].get("id").is_none() && answer[2].get("id").is_none(), "{answer}");
        assert_eq!(scheduler.jobs().len(), 2);
    }

    fn an_empty_batch_is_an_empty_answer(store) {
        let scheduler = Scheduler::start(store);
        let response = scheduler.http().post_json("/jobs/batch", &json!([]));
        assert!(matches!(response.status, 200 | 201 | 400), "{}", response.status);
        scheduler.http().post_json("/jobs/batch", &json!({ "command": "not an array" })).expect(400);
        assert!(scheduler.jobs().is_empty());
    }
}
