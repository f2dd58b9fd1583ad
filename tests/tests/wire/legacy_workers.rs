//! Workers of the original system where callers show who they are: without a key only where the operator lets them, and with
//! a key in their URL everywhere.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_tests::{Http, Response, Scheduler, Settings, StoreKind, id_of, lease_of, until};
use serde_json::{Value, json};
use std::time::Duration;

const PASSWORD: &str = "a long password";
const BOUND: Duration = Duration::from_secs(30);

fn settings(loopback: &str, legacy: &str) -> Settings {
    let settings = Settings::default().set("loopback", loopback).set("allow-legacy-workers", legacy);
    settings.set("job-heartbeat-timeout", "1h")
}

fn bearer(http: &Http, token: &str, method: &str, target: &str, body: &Value) -> Response {
    let request = http.request(method, target).header("Authorization", &format!("Bearer {token}"));
    if body.is_null() { request.send() } else { request.body(body.to_string()).send() }
}

/// A scheduler with an admin, whose session is returned.
fn start(legacy: &str) -> (Scheduler, String) {
    let mut scheduler = Scheduler::start_with(StoreKind::Sqlite, settings("same", "loopback"));
    let root = json!({ "name": "root", "role": "admin", "password": PASSWORD });
    scheduler.http().post_json("/users", &root).expect(201);
    scheduler.terminate();
    scheduler.restart_with(settings("none", legacy));
    let login = scheduler.http().post_json("/auth/login", &json!({ "user": "root", "password": PASSWORD }));
    let token = login.expect(200).json()["token"].as_str().unwrap().to_owned();
    (scheduler, token)
}

fn join(http: &Http, admin: &str, worker: &str) -> String {
    let made = bearer(http, admin, "POST", "/join-tokens", &json!({ "name": "rack" })).expect(201).json();
    let made = made["token"].as_str().unwrap();
    let joined =
        bearer(http, made, "POST", "/workers/join", &json!({ "worker_id": worker })).expect(201).json();
    joined["token"].as_str().unwrap().to_owned()
}

fn submit(http: &Http, admin: &str) -> String {
    id_of(&bearer(http, admin, "POST", "/jobs", &json!({ "command": "true" })).expect(201).json())
}

/// The worker of the original system, perhaps with `name:key@` in its URL.
struct Original {
    http: Http,
    name: &'static str,
    key: Option<String>,
}

impl Original {
    fn send(&self, method: &str, target: &str, body: &str) -> Response {
        let mut request = self.http.request(method, target).header("User-Agent", "Go-http-client/1.1");
        if let Some(key) = &self.key {
            let pair = STANDARD.encode(format!("{}:{key}", self.name));
            request = request.header("Authorization", &format!("Basic {pair}"));
        }
        request.body(body).send()
    }

    fn register(&self) -> Response {
        let body = json!({ "id": self.name, "exec_addr": "", "resources": {}, "status": "",
            "last_heartbeat": "0001-01-01T00:00:00Z", "registered_at": "0001-01-01T00:00:00Z" });
        self.send("POST", "/workers/register", &body.to_string())
    }

    fn next(&self) -> Response {
        self.send("GET", &format!("/jobs/next?worker_id={}", self.name), "")
    }

    fn beat(&self) -> Response {
        self.send("POST", &format!("/workers/{}/heartbeat", self.name), "")
    }

    /// Everything that it does with jobs that the admin submits.
    fn works(&self, admin: &str) {
        self.register().expect(201);
        self.beat().expect_empty();
        self.next().expect(204);
        for (report, status) in [("done", "done"), ("release", "pending"), ("fail", "pending")] {
            let job = submit(&self.http, admin);
            let claimed = self.next().expect(200).json();
            assert_eq!((id_of(&claimed), &claimed["worker_id"]), (job.clone(), &json!(self.name)));
            self.send("POST", &format!("/jobs/{job}/heartbeat"), "").expect_empty();
            let output =
                format!("/jobs/{job}/logs?lease={}&attempt=1&stream=stdout&offset=0", lease_of(&claimed));
            self.send("POST", &output, "said\n").expect(200);
            self.send("POST", &format!("/jobs/{job}/{report}"), "").expect_empty();
            let found = bearer(&self.http, admin, "GET", &format!("/jobs/{job}"), &Value::Null).json();
            assert_eq!(found["status"], status);
            bearer(&self.http, admin, "POST", &format!("/jobs/{job}/cancel"), &Value::Null);
        }
    }
}

#[test]
fn without_a_key_it_works_only_where_the_operator_lets_it() {
    for legacy in ["loopback", "none"] {
        let (scheduler, admin) = start(legacy);
        let old = Original { http: scheduler.http(), name: "old", key: None };
        let job = submit(&old.http, &admin);
        let report = old.send("POST", &format!("/jobs/{job}/done"), "");
        for refused in [old.register(), old.beat(), old.next(), report] {
            refused.expect(401);
        }
    }
    let (mut scheduler, admin) = start("any");
    Original { http: scheduler.http(), name: "old", key: None }.works(&admin);
    for target in
        ["/jobs", "/metrics", "/workers", "/events", "/queues", "/tokens", "/audit", "/secrets", "/users"]
    {
        scheduler.http().get(target).expect(401);
    }
    scheduler.http().post("/jobs", "{\"command\":\"true\"}").expect(401);
    let log = scheduler.process().output();
    assert!(log.contains("everyone who reaches the port can act as a worker"), "{log}");
}

#[test]
fn without_a_key_it_does_not_pass_for_a_worker_that_has_one() {
    let (scheduler, admin) = start("any");
    let http = scheduler.http();
    let key = join(&http, &admin, "w1");
    let keyed = Original { http, name: "w1", key: Some(key) };
    keyed.register().expect(201);
    let job = submit(&http, &admin);
    let claimed = keyed.next().expect(200).json();
    let thief = Original { http, name: "w1", key: None };
    // What is known of keys may be half a second old.
    until("the name is taken", BOUND, || thief.register().status == 403);
    let lease = lease_of(&claimed);
    let output = format!("/jobs/{job}/logs?lease={lease}&attempt=1&stream=stdout&offset=0");
    let reports =
        ["done", "fail", "release", "heartbeat"].map(|report| format!("/jobs/{job}/{report}?lease={lease}"));
    for target in reports.iter().chain([&output, &format!("/jobs/{job}/checkpoint?epoch=1")]) {
        thief.send("POST", target, "x").expect(403);
    }
    thief.next().expect(403);
    thief.beat().expect(403);
    thief.send("POST", "/workers/w1/sync", "{}").expect(403);
    // In the name of another worker it cannot speak about the job either.
    let sync = json!({ "reports": [{ "job_id": job, "lease": lease, "kind": "done" }] }).to_string();
    Original { http, name: "old", key: None }.register().expect(201);
    let heard = thief.send("POST", "/workers/old/sync", &sync).expect(200).json();
    assert_eq!(heard["results"][0]["status"], 409, "{heard}");
    keyed.send("POST", &format!("/jobs/{job}/done"), "").expect_empty();
    // What has ended is nobody's to write about.
    thief.send("POST", &output, "forged").expect(403);
    let sealing =
        json!({ "id": "old", "sealing_keys": [{ "id": "k", "public_key": STANDARD.encode([7; 32]) }] });
    let answer = thief.send("POST", "/workers/register", &sealing.to_string());
    assert!([400, 403].contains(&answer.status), "{} {}", answer.status, answer.text());
    let keys = bearer(&http, &admin, "GET", "/secrets/keys", &Value::Null).expect(200).text();
    assert!(!keys.contains("old"), "{keys}");
}

#[test]
fn with_its_key_in_the_url_it_works_everywhere() {
    for legacy in ["loopback", "none"] {
        let (scheduler, admin) = start(legacy);
        let http = scheduler.http();
        let key = join(&http, &admin, "old");
        Original { http, name: "old", key: Some(key.clone()) }.works(&admin);
        Original { http, name: "other", key: Some(key) }.next().expect(401);
    }
}

#[test]
fn the_operator_can_demand_keys_on_loopback_too() {
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, settings("same", "none"));
    let http = scheduler.http();
    let job = scheduler.submit("true");
    let old = Original { http, name: "old", key: None };
    for answer in [old.register(), old.beat(), old.next(), old.send("POST", &format!("/jobs/{job}/done"), "")]
    {
        assert!(
            answer.status == 403 && answer.text().contains("--allow-legacy-workers none"),
            "{}",
            answer.text()
        );
    }
    let made = http.post_json("/join-tokens", &json!({ "name": "rack" })).expect(201).json();
    let made = made["token"].as_str().unwrap();
    let joined =
        bearer(&http, made, "POST", "/workers/join", &json!({ "worker_id": "old" })).expect(201).json();
    let key = joined["token"].as_str().unwrap().to_owned();
    let keyed = Original { key: Some(key), ..old };
    keyed.register().expect(201);
    keyed.next().expect(200);
    keyed.send("POST", &format!("/jobs/{job}/done"), "").expect_empty();
}
