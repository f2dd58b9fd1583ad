//! Every route and every kind of caller: who is let in, who must say who it is, who may not.
//!
//! The expectations are written down here, apart from the table that the scheduler uses.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use muster_tests::{Http, Scheduler, Settings, StoreKind, until};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(30);
const PASSWORD: &str = "a long password";

/// The callers, in the order of the columns below.
const CALLERS: [&str; 15] = [
    "nobody",
    "another origin",
    "mistyped",
    "expired",
    "revoked",
    "viewer",
    "another user",
    "owner",
    "operator",
    "admin",
    "worker",
    "another worker",
    "job",
    "another job",
    "join token",
];

/// What each group of routes answers: `+` is let in, `1` is 401, `3` is 403.
#[rustfmt::skip]
const GROUPS: [(&str, &str); 22] = [
    //              nobody origin mistyped expired revoked | viewer other owner operator admin | worker other | job other | join
    ("health",      "+     3      1        1       1         +      +     +     +        +       +      +       +   +       +"),
    ("account",     "+     3      1        1       1         +      +     +     +        +       +      +       3   3       3"),
    ("read",        "1     3      1        1       1         +      +     +     +        +       3      3       3   3       3"),
    ("read job",    "1     3      1        1       1         +      +     +     +        +       +      3       +   3       3"),
    ("checkpoint",  "1     3      1        1       1         3      3     +     +        +       +      3       +   3       3"),
    ("submit",      "1     3      1        1       1         3      +     +     +        +       3      3       3   3       3"),
    ("change job",  "1     3      1        1       1         3      3     +     +        +       3      3       3   3       3"),
    ("bulk",        "1     3      1        1       1         3      +     +     +        +       3      3       3   3       3"),
    ("own worker",  "1     3      1        1       1         3      3     3     3        3       +      3       3   3       3"),
    ("any worker",  "1     3      1        1       1         3      3     3     3        3       +      +       3   3       3"),
    ("report",      "1     3      1        1       1         3      3     3     3        3       +      3       3   3       3"),
    ("save",        "1     3      1        1       1         3      3     3     3        3       +      3       +   3       3"),
    ("notice",      "1     3      1        1       1         3      3     3     3        3       3      3       +   +       3"),
    ("operate",     "1     3      1        1       1         3      3     3     +        +       3      3       3   3       3"),
    ("tokens",      "1     3      1        1       1         +      +     +     +        +       3      3       3   3       3"),
    ("users",       "1     3      1        1       1         3      3     3     3        +       3      3       3   3       3"),
    ("keys",        "1     3      1        1       1         3      3     3     +        +       3      3       3   3       3"),
    ("join",        "1     3      1        1       1         3      3     3     3        3       3      3       3   3       +"),
    ("audit",       "1     3      1        1       1         3      3     3     3        +       3      3       3   3       3"),
    ("set",         "1     3      1        1       1         3      3     +     +        +       3      3       3   3       3"),
    ("link",        "3     3      1        1       1         3      3     3     3        3       3      3       3   3       3"),
    ("logout",      "-     -      -        -       -         -      -     -     -        -       -      -       -   -       -"),
];

/// Every route with its group and what is sent: bodies that no handler takes, and leases that are not in force, so that
/// nothing happens to those who come next.
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET /jobs", "read", ""),
    ("POST /jobs", "submit", "{\"x\":1}"),
    ("POST /jobs/batch", "submit", "x"),
    ("POST /jobs/bulk/{verb}", "bulk", "{\"x\":1}"),
    ("GET /jobs/{id}", "read job", ""),
    ("PATCH /jobs/{id}", "change job", "{\"x\":1}"),
    ("DELETE /jobs/{id}", "change job", ""),
    ("POST /jobs/{id}/hold", "change job", ""),
    ("POST /jobs/{id}/unhold", "change job", ""),
    ("POST /jobs/{id}/retry", "change job", ""),
    ("POST /jobs/{id}/cancel", "change job", ""),
    ("GET /jobs/{id}/events", "read job", ""),
    ("GET /jobs/{id}/why", "read job", ""),
    ("GET /jobs/{id}/attempts", "read job", ""),
    ("GET /jobs/{id}/logs", "read job", ""),
    ("GET /jobs/{id}/logs/stream", "read job", ""),
    ("GET /jobs/{id}/logs/runs", "read job", ""),
    ("POST /jobs/{id}/preempt", "change job", ""),
    ("GET /jobs/{id}/artifacts", "read job", ""),
    ("GET /jobs/{id}/artifacts/{name}", "read job", ""),
    ("POST /jobs/{id}/artifacts/{name}/url", "read job", ""),
    ("PUT /jobs/{id}/artifacts/{name}", "save", "x"),
    ("POST /jobs/{id}/artifact-uploads", "save", "{\"x\":1}"),
    ("POST /jobs/{id}/artifact-uploads/complete", "save", "{\"x\":1}"),
    // The right to follow a link is in the link, and this is none.
    ("GET /artifact-links/{token}/{file}", "link", ""),
    ("GET /uploads/limits", "submit", ""),
    ("POST /uploads", "submit", "{\"x\":1}"),
    ("POST /uploads/{id}/chunks", "submit", "x"),
    ("POST /uploads/{id}/complete", "submit", ""),
    ("GET /jobs/{id}/uploads/{upload}", "checkpoint", ""),
    ("POST /jobs/{id}/uploads/{upload}/chunks", "checkpoint", "{\"x\":1}"),
    ("GET /jobs/{id}/inputs", "checkpoint", ""),
    ("GET /jobs/{id}/inputs/{name}", "checkpoint", ""),
    ("GET /jobs/{id}/exec", "change job", ""),
    ("GET /jobs/{id}/terminal", "change job", ""),
    ("GET /pipelines", "read", ""),
    ("POST /pipelines", "submit", "x"),
    ("GET /pipelines/{id}", "read", ""),
    ("POST /pipelines/{id}/steps", "set", "x"),
    ("POST /pipelines/{id}/cancel", "set", ""),
    ("POST /pipelines/{id}/retry", "set", ""),
    ("GET /arrays", "read", ""),
    ("POST /arrays", "submit", "{\"x\":1}"),
    ("GET /arrays/{id}", "read", ""),
    ("POST /arrays/{id}/cancel", "set", ""),
    ("POST /arrays/{id}/retry", "set", ""),
    ("GET /gangs", "read", ""),
    ("GET /gangs/{id}", "read", ""),
    ("POST /gangs/{id}/cancel", "set", ""),
    ("POST /gangs/{id}/retry", "set", ""),
    ("POST /gangs/{id}/hold", "set", ""),
    ("POST /gangs/{id}/unhold", "set", ""),
    ("POST /gangs/{id}/preempt", "set", ""),
    ("GET /gangs/{id}/why", "read", ""),
    ("GET /gangs/{id}/events", "read", ""),
    ("GET /jobs/next", "any worker", ""),
    ("POST /jobs/{id}/done", "report", ""),
    ("POST /jobs/{id}/fail", "report", ""),
    ("POST /jobs/{id}/release", "report", ""),
    ("POST /jobs/{id}/heartbeat", "report", ""),
    ("POST /jobs/{id}/preempted", "report", ""),
    ("POST /jobs/{id}/image", "report", "{\"x\":1}"),
    ("GET /jobs/{id}/checkpoint", "checkpoint", ""),
    ("POST /jobs/{id}/checkpoint", "save", "x"),
    ("POST /jobs/{id}/logs", "report", "x"),
    ("GET /jobs/{id}/terminals/{session}", "save", ""),
    ("POST /jobs/{id}/terminals/{session}", "save", ""),
    ("GET /workers", "read", ""),
    ("POST /workers/register", "any worker", "{\"x\":1}"),
    ("POST /workers/{id}/heartbeat", "own worker", ""),
    ("POST /workers/{id}/release", "operate", ""),
    ("POST /workers/{id}/sync", "own worker", "{\"x\":1}"),
    ("POST /workers/{id}/key", "own worker", ""),
    ("POST /workers/join", "join", "{\"x\":1}"),
    ("GET /notice", "notice", ""),
    ("GET /queues", "read", ""),
    ("GET /queues/{name}", "read", ""),
    ("PUT /queues/{name}", "operate", "{\"x\":1}"),
    ("DELETE /queues/{name}", "operate", ""),
    ("GET /secrets", "submit", ""),
    ("GET /secrets/keys", "submit", ""),
    ("GET /secrets/{name}", "submit", ""),
    ("PUT /secrets/{name}", "submit", "{\"x\":1}"),
    ("DELETE /secrets/{name}", "submit", ""),
    ("GET /webhooks", "operate", ""),
    ("POST /webhooks", "operate", "{\"x\":1}"),
    ("GET /webhooks/dead-letters", "operate", ""),
    ("DELETE /webhooks/dead-letters", "operate", ""),
    ("POST /webhooks/dead-letters/retry", "operate", ""),
    ("GET /webhooks/{id}", "operate", ""),
    ("PATCH /webhooks/{id}", "operate", "{\"x\":1}"),
    ("DELETE /webhooks/{id}", "operate", ""),
    ("POST /webhooks/{id}/test", "operate", ""),
    ("POST /auth/login", "account", "{\"x\":1}"),
    ("POST /auth/logout", "logout", ""),
    ("GET /auth/whoami", "account", ""),
    ("POST /auth/password", "account", "{\"x\":1}"),
    ("GET /auth/methods", "health", ""),
    ("GET /auth/oidc/login", "account", ""),
    ("GET /auth/oidc/callback", "account", ""),
    ("POST /auth/oidc/device", "account", ""),
    ("POST /auth/oidc/device/token", "account", "{\"x\":1}"),
    ("GET /users", "users", ""),
    ("POST /users", "users", "{\"x\":1}"),
    ("PATCH /users/{name}", "users", "{\"x\":1}"),
    ("DELETE /users/{name}", "users", ""),
    ("GET /tokens", "tokens", ""),
    ("POST /tokens", "tokens", "{\"x\":1}"),
    ("DELETE /tokens/{id}", "tokens", ""),
    ("POST /join-tokens", "keys", "{\"x\":1}"),
    ("GET /worker-keys", "keys", ""),
    ("DELETE /worker-keys/{id}", "keys", ""),
    ("GET /audit", "audit", ""),
    ("GET /events", "read", ""),
    ("GET /health", "health", ""),
    ("GET /healthz", "health", ""),
    ("GET /readyz", "health", ""),
    ("GET /metrics", "read", ""),
    ("GET /summary", "read", ""),
    ("GET /usage", "read", ""),
    ("GET /explain", "read", ""),
    ("GET /version", "health", ""),
    ("GET /openapi.json", "health", ""),
    ("GET /docs", "health", ""),
];

/// A scheduler that trusts no connection, and what the callers show.
struct Cluster {
    scheduler: Scheduler,
    shown: Vec<Vec<(&'static str, String)>>,
    job: String,
    pipeline: String,
    array: String,
    gang: String,
}

fn settings(loopback: &str) -> Settings {
    let settings = Settings::default().set("loopback", loopback);
    // What the test holds stays held, however slow the machine is.
    settings.set("job-heartbeat-timeout", "1h").set("preempt-timeout", "1h").set("reservation-timeout", "1h")
}

fn bearer(token: &str) -> Vec<(&'static str, String)> {
    vec![("Authorization", format!("Bearer {token}"))]
}

fn ask(http: &Http, shown: &[(&'static str, String)], method: &str, target: &str, body: &str) -> Value {
    let mut request = http.request(method, target);
    for (name, value) in shown {
        request = request.header(name, value);
    }
    let answer = if body.is_empty() { request.send() } else { request.body(body).send() };
    assert!(answer.status < 300, "{method} {target}: {} {}", answer.status, answer.text());
    if answer.text().is_empty() { Value::Null } else { answer.json() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn token(http: &Http, admin: &[(&'static str, String)], user: &str, expires: Option<u64>) -> Value {
    let body = json!({ "name": format!("of-{user}"), "user": user, "expires_in": expires });
    ask(http, admin, "POST", "/tokens", &body.to_string())
}

fn joined(http: &Http, join: &str, worker: &str) -> Vec<(&'static str, String)> {
    let body = json!({ "worker_id": worker }).to_string();
    let key = bearer(&text(&ask(http, &bearer(join), "POST", "/workers/join", &body)["token"]));
    let body = json!({ "id": worker, "slots": 4 }).to_string();
    ask(http, &key, "POST", "/workers/register", &body);
    key
}

/// Submits a job as a user and claims it as a worker; returns its id and what it shows.
fn started(
    http: &Http,
    user: &[(&'static str, String)],
    worker: &[(&'static str, String)],
) -> (String, Vec<(&'static str, String)>) {
    ask(http, user, "POST", "/jobs", "{\"command\":\"true\",\"priority\":9}");
    let job = ask(http, worker, "GET", "/jobs/next", "");
    (text(&job["id"]), vec![("X-Muster-Token", text(&job["token"]))])
}

impl Cluster {
    fn start(kind: StoreKind) -> Self {
        let mut scheduler = Scheduler::start_with(kind, settings("same"));
        let account = json!({ "name": "root", "role": "admin", "password": PASSWORD }).to_string();
        ask(&scheduler.http(), &[], "POST", "/users", &account);
        scheduler.terminate();
        scheduler.restart_with(settings("none"));
        let http = scheduler.http();
        let login = json!({ "user": "root", "password": PASSWORD }).to_string();
        let admin = bearer(&text(&ask(&http, &[], "POST", "/auth/login", &login)["token"]));
        for (name, role) in [("vera", "viewer"), ("bob", "user"), ("ann", "user"), ("olga", "operator")] {
            ask(&http, &admin, "POST", "/users", &json!({ "name": name, "role": role }).to_string());
        }
        let of = |user: &str| bearer(&text(&token(&http, &admin, user, None)["token"]));
        let (viewer, other, owner, operator) = (of("vera"), of("bob"), of("ann"), of("olga"));
        let expired = bearer(&text(&token(&http, &admin, "ann", Some(1))["token"]));
        let revoked = token(&http, &admin, "ann", None);
        ask(&http, &admin, "DELETE", &format!("/tokens/{}", text(&revoked["id"])), "");
        let join = json!({ "name": "rack", "uses": 9 }).to_string();
        let join = text(&ask(&http, &operator, "POST", "/join-tokens", &join)["token"]);
        let (worker, other_worker) = (joined(&http, &join, "w1"), joined(&http, &join, "w2"));
        let (job, own_job) = started(&http, &owner, &worker);
        let (_, other_job) = started(&http, &other, &other_worker);
        let pipeline = ask(&http, &owner, "POST", "/pipelines", "steps:\n  - name: a\n    run: \"true\"\n");
        let array = ask(&http, &owner, "POST", "/arrays", "{\"command\":\"true\",\"indices\":\"0-1\"}");
        let gang = ask(&http, &owner, "POST", "/jobs", "{\"command\":\"true\",\"gang_size\":2}");
        let mut mistyped = owner.clone();
        mistyped[0].1.pop();
        let from_elsewhere = [admin.clone(), vec![("Origin", "https://evil.example".to_owned())]].concat();
        let revoked = bearer(&text(&revoked["token"]));
        until("the token has expired", BOUND, || status(&http, &expired, "GET", "/auth/whoami", "") == 401);
        let shown = vec![
            Vec::new(),
            from_elsewhere,
            mistyped,
            expired,
            revoked,
            viewer,
            other,
            owner,
            operator,
            admin,
            worker,
            other_worker,
            own_job,
            other_job,
            bearer(&join),
        ];
        let id = |value: &Value, name: &str| text(&value[name]);
        Self {
            shown,
            job,
            pipeline: id(&pipeline, "id"),
            array: id(&array, "id"),
            gang: id(&gang, "gang_id"),
            scheduler,
        }
    }

    /// The target of a route, with what the owner and its worker have in it.
    fn target(&self, path: &str, group: &str) -> String {
        let kind = path.split('/').nth(1).unwrap_or_default();
        let id = match kind {
            "jobs" => &self.job,
            "pipelines" => &self.pipeline,
            "arrays" => &self.array,
            "gangs" => &self.gang,
            "workers" => "w1",
            "webhooks" => "hook-00000000-0000-4000-8000-000000000000",
            _ => "cred-00000000-0000-4000-8000-000000000000",
        };
        let target = path.replace("{id}", id).replace("{name}", "nobody").replace("{verb}", "hold");
        if ["report", "save"].contains(&group) { format!("{target}?lease=999") } else { target }
    }
}

/// The status of an answer, which need not end.
fn status(http: &Http, shown: &[(&'static str, String)], method: &str, target: &str, body: &str) -> u16 {
    let mut request = http.request(method, target);
    for (name, value) in shown {
        request = request.header(name, value);
    }
    let request = if body.is_empty() { request } else { request.body(body) };
    let mut stream = http.connect().unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream.write_all(&request.bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    String::from_utf8_lossy(&head[9..12]).parse().unwrap()
}

fn every_cell_is_as_stated(kind: StoreKind) {
    let cluster = Cluster::start(kind);
    let http = cluster.scheduler.http();
    let mut wrong = Vec::new();
    for (route, group, body) in ROUTES {
        let (method, path) = route.split_once(' ').unwrap();
        let (_, expected) = GROUPS.iter().find(|(name, _)| name == group).unwrap();
        let expected: Vec<&str> = expected.split_whitespace().collect();
        assert_eq!(expected.len(), CALLERS.len(), "{group}");
        let target = cluster.target(path, group);
        for ((caller, shown), expected) in CALLERS.iter().zip(&cluster.shown).zip(expected) {
            if expected == "-" {
                continue;
            }
            let status = status(&http, shown, method, &target, body);
            let fits = match expected {
                "1" => status == 401,
                "3" => status == 403,
                _ => ![401, 403].contains(&status) && status < 500,
            };
            if !fits {
                wrong.push(format!("{route} as {caller}: {status}, {expected} was expected"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A worker that shows no key, where the operator lets such workers work: nobody, but for what workers do.
fn without_a_key(kind: StoreKind) {
    let mut cluster = Cluster::start(kind);
    cluster.scheduler.terminate();
    cluster.scheduler.restart_with(settings("none").set("allow-legacy-workers", "any"));
    let http = cluster.scheduler.http();
    ask(&http, &[], "POST", "/workers/register", "{\"id\":\"old\",\"slots\":4}");
    let owner = &cluster.shown[7];
    ask(&http, owner, "POST", "/jobs", "{\"command\":\"true\",\"priority\":9}");
    let held = text(&ask(&http, &[], "GET", "/jobs/next?worker_id=old", "")["id"]);
    let mut wrong = Vec::new();
    for (route, group, body) in ROUTES {
        let (method, path) = route.split_once(' ').unwrap();
        let target = cluster.target(path, group);
        let own = target.replace(&cluster.job, &held).replace("/w1/", "/old/");
        let (others, mine): (&[u16], &[u16]) = match *group {
            // There is no key to be replaced.
            _ if path == "/workers/{id}/key" => (&[403], &[401]),
            "health" | "account" | "any worker" => (&[], &[]),
            "own worker" | "report" | "save" => (&[403], &[]),
            "logout" => continue,
            "link" => (&[403], &[403]),
            _ => (&[401], &[401]),
        };
        for (target, expected) in [(target, others), (own, mine)] {
            let status = status(&http, &[], method, &target, body);
            let let_in = ![401, 403].contains(&status) && status < 500;
            if if expected.is_empty() { !let_in } else { !expected.contains(&status) } {
                wrong.push(format!("{method} {target}: {status}, {expected:?} was expected"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The list above has every route that the scheduler says it has.
fn no_route_is_left_out(kind: StoreKind) {
    let scheduler = Scheduler::start(kind);
    let document = scheduler.http().get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap().iter();
    let documented: BTreeSet<String> = paths
        .flat_map(|(path, item)| {
            item.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    let listed: BTreeSet<String> = ROUTES.iter().map(|(route, _, _)| (*route).to_owned()).collect();
    assert_eq!(documented.difference(&listed).collect::<Vec<_>>(), Vec::<&String>::new());
    assert_eq!(listed.difference(&documented).collect::<Vec<_>>(), Vec::<&String>::new());
}

#[test]
fn every_route_for_every_caller_sqlite() {
    every_cell_is_as_stated(StoreKind::Sqlite);
}

#[test]
fn every_route_for_every_caller_postgres() {
    every_cell_is_as_stated(StoreKind::Postgres);
}

#[test]
fn every_route_for_a_worker_without_a_key() {
    without_a_key(StoreKind::Sqlite);
}

#[test]
fn the_list_of_routes_is_complete() {
    no_route_is_left_out(StoreKind::Memory);
}
