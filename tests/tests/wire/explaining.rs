//! Why work waits, and how the cluster stands as a whole, over the wire.

use muster_tests::{Scheduler, for_each_store, id_of};
use serde_json::{Value, json};

fn register(scheduler: &Scheduler, name: &str, gpus: u32) {
    scheduler.register(&json!({ "id": name, "resources": { "gpus": gpus } }));
}

fn submit(scheduler: &Scheduler, gpus: u32, more: &Value) -> String {
    let mut request = json!({ "command": "work", "resources": { "gpus": gpus } });
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
    }
    id_of(&scheduler.submit_job(&request))
}

fn set_quota(scheduler: &Scheduler, queue: &str, gpus: u32) {
    let request = scheduler.http().request("PUT", &format!("/queues/{queue}"));
    let body = json!({ "nominal": { "gpus": gpus } }).to_string();
    request.header("Content-Type", "application/json").body(body).send().expect(200);
}

fn find<'v>(list: &'v Value, code: &str) -> &'v Value {
    list.as_array().unwrap().iter().find(|one| one["code"] == code).unwrap_or(&Value::Null)
}

for_each_store! {
    fn why_names_classes_of_workers_and_what_would_help(store) {
        let scheduler = Scheduler::start(store);
        register(&scheduler, "large", 8);
        register(&scheduler, "small", 4);
        let first = submit(&scheduler, 8, &json!({ "user": "ann", "timeout_seconds": 3600 }));
        assert_eq!(id_of(&scheduler.claim(Some("large"))), first);
        let waiting = submit(&scheduler, 8, &json!({}));
        let why = scheduler.http().get(&format!("/jobs/{waiting}/why")).expect(200).json();
        let busy = find(&why["reasons"], "resources");
        assert_eq!((&busy["worker"], &busy["shortfalls"][0]["resource"]), (&json!("large"), &json!("gpus")));
        assert_eq!((&busy["shortfalls"][0]["needed"], &busy["shortfalls"][0]["available"]), (&json!(8.0), &json!(0.0)));
        let [large, small] = why["classes"].as_array().unwrap().as_slice() else { panic!("{why}") };
        assert_eq!((&large["busy"], &large["able"], &small["able"]), (&json!(1), &json!(true), &json!(false)));
        assert_eq!((&large["holders"][0]["id"], &large["holders"][0]["user"]), (&json!(first), &json!("ann")));
        assert_eq!(large["free_at"], why["start"]["at"], "{why}");
        let less = find(&why["suggestions"], "less");
        assert_eq!((&less["amounts"][0]["to"], &less["workers"][0]), (&json!(4.0), &json!("small")));
        let follows = submit(&scheduler, 4, &json!({}));
        assert_eq!(id_of(&scheduler.claim(Some("small"))), follows, "what is suggested works");
    }

    fn a_job_behind_a_quota_is_not_told_that_nobody_asks(store) {
        let scheduler = Scheduler::start(store);
        register(&scheduler, "w", 8);
        set_quota(&scheduler, "lab", 2);
        submit(&scheduler, 2, &json!({ "queue_name": "lab" }));
        scheduler.claim(Some("w"));
        let waiting = submit(&scheduler, 1, &json!({ "queue_name": "lab" }));
        let why = scheduler.http().get(&format!("/jobs/{waiting}/why")).expect(200).json();
        let codes: Vec<&Value> = why["reasons"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
        assert_eq!(codes, [&json!("quota")], "{why}");
        let more = find(&why["suggestions"], "more_quota");
        assert_eq!((&more["queue"], &more["amounts"][0]["to"]), (&json!("lab"), &json!(3.0)));
        set_quota(&scheduler, "lab", 3);
        assert_eq!(id_of(&scheduler.claim(Some("w"))), waiting);
    }

    fn the_cluster_says_what_waits_and_what_is_idle(store) {
        let scheduler = Scheduler::start(store);
        let explain = || scheduler.http().get("/explain").expect(200).json();
        register(&scheduler, "large", 8);
        register(&scheduler, "small", 4);
        assert_eq!(find(&explain()["idle"], "nobody_waits")["free"]["gpus"], 12);
        submit(&scheduler, 6, &json!({}));
        scheduler.claim(Some("large"));
        for _ in 0..3 {
            submit(&scheduler, 8, &json!({}));
        }
        let found = explain();
        assert_eq!(find(&found["waiting"], "resources")["jobs"], 3, "{found}");
        assert_eq!(found["line"].as_array().unwrap().len(), 1, "jobs that are alike are one line");
        assert_eq!(find(&found["idle"], "does_not_fit")["free"]["gpus"], 6);
        assert_eq!((&found["free"]["gpus"], &found["stranded"]["gpus"]), (&json!(6), &json!(6)));
        assert_eq!(found["pools"][0]["by_free"], json!([{ "free": 2, "workers": 1 }]));
    }
}
