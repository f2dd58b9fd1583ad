//! The scheduler of a run, the credentials that its requests show, and what has to hold afterwards.

use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Value, json};

use super::credentials::Shown;
use super::still;
use crate::http::{Http, Response};
use crate::scheduler::{Scheduler, Settings};
use crate::stores::StoreKind;

const PASSWORD: &str = "a long password";
/// A tag that only one worker has, so that requests that are made up do not take its job.
pub(super) const STEADY: &str = "steady";
/// The worker in whose name requests are made up.
const FUZZED: &str = "fuzz-worker";
const USERS: [(&str, &str); 3] = [("vera", "viewer"), ("ann", "user"), ("olga", "operator")];

/// Whether callers have to show who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accounts {
    Off,
    On,
}

pub(super) struct World {
    scheduler: Scheduler,
    shown: RwLock<Arc<Shown>>,
    admin: Option<String>,
    worker: Option<String>,
    /// Submitted before the requests.
    job: String,
}

fn settings(loopback: &str) -> Settings {
    let settings = Settings::default().set("loopback", loopback).set("long-poll-max", "20ms");
    // What is held stays held, however slow the machine is.
    settings.set("job-heartbeat-timeout", "1h").set("batch-limit", "500").set("log", "info")
}

fn ask(http: &Http, token: Option<&str>, method: &str, target: &str, body: &Value) -> Response {
    let mut request = http.request(method, target).header("Accept", "application/json");
    if let Some(token) = token {
        request = request.header("Authorization", &format!("Bearer {token}"));
    }
    if body.is_null() { request.send() } else { request.body(body.to_string()).send() }
}

fn told(http: &Http, token: Option<&str>, target: &str, body: &Value) -> Value {
    let answer = ask(http, token, "POST", target, body);
    assert!(answer.status < 300, "{target}: {} {}", answer.status, answer.text());
    if answer.body.is_empty() { Value::Null } else { answer.json() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl World {
    pub(super) fn start(accounts: Accounts) -> Self {
        let mut scheduler = Scheduler::start_with(StoreKind::Sqlite, settings("same"));
        if accounts == Accounts::On {
            let root = json!({ "name": "root", "role": "admin", "password": PASSWORD });
            told(&scheduler.http(), None, "/users", &root);
            scheduler.terminate();
            scheduler.restart_with(settings("none"));
        }
        let http = scheduler.http();
        let (mut admin, mut worker) = (None, None);
        if accounts == Accounts::On {
            let root = json!({ "user": "root", "password": PASSWORD });
            let session = text(&told(&http, None, "/auth/login", &root)["token"]);
            // Requests may end what they show, but not this one, which none of them shows.
            let token = told(&http, Some(&session), "/tokens", &json!({ "name": "of-the-run" }));
            for (user, role) in USERS {
                told(&http, Some(&session), "/users", &json!({ "name": user, "role": role }));
            }
            worker = join(&http, &session, STEADY);
            admin = Some(text(&token["token"]));
        }
        let registration = json!({ "id": STEADY, "slots": 4, "tags": [STEADY] });
        told(&http, worker.as_deref(), "/workers/register", &registration);
        let job = submit(&http, admin.as_deref());
        let world = Self { scheduler, shown: RwLock::default(), admin, worker, job };
        world.renew();
        world
    }

    /// Makes new credentials in place of those that requests have revoked.
    pub(super) fn renew(&self) {
        let Some(admin) = &self.admin else { return };
        let http = self.http();
        let mut shown = Shown::new();
        let mut bearer = |token: &str| shown.push(("Authorization".to_owned(), format!("Bearer {token}")));
        for (user, _) in USERS.iter().chain([&("root", "admin"); 4]) {
            let made = told(
                &http,
                Some(admin),
                "/tokens",
                &json!({ "name": "made-up", "user": user, "expires_in": 3600 }),
            );
            bearer(&text(&made["token"]));
        }
        let made = told(&http, Some(admin), "/join-tokens", &json!({ "name": "made-up", "uses": 1000 }));
        bearer(&text(&made["token"]));
        let key = join(&http, admin, FUZZED);
        if let Some(key) = key {
            bearer(&key);
            shown.push(("X-Muster-Token".to_owned(), job_token(&http, admin, &key)));
        }
        // Guesses of the requests may have closed the door for a while.
        let login = ask(&http, None, "POST", "/auth/login", &json!({ "user": "root", "password": PASSWORD }));
        if login.status == 200 {
            shown.push(("Cookie".to_owned(), format!("muster_session={}", text(&login.json()["token"]))));
        }
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shown);
    }

    pub(super) fn http(&self) -> Http {
        self.scheduler.http()
    }

    pub(super) fn shown(&self) -> Arc<Shown> {
        Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn document(&self) -> Value {
        self.http().get("/openapi.json").expect(200).json()
    }

    /// What does not hold after all requests.
    pub(super) fn afterwards(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        if let Some(status) = self.scheduler.process().ended() {
            wrong.push(format!("the scheduler ended with {status}"));
        } else {
            let http = self.http();
            wrong.extend(still("it is ready", || http.get("/readyz").status == 200));
            let later = submit(&http, self.admin.as_deref());
            for job in [&self.job, &later] {
                let found = still("a job runs through", || self.runs_through(job));
                let why = || {
                    ask(&http, self.admin.as_deref(), "GET", &format!("/jobs/{job}/why"), &Value::Null).text()
                };
                wrong.extend(found.map(|found| format!("{found}: {}", why())));
            }
        }
        let log = self.scheduler.process().output();
        let said = |word: &str| log.lines().find(|line| line.contains(word)).map(str::to_owned);
        wrong.extend(["panicked", "store error"].into_iter().filter_map(said));
        wrong
    }

    /// Claims what there is for the steady worker and ends it, until the job is done.
    fn runs_through(&self, job: &str) -> bool {
        let http = self.http();
        let claimed = ask(
            &http,
            self.worker.as_deref(),
            "GET",
            &format!("/jobs/next?worker_id={STEADY}"),
            &Value::Null,
        );
        if claimed.status == 200 {
            let claimed = claimed.json();
            let done =
                format!("/jobs/{}/done?lease={}&worker_id={STEADY}", text(&claimed["id"]), claimed["lease"]);
            ask(&http, self.worker.as_deref(), "POST", &done, &Value::Null);
        }
        let found = ask(&http, self.admin.as_deref(), "GET", &format!("/jobs/{job}"), &Value::Null);
        if found.status == 200 && found.json()["status"] == "running" {
            // A claim without a name has taken it, and never said more.
            let done = format!("/jobs/{job}/done?lease={}", found.json()["lease"]);
            ask(&http, self.worker.as_deref(), "POST", &done, &Value::Null);
        }
        found.status == 200 && found.json()["status"] == "done"
    }
}

fn submit(http: &Http, token: Option<&str>) -> String {
    text(&told(http, token, "/jobs", &json!({ "command": "true", "tags": [STEADY] }))["id"])
}

/// A new key of a worker, whatever became of the one before; `None` when a request has joined under its name just now.
fn join(http: &Http, admin: &str, worker: &str) -> Option<String> {
    let keys = ask(http, Some(admin), "GET", "/worker-keys", &Value::Null).expect(200).json();
    for key in keys.as_array().into_iter().flatten().filter(|key| key["worker"] == worker) {
        ask(http, Some(admin), "DELETE", &format!("/worker-keys/{}", text(&key["id"])), &Value::Null);
    }
    let token =
        text(&told(http, Some(admin), "/join-tokens", &json!({ "name": worker, "uses": 1 }))["token"]);
    let joined = ask(http, Some(&token), "POST", "/workers/join", &json!({ "worker_id": worker }));
    (joined.status == 201).then(|| text(&joined.json()["token"]))
}

/// The token of a job that runs on a worker whose requests are made up; empty when it gets no job.
fn job_token(http: &Http, admin: &str, worker: &str) -> String {
    let registration = json!({ "id": FUZZED, "slots": 64, "tags": ["fuzz"] });
    ask(http, Some(worker), "POST", "/workers/register", &registration);
    told(http, Some(admin), "/jobs", &json!({ "command": "true", "tags": ["fuzz"], "priority": 1_000 }));
    let claimed = ask(http, Some(worker), "GET", "/jobs/next", &Value::Null);
    if claimed.status == 200 { text(&claimed.json()["token"]) } else { String::new() }
}
