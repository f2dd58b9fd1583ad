//! Work that does not fit: room is kept for a gang, and what matters less stops for what matters more.

use std::time::Duration;

use muster_tests::{Scheduler, Settings, StoreKind, for_each_store, id_of, lease_of, until};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(30);

fn start(store: StoreKind) -> Scheduler {
    let settings = Settings::default().set("preempt-after", "0s").set("admission-interval", "300ms");
    Scheduler::start_with(store, settings)
}

fn register(scheduler: &Scheduler, name: &str) {
    scheduler.register(&json!({ "id": name, "resources": { "memory_mb": 100 } }));
}

fn submit(scheduler: &Scheduler, memory_mb: u32, more: &Value) -> String {
    let mut request = json!({ "command": "work", "resources": { "memory_mb": memory_mb } });
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    id_of(&scheduler.submit_job(&request))
}

fn why(scheduler: &Scheduler, id: &str) -> (Vec<String>, String) {
    let answer = scheduler.http().get(&format!("/jobs/{id}/why")).expect(200).json();
    let reasons = answer["reasons"].as_array().unwrap();
    let codes = reasons.iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect();
    (codes, answer.to_string())
}

for_each_store! {
    fn what_matters_less_stops_and_comes_back_at_no_cost(store) {
        let scheduler = start(store);
        register(&scheduler, "w");
        let low = submit(&scheduler, 80, &json!({}));
        let claim = scheduler.claim(Some("w"));
        assert_eq!(id_of(&claim), low);
        let urgent = submit(&scheduler, 60, &json!({ "priority": 5 }));
        let other = submit(&scheduler, 10, &json!({ "priority": 4 }));
        scheduler.await_status(&low, "preempting", BOUND);
        let (_, text) = why(&scheduler, &low);
        assert!(text.contains(&urgent) && text.contains("priority 5"), "{text}");
        let events = scheduler.http().get(&format!("/jobs/{urgent}/events")).expect(200).json();
        let made = events.as_array().unwrap().iter().find(|event| event["type"] == "room_made").unwrap();
        assert_eq!(made["data"]["by"], json!([low]));
        scheduler.acknowledge(std::slice::from_ref(&claim), 1);
        let next = scheduler.claim(Some("w"));
        assert_eq!(id_of(&next), urgent, "and not {other}, for which there was room before");
        assert_eq!(scheduler.job(&low)["attempts"], 0);
        let series = "muster_preemption_seconds_count";
        until("the time is counted", BOUND, || scheduler.metric(series) == Some(1));
        assert_eq!(scheduler.metric(r#"muster_preempted_for_others_total{cause="priority"}"#), Some(1));
    }

    fn room_is_kept_for_a_gang_while_short_jobs_pass(store) {
        let scheduler = start(store);
        register(&scheduler, "a");
        register(&scheduler, "b");
        submit(&scheduler, 60, &json!({ "timeout_seconds": 600 }));
        let first = scheduler.claim(Some("a"));
        let request = json!({ "command": "train", "gang_size": 2, "resources": { "memory_mb": 100 } });
        let gang = scheduler.submit_gang_with(&request);
        until("room is kept", BOUND, || scheduler.metric("muster_workers_keeping_room") == Some(2));
        let long = submit(&scheduler, 10, &json!({}));
        let short = submit(&scheduler, 10, &json!({ "timeout_seconds": 60 }));
        let passed = scheduler.claim(Some("b"));
        assert_eq!(id_of(&passed), short);
        assert!(scheduler.try_claim(Some("b")).is_none(), "{long} would stay too long");
        let (codes, text) = why(&scheduler, &long);
        assert!(codes.contains(&"kept".to_owned()) && text.contains(&gang.id), "{text}");
        let (codes, text) = why(&scheduler, &gang.tasks[0]);
        assert!(codes.contains(&"foreseen".to_owned()) && text.contains("expected to start at"), "{text}");
        for job in [&first, &passed] {
            scheduler.report_under(lease_of(job), &id_of(job), "done").expect_empty();
        }
        scheduler.await_gang(&gang, "reserved");
        scheduler.start_gang(&gang);
        until("nobody is kept out", BOUND, || scheduler.metric("muster_workers_keeping_room") == Some(0));
    }
}
