//! What every response carries, and the form of errors.

use std::collections::BTreeSet;

use muster_tests::{Scheduler, for_each_store, is_uuid_v4};
use serde_json::json;

for_each_store! {
    fn t01_every_response_has_a_fresh_request_id(store) {
        let scheduler = Scheduler::start(store);
        let http = scheduler.http();
        let requests = [
            ("GET", "/jobs", None),
            ("GET", "/jobs/next", None),
            ("GET", "/jobs/unknown", None),
            ("GET", "/workers", None),
            ("GET", "/health", None),
            ("GET", "/healthz", None),
            ("GET", "/readyz", None),
            ("GET", "/metrics", None),
            ("GET", "/nowhere", None),
            ("DELETE", "/jobs", None),
            ("HEAD", "/jobs", None),
            ("POST", "/jobs", Some("{\"command\":\"true\"}")),
            ("POST", "/jobs", Some("broken")),
            ("GET", "/openapi.json", None),
        ];
        let mut seen = BTreeSet::new();
        for (method, target, body) in requests {
            let mut request = http.request(method, target).header("X-Request-ID", "chosen-by-the-client");
            if let Some(body) = body {
                request = request.body(body);
            }
            let response = request.send();
            let id = response.header("x-request-id").unwrap_or_else(|| panic!("{method} {target}: no id")).to_owned();
            assert!(is_uuid_v4(&id), "{method} {target}: {id}");
            assert!(seen.insert(id), "{method} {target}: an id was used twice");
        }
    }

    fn t01_errors_are_plain_text_with_the_listed_messages(store) {
        let scheduler = Scheduler::start(store);
        let http = scheduler.http();
        http.post("/jobs", "{").expect_error(400, "invalid request body");
        http.post("/jobs", "").expect_error(400, "invalid request body");
        http.post("/jobs", "{}").expect_error(400, "command is required");
        http.post("/jobs", r#"{"command":""}"#).expect_error(400, "command is required");
        let unknown = r#"{"command":"true","depends_on":["job-x"]}"#;
        http.post("/jobs", unknown).expect_error(400, "dependency \"job-x\" does not exist");
        http.get("/jobs/unknown").expect_error(404, "job not found");
        for report in ["done", "fail", "heartbeat", "preempted?epoch=1", "checkpoint?epoch=1"] {
            scheduler.report("unknown", report).expect_error(404, "job not found");
        }
        http.get("/jobs/unknown/checkpoint").expect_error(404, "job not found");
        http.get("/gangs/unknown").expect_error(404, "gang not found");
        http.post("/workers/register", "[").expect_error(400, "invalid request body");
        http.post("/workers/register", "{}").expect_error(400, "worker id is required");
        http.post("/workers/unknown/heartbeat", "").expect_error(404, "worker not found");
        let pending = scheduler.submit("true");
        scheduler.report(&pending, "done").expect_error(409, "job is not running");
        scheduler.report(&pending, "fail").expect_error(409, "job is not running");
        scheduler.report(&pending, "heartbeat").expect_error(409, "job is not running");
    }

    fn a0_unknown_paths_and_methods(store) {
        let scheduler = Scheduler::start(store);
        let http = scheduler.http();
        for target in ["/nowhere", "/jobs/a/b/c", "/workers/a/b/c", "/"] {
            let response = http.get(target);
            if target == "/" && response.status == 200 {
                continue; // A page for people may live at the root.
            }
            response.expect_error(404, "404 page not found");
        }
        for (method, target, allowed) in [
            ("DELETE", "/jobs", "POST"),
            ("PUT", "/jobs", "GET"),
            ("GET", "/workers/register", "POST"),
            ("POST", "/health", "GET"),
            ("POST", "/metrics", "GET"),
            ("GET", "/jobs/some-id/done", "POST"),
        ] {
            let response = http.request(method, target).send();
            response.expect(405);
            assert_eq!(response.text(), "Method Not Allowed\n", "{method} {target}");
            let allow = response.header("allow").unwrap_or_else(|| panic!("{method} {target}: no Allow"));
            assert!(allow.contains(allowed), "{method} {target}: Allow: {allow}");
        }
    }

    fn a0_head_works_wherever_get_does(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        for target in ["/jobs", &format!("/jobs/{id}"), "/workers", "/health", "/healthz", "/readyz", "/metrics"] {
            let response = scheduler.http().request("HEAD", target).send();
            assert_eq!(response.status, 200, "HEAD {target}");
            assert!(response.body.is_empty(), "HEAD {target}");
        }
        scheduler.http().request("HEAD", "/jobs/unknown").send().expect(404);
    }

    fn a0_success_is_json_with_one_newline(store) {
        let scheduler = Scheduler::start(store);
        let id = scheduler.submit("true");
        for target in ["/jobs", &format!("/jobs/{id}"), "/workers", "/health"] {
            let response = scheduler.http().get(target);
            assert_eq!(response.expect(200).header("content-type"), Some("application/json"), "{target}");
            let text = response.text();
            assert!(text.ends_with('\n') && !text.trim_end_matches('\n').contains('\n'), "{target}: {text:?}");
        }
    }

    fn errors_are_problem_documents_when_the_client_accepts_json(store) {
        let scheduler = Scheduler::start(store);
        let ask = |target: &str| scheduler.http().request("GET", target).header("Accept", "application/json").send();
        let response = ask("/jobs/unknown");
        response.expect(404);
        assert_eq!(response.header("content-type"), Some("application/problem+json"));
        let problem = response.json();
        assert_eq!(problem["status"], 404);
        assert_eq!(problem["detail"], "job not found");
        assert_eq!(problem["code"], "job_not_found");
        assert_eq!(problem["request_id"].as_str(), response.header("x-request-id"));
        let response = ask("/nowhere");
        assert_eq!(response.expect(404).header("content-type"), Some("application/problem+json"));
        let refused = scheduler.http().request("POST", "/jobs").header("Accept", "application/json");
        let refused = refused.body(json!({ "command": "" }).to_string()).send();
        assert_eq!(refused.expect(400).json()["detail"], "command is required");
    }

    fn health_says_who_answers_and_for_how_long(store) {
        let scheduler = Scheduler::start(store);
        let health = scheduler.http().get("/health").expect(200).json();
        assert_eq!(health["status"], "ok");
        assert_eq!(health["instance_id"].as_str().map(str::len), Some(8));
        let uptime = health["uptime"].as_str().unwrap_or_default();
        assert!(uptime.ends_with('s') && uptime[..1].parse::<u8>().is_ok(), "{uptime}");
        scheduler.http().get("/healthz").expect(200);
        scheduler.http().get("/readyz").expect(200);
    }
}
