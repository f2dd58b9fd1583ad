//! Accounts with the real programs: what is shown is never stored, what is revoked is worthless everywhere, sessions outlive
//! restarts, workers join and are sent away.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use muster_tests::{Http, Response, Scheduler, Settings, StoreKind, Worker, WorkerSettings, until};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(30);
const PASSWORD: &str = "correct-horse-battery";

fn closed() -> Settings {
    Settings::default().set("loopback", "none")
}

/// A scheduler that trusts no connection, with an admin.
fn start(kind: StoreKind) -> Scheduler {
    let mut scheduler = Scheduler::start(kind);
    let admin = json!({ "name": "root", "role": "admin", "password": PASSWORD });
    scheduler.http().post_json("/users", &admin).expect(201);
    scheduler.terminate();
    scheduler.restart_with(closed());
    scheduler
}

fn send(http: &Http, token: &str, method: &str, target: &str, body: &Value) -> Response {
    let request = http.request(method, target).header("Authorization", &format!("Bearer {token}"));
    if body.is_null() { request.send() } else { request.body(body.to_string()).send() }
}

fn get(http: &Http, token: &str, target: &str) -> Response {
    send(http, token, "GET", target, &Value::Null)
}

fn login(http: &Http, user: &str, password: &str) -> Response {
    http.post_json("/auth/login", &json!({ "user": user, "password": password }))
}

fn session(http: &Http) -> String {
    text(&login(http, "root", PASSWORD).expect(200).json()["token"])
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// Whether a file, or one below a directory, has these bytes in it.
fn holds(path: &Path, wanted: &str) -> bool {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().any(|entry| holds(&entry.unwrap().path(), wanted));
    }
    let Ok(bytes) = fs::read(path) else { return false };
    bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes())
}

#[test]
fn what_is_shown_is_stored_nowhere() {
    for kind in [StoreKind::Sqlite, StoreKind::Postgres] {
        let mut scheduler = start(kind);
        let http = scheduler.http();
        let session = session(&http);
        let made = send(&http, &session, "POST", "/tokens", &json!({ "name": "ci" })).expect(201).json();
        let join =
            send(&http, &session, "POST", "/join-tokens", &json!({ "name": "rack" })).expect(201).json();
        let (token, join) = (text(&made["token"]), text(&join["token"]));
        get(&http, &token, "/jobs").expect(200);
        let key =
            send(&http, &join, "POST", "/workers/join", &json!({ "worker_id": "w1" })).expect(201).json();
        let key = text(&key["token"]);
        let said: Vec<String> = ["/metrics", "/tokens", "/worker-keys", "/users", "/audit"]
            .map(|target| get(&http, &session, target).text())
            .into();
        scheduler.terminate();
        let log = scheduler.process().output();
        let dump = match kind {
            StoreKind::Postgres => {
                let dumped = Command::new("pg_dump").arg(scheduler.backing().url()).output().unwrap();
                assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
                String::from_utf8_lossy(&dumped.stdout).into_owned()
            }
            _ => String::new(),
        };
        assert!(dump.contains("argon2id") || kind != StoreKind::Postgres);
        for secret in [PASSWORD, &session, &token, &join, &key] {
            assert!(!holds(&scheduler.backing().directory(), secret), "a file of the scheduler has it");
            assert!(!dump.contains(secret) && !log.contains(secret));
            assert!(said.iter().all(|said| !said.contains(secret)));
        }
    }
}

#[test]
fn a_session_outlives_a_restart_and_ends_with_the_password() {
    let mut scheduler = start(StoreKind::Sqlite);
    let token = session(&scheduler.http());
    scheduler.kill9();
    scheduler.restart();
    let http = scheduler.http();
    assert_eq!(get(&http, &token, "/auth/whoami").json()["role"], "admin");
    let change = json!({ "old": PASSWORD, "new": "another password" });
    send(&http, &token, "POST", "/auth/password", &change).expect(204);
    get(&http, &token, "/auth/whoami").expect(401);
    login(&http, "root", PASSWORD).expect(401);
    login(&http, "root", "another password").expect(200);
}

#[test]
fn who_guesses_too_often_waits() {
    let scheduler = start(StoreKind::Sqlite);
    let http = scheduler.http();
    for _ in 0..5 {
        login(&http, "root", "wrong password").expect(401);
    }
    let refused = login(&http, "root", PASSWORD);
    refused.expect(429);
    assert!(refused.header("retry-after").is_some());
    let unknown = login(&http, "nobody", "wrong password");
    unknown.expect(401);
}

#[test]
fn what_is_revoked_is_worthless_at_every_scheduler() {
    let one = start(StoreKind::Postgres);
    let other = Scheduler::start_apart(one.backing(), closed(), "other");
    let (here, there) = (one.http(), other.http());
    let admin = session(&here);
    get(&there, &admin, "/auth/whoami").expect(200);
    let made = send(&here, &admin, "POST", "/tokens", &json!({ "name": "ci" })).expect(201).json();
    let token = text(&made["token"]);
    get(&there, &token, "/jobs").expect(200);
    send(&here, &admin, "DELETE", &format!("/tokens/{}", text(&made["id"])), &Value::Null).expect(204);
    get(&here, &token, "/jobs").expect(401);
    until("it is worthless there too", BOUND, || get(&there, &token, "/jobs").status == 401);
    send(&here, &admin, "POST", "/auth/logout", &Value::Null).expect(204);
    until("the session has ended there too", BOUND, || get(&there, &admin, "/jobs").status == 401);
}

#[test]
fn a_token_makes_no_stronger_one() {
    let scheduler = start(StoreKind::Sqlite);
    let http = scheduler.http();
    let admin = session(&http);
    let weak = json!({ "name": "weak", "role": "user", "queues": ["night"] });
    let weak = text(&send(&http, &admin, "POST", "/tokens", &weak).expect(201).json()["token"]);
    for strong in
        [json!({ "name": "strong", "role": "admin" }), json!({ "name": "wide", "queues": ["night", "day"] })]
    {
        send(&http, &weak, "POST", "/tokens", &strong).expect(403);
    }
    send(&http, &admin, "POST", "/users", &json!({ "name": "vera", "role": "viewer" })).expect(201);
    let for_another = json!({ "name": "strong", "user": "vera", "role": "user" });
    send(&http, &admin, "POST", "/tokens", &for_another).expect(403);
    let made = send(&http, &weak, "POST", "/tokens", &json!({ "name": "same" })).expect(201).json();
    let me = get(&http, &text(&made["token"]), "/auth/whoami").json();
    assert_eq!((&me["role"], &me["queues"]), (&json!("user"), &json!(["night"])));
    let job = |queue: &str| json!({ "command": "true", "queue_name": queue });
    send(&http, &weak, "POST", "/jobs", &job("day")).expect(403);
    send(&http, &weak, "POST", "/jobs", &job("night")).expect(201);
    let forged = json!({ "command": "true", "queue_name": "night", "user": "somebody" });
    send(&http, &weak, "POST", "/jobs", &forged).expect(403);
    let jobs = get(&http, &admin, "/jobs").json();
    assert_eq!(jobs[0]["user"], "root");
}

#[test]
fn a_worker_joins_and_is_sent_away() {
    let scheduler = start(StoreKind::Sqlite);
    let http = scheduler.http();
    let admin = session(&http);
    let join = json!({ "name": "rack", "tags": ["gpu"], "uses": 2 });
    let join = text(&send(&http, &admin, "POST", "/join-tokens", &join).expect(201).json()["token"]);
    let mut worker = Worker::start_unheard(
        &scheduler.url(),
        WorkerSettings::new("w1", 1).set("join-token", &join).set("tags", "gpu"),
    );
    let key = worker.directory().join("worker-key");
    until("the worker has its key", BOUND, || key.exists());
    let submit = |command: &str| {
        text(&send(&http, &admin, "POST", "/jobs", &json!({ "command": command })).expect(201).json()["id"])
    };
    let of = |job: &str| get(&http, &admin, &format!("/jobs/{job}")).json();
    let quick = submit("true");
    until("a job is done", BOUND, || of(&quick)["status"] == "done");
    let noted = worker.directory().join("pid");
    let long = submit(&format!("echo $$ >> {}; exec sleep 600", noted.display()));
    let started = || fs::read_to_string(&noted).unwrap_or_default().lines().count();
    until("a job runs", BOUND, || of(&long)["status"] == "running" && started() == 1);
    let process = format!("/proc/{}", fs::read_to_string(&noted).unwrap().trim());
    // The original worker shows its name and its key in the URL.
    let shown = fs::read_to_string(&key).unwrap();
    let basic = |name: &str| {
        let pair = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{}", shown.trim()));
        let request =
            http.request("GET", &format!("/jobs/{long}")).header("Authorization", &format!("Basic {pair}"));
        request.send().status
    };
    assert_eq!((basic("w1"), basic("w2")), (200, 401));
    let keys = get(&http, &admin, "/worker-keys").json();
    let id = keys.as_array().unwrap().iter().find(|key| key["worker"] == "w1").unwrap()["id"].clone();
    send(&http, &admin, "DELETE", &format!("/worker-keys/{}", text(&id)), &Value::Null).expect(204);
    assert_eq!(
        of(&long)["status"],
        "pending",
        "it is taken away at once, and its claim that waits gets nothing"
    );
    assert_eq!(basic("w1"), 401);
    until("the worker has stopped it", BOUND, || !Path::new(&process).exists());
    let listed = get(&http, &admin, "/workers").json();
    assert_eq!(listed[0]["quarantine"]["revoked"], true);
    // The key in its directory is worthless; the join token is good for one more.
    worker.terminate(BOUND);
    worker.restart();
    until("it has joined again", BOUND, || of(&long)["status"] == "running" && started() == 2);
    assert_ne!(fs::read_to_string(&key).unwrap(), shown);
}

/// Its answer may have been lost, and output comes after the report.
#[test]
fn a_worker_with_a_key_may_speak_of_a_job_that_has_ended() {
    let scheduler = start(StoreKind::Sqlite);
    let http = scheduler.http();
    let admin = session(&http);
    let join = json!({ "name": "rack", "uses": 2 });
    let join = text(&send(&http, &admin, "POST", "/join-tokens", &join).expect(201).json()["token"]);
    let [holder, other] = ["w1", "w2"].map(|id| {
        let joined = send(&http, &join, "POST", "/workers/join", &json!({ "worker_id": id }));
        let key = text(&joined.expect(201).json()["token"]);
        send(&http, &key, "POST", "/workers/register", &json!({ "id": id })).expect(201);
        key
    });
    send(&http, &admin, "POST", "/jobs", &json!({ "command": "true" })).expect(201);
    let job = get(&http, &holder, "/jobs/next").expect(200).json();
    let (id, lease) = (text(&job["id"]), &job["lease"]);
    let done = format!("/jobs/{id}/done?lease={lease}");
    let late = format!("/jobs/{id}/logs?lease={lease}&attempt=1&offset=0&stream=stdout");
    for _ in 0..2 {
        send(&http, &holder, "POST", &done, &Value::Null).expect(200);
    }
    send(&http, &holder, "POST", &late, &json!("late")).expect(200);
    send(&http, &other, "POST", &done, &Value::Null).expect(403);
    send(&http, &other, "POST", &late, &json!("forged")).expect(403);
}

#[test]
fn output_is_read_through_another_scheduler_by_those_who_may() {
    let one = start(StoreKind::Postgres);
    let other = Scheduler::start_apart(one.backing(), closed(), "other");
    let (here, there) = (one.http(), other.http());
    let admin = session(&here);
    let join = send(&here, &admin, "POST", "/join-tokens", &json!({ "name": "rack" })).expect(201).json();
    let settings = WorkerSettings::new("w1", 1).set("join-token", &text(&join["token"]));
    let _worker = Worker::start_unheard(&one.url(), settings);
    let submit = json!({ "command": "echo from-afar" });
    let job = text(&send(&here, &admin, "POST", "/jobs", &submit).expect(201).json()["id"]);
    let target = format!("/jobs/{job}/logs");
    until("the output is there", BOUND, || get(&here, &admin, &target).text().contains("from-afar"));
    assert_eq!(get(&there, &admin, &target).expect(200).text(), "from-afar\n");
    there.get(&target).expect(401);
}

#[test]
fn old_lines_of_the_audit_log_go() {
    let settings = Settings::default().set("audit-retention", "1s").set("retention-interval", "1s");
    let scheduler = Scheduler::start_with(StoreKind::Sqlite, settings);
    let http = scheduler.http();
    http.post_json("/users", &json!({ "name": "ann" })).expect(201);
    until("the line is gone", BOUND, || http.get("/audit").json() == json!([]));
    assert_eq!(http.get("/users").json()[0]["name"], "ann");
}
