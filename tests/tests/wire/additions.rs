//! Lists with filters and pages, events, reasons, the API's own description.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};

use muster_tests::{Scheduler, for_each_store, id_of};
use serde_json::{Value, json};

fn list(scheduler: &Scheduler, query: &str) -> Vec<String> {
    let answer = scheduler.http().get(&format!("/jobs?{query}")).expect(200).json();
    answer.as_array().unwrap_or_else(|| panic!("not an array: {answer}")).iter().map(id_of).collect()
}

fn event_types(events: &Value) -> Vec<String> {
    let events = events.as_array().unwrap_or_else(|| panic!("not an array: {events}"));
    events.iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
}

for_each_store! {
    fn lists_are_filtered(store) {
        let scheduler = Scheduler::start(store);
        let night = id_of(&scheduler.submit_job(&json!({ "command": "a", "queue_name": "night", "name": "train" })));
        let tagged = id_of(&scheduler.submit_job(&json!({ "command": "b", "tags": ["gpu"] })));
        let plain = scheduler.submit("c");
        scheduler.report(&plain, "cancel").expect(200);
        assert_eq!(list(&scheduler, "queue=night"), [night.as_str()]);
        assert_eq!(list(&scheduler, "name=train"), [night.as_str()]);
        assert_eq!(list(&scheduler, "tag=gpu"), [tagged.as_str()]);
        assert_eq!(list(&scheduler, "status=cancelled"), [plain]);
        let pending: BTreeSet<String> = list(&scheduler, "status=pending").into_iter().collect();
        assert_eq!(pending, BTreeSet::from([night, tagged]));
        assert!(list(&scheduler, "since=2100-01-01T00:00:00Z").is_empty());
        assert_eq!(list(&scheduler, "since=2000-01-01T00:00:00Z").len(), 3);
        assert!(list(&scheduler, "status=done").is_empty());
        let claimed = id_of(&scheduler.claim(Some("w7")));
        assert_eq!(list(&scheduler, "worker=w7"), [claimed]);
        assert!(list(&scheduler, "worker=w").is_empty());
    }

    fn the_summary_counts_what_has_not_ended(store) {
        let scheduler = Scheduler::start(store);
        assert_eq!(scheduler.http().get("/summary").expect(200).json(), json!({ "jobs": {}, "pending_by_queue": {} }));
        scheduler.submit_job(&json!({ "command": "a", "queue_name": "night" }));
        let plain = scheduler.submit("b");
        scheduler.report(&plain, "cancel").expect(200);
        let parent = scheduler.submit("c");
        scheduler.submit_job(&json!({ "command": "d", "depends_on": [parent] }));
        let expected =
            json!({ "jobs": { "blocked": 1, "pending": 2 }, "pending_by_queue": { "": 1, "night": 1 } });
        assert_eq!(scheduler.http().get("/summary").expect(200).json(), expected);
    }

    fn pages_join_up_to_the_whole_list(store) {
        let scheduler = Scheduler::start(store);
        let submitted: BTreeSet<String> = (0..25).map(|_| scheduler.submit("true")).collect();
        let mut seen = Vec::new();
        let mut target = "/jobs?limit=10".to_owned();
        let mut pages = 0;
        loop {
            let response = scheduler.http().get(&target);
            let page = response.expect(200).json();
            seen.extend(page.as_array().into_iter().flatten().map(id_of));
            pages += 1;
            let Some(cursor) = response.header("x-next-cursor") else { break };
            target = format!("/jobs?limit=10&cursor={cursor}");
        }
        assert_eq!(pages, 3);
        assert_eq!(seen.len(), 25, "no job is shown twice");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), submitted);
        assert_eq!(scheduler.jobs().len(), 25, "without a limit the whole list is one array");
    }

    fn events_tell_the_story_of_a_job(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        scheduler.claim(Some("w"));
        scheduler.report(&id, "fail").expect_empty();
        scheduler.claim(Some("w"));
        scheduler.report(&id, "done").expect_empty();
        let events = scheduler.http().get(&format!("/jobs/{id}/events")).expect(200).json();
        let types = event_types(&events);
        assert_eq!(types.first().map(String::as_str), Some("submitted"), "{types:?}");
        assert_eq!(types.iter().filter(|kind| *kind == "claimed").count(), 2, "{types:?}");
        assert_eq!(types.last().map(String::as_str), Some("done"), "{types:?}");
        let numbers: Vec<u64> = events.as_array().into_iter().flatten().filter_map(|event| event["id"].as_u64()).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        assert!(events.as_array().into_iter().flatten().all(|event| event["job_id"] == id.as_str()));
    }

    fn the_event_stream_is_live(store) {
        let scheduler = Scheduler::start(store);
        let mut stream = scheduler.http().connect().unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        let head: Vec<String> = lines.by_ref().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        assert!(head[0].contains("200"), "{head:?}");
        assert!(head.iter().any(|line| line.to_lowercase().starts_with("content-type: text/event-stream")), "{head:?}");
        let id = scheduler.submit("true");
        // The read bound of the connection ends this when nothing comes.
        let data = lines.map(Result::unwrap).find_map(|line| {
            let event: Value = serde_json::from_str(line.strip_prefix("data:")?).ok()?;
            (event["job_id"] == id.as_str()).then_some(event)
        });
        assert_eq!(data.unwrap()["type"], "submitted");
    }

    fn why_says_what_a_job_waits_for(store) {
        let scheduler = Scheduler::start(store);
        let why = |id: &str| scheduler.http().get(&format!("/jobs/{id}/why")).expect(200).json();
        let first = scheduler.submit("true");
        let second = id_of(&scheduler.submit_job(&json!({ "command": "true", "depends_on": [first] })));
        let blocked = why(&second);
        assert_eq!((&blocked["id"], &blocked["status"]), (&json!(second), &json!("blocked")));
        assert!(blocked["reasons"].to_string().contains(&first), "{blocked}");
        scheduler.register(&json!({ "id": "small", "resources": { "memory_mb": 10 } }));
        let request = json!({ "command": "true", "resources": { "memory_mb": 999_999 } });
        let response = scheduler.http().post_json("/jobs", &request);
        if response.status == 201 {
            let large = response.json();
            let said = format!("{}{}", large["warnings"], why(&id_of(&large))["reasons"]);
            assert!(said.contains("memory"), "{said}");
        } else {
            response.expect(400);
            assert!(response.text().contains("memory"), "{}", response.text());
        }
        scheduler.http().get("/jobs/unknown/why").expect_error(404, "job not found");
    }

    fn the_api_describes_itself(store) {
        let scheduler = Scheduler::start(store);
        let document = scheduler.http().get("/openapi.json").expect(200).json();
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")));
        for path in [
            "/jobs", "/jobs/{id}", "/jobs/next", "/jobs/batch", "/jobs/{id}/done", "/jobs/{id}/fail", "/jobs/{id}/heartbeat",
            "/jobs/{id}/preempted", "/jobs/{id}/checkpoint", "/jobs/{id}/cancel", "/jobs/{id}/release", "/jobs/{id}/events",
            "/jobs/{id}/why", "/workers", "/workers/register", "/workers/{id}/heartbeat", "/workers/{id}/sync", "/events",
            "/health", "/healthz", "/readyz", "/metrics", "/explain",
        ] {
            assert!(document["paths"].get(path).is_some(), "{path} is not described");
        }
        let page = scheduler.http().get("/docs");
        assert!(page.expect(200).header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
    }
}
