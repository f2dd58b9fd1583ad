//! Who sees what with real credentials: private jobs, and jobs in a queue that names its viewers, through every route that
//! can show a job; what queues allow; whose name events and the audit log tell.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use muster_tests::{Http, Response, Scheduler, Settings, StoreKind};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(30);
const PASSWORD: &str = "a long password";
/// Stands in the names and commands of all that somebody may not see.
const MARK: &str = "hush";

type Shown = Vec<(&'static str, String)>;

fn settings(loopback: &str) -> Settings {
    let settings = Settings::default().set("loopback", loopback);
    // What the test holds stays held, however slow the machine is.
    settings.set("job-heartbeat-timeout", "1h").set("preempt-timeout", "1h").set("reservation-timeout", "1h")
}

fn bearer(token: &str) -> Shown {
    vec![("Authorization", format!("Bearer {token}"))]
}

fn send(http: &Http, shown: &Shown, method: &str, target: &str, body: &str) -> Response {
    let mut request = http.request(method, target);
    for (name, value) in shown {
        request = request.header(name, value);
    }
    if body.is_empty() { request.send() } else { request.body(body).send() }
}

fn ask(http: &Http, shown: &Shown, method: &str, target: &str, body: &str) -> Value {
    let answer = send(http, shown, method, target, body);
    assert!(answer.status < 300, "{method} {target}: {} {}", answer.status, answer.text());
    if answer.text().is_empty() { Value::Null } else { answer.json() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// A job with all that can lead to it.
struct Objects {
    job: String,
    pipeline: String,
    array: String,
    gang: String,
    /// What the running job shows.
    token: Shown,
}

struct Cluster {
    scheduler: Scheduler,
    admin: Shown,
    join: String,
}

impl Cluster {
    fn start(kind: StoreKind) -> Self {
        let mut scheduler = Scheduler::start_with(kind, settings("same"));
        let account = json!({ "name": "root", "role": "admin", "password": PASSWORD }).to_string();
        ask(&scheduler.http(), &Vec::new(), "POST", "/users", &account);
        scheduler.terminate();
        scheduler.restart_with(settings("none"));
        let http = scheduler.http();
        let login = json!({ "user": "root", "password": PASSWORD }).to_string();
        let admin = bearer(&text(&ask(&http, &Vec::new(), "POST", "/auth/login", &login)["token"]));
        let users =
            [("vera", "viewer"), ("lisa", "viewer"), ("bob", "user"), ("ann", "user"), ("carl", "user")];
        for (name, role) in users.into_iter().chain([("olga", "operator")]) {
            ask(&http, &admin, "POST", "/users", &json!({ "name": name, "role": role }).to_string());
        }
        let join = json!({ "name": "rack", "uses": 9 }).to_string();
        let join = text(&ask(&http, &admin, "POST", "/join-tokens", &join)["token"]);
        let lists = json!({ "viewers": ["lisa"], "admins": ["carl"] }).to_string();
        ask(&http, &admin, "PUT", "/queues/listed", &lists);
        Self { scheduler, admin, join }
    }

    fn http(&self) -> Http {
        self.scheduler.http()
    }

    /// What a user shows: a token with a name.
    fn token(&self, user: &str) -> Shown {
        let body = json!({ "name": format!("of-{user}"), "user": user }).to_string();
        bearer(&text(&ask(&self.http(), &self.admin, "POST", "/tokens", &body)["token"]))
    }

    fn worker(&self, name: &str) -> Shown {
        let http = self.http();
        let body = json!({ "worker_id": name }).to_string();
        let key = bearer(&text(&ask(&http, &bearer(&self.join), "POST", "/workers/join", &body)["token"]));
        ask(&http, &key, "POST", "/workers/register", &json!({ "id": name, "slots": 4 }).to_string());
        key
    }

    /// Something of everything, with these fields; its job runs on the worker.
    fn objects(&self, owner: &Shown, worker: &Shown, fields: &Value) -> Objects {
        let http = self.http();
        let with = |mut body: Value| {
            body["command"] = json!(format!("echo {MARK}"));
            body["name"] = json!(MARK);
            for (key, value) in fields.as_object().unwrap() {
                body[key] = value.clone();
            }
            body.to_string()
        };
        ask(&http, owner, "POST", "/jobs", &with(json!({ "priority": 9 })));
        let job = ask(&http, worker, "GET", "/jobs/next", "");
        let default =
            |(key, value): (&String, &Value)| format!("  {}: {value}\n", key.trim_end_matches("_name"));
        let defaults = fields.as_object().unwrap().iter().map(default).collect::<Vec<_>>().concat();
        let file =
            format!("name: {MARK}\ndefaults:\n{defaults}steps:\n  - name: {MARK}\n    run: echo {MARK}\n");
        let pipeline = ask(&http, owner, "POST", "/pipelines", &file);
        let array = ask(&http, owner, "POST", "/arrays", &with(json!({ "indices": "0-1" })));
        let gang = ask(&http, owner, "POST", "/jobs", &with(json!({ "gang_size": 2 })));
        Objects {
            job: text(&job["id"]),
            pipeline: text(&pipeline["id"]),
            array: text(&array["id"]),
            gang: text(&gang["gang_id"]),
            token: vec![("X-Muster-Token", text(&job["token"]))],
        }
    }
}

/// Every route that shows one object by its id; those of a job first.
const JOB_ROUTES: [&str; 9] = [
    "/jobs/{job}",
    "/jobs/{job}/attempts",
    "/jobs/{job}/artifacts",
    "/jobs/{job}/events",
    "/jobs/{job}/why",
    "/jobs/{job}/logs",
    "/jobs/{job}/logs/stream",
    "/jobs/{job}/logs/runs",
    "/events?after=0&job_id={job}",
];
const SET_ROUTES: [&str; 5] = [
    "/pipelines/{pipeline}",
    "/arrays/{array}",
    "/gangs/{gang}",
    "/gangs/{gang}/why",
    "/gangs/{gang}/events",
];
const LISTS: [&str; 9] = [
    "/jobs",
    "/jobs?limit=100",
    "/pipelines",
    "/arrays",
    "/gangs",
    "/workers",
    "/summary",
    "/explain",
    "/jobs?name=hush",
];

fn target(route: &str, of: &Objects) -> String {
    let route = route.replace("{job}", &of.job).replace("{pipeline}", &of.pipeline);
    route.replace("{array}", &of.array).replace("{gang}", &of.gang)
}

fn nowhere() -> Objects {
    let id = "00000000-0000-4000-8000-000000000000";
    Objects {
        job: format!("job-{id}"),
        pipeline: format!("set-{id}"),
        array: format!("set-{id}"),
        gang: format!("gang-{id}"),
        token: Vec::new(),
    }
}

/// The status of an answer, and its text unless it is an endless one.
fn looked(http: &Http, shown: &Shown, target: &str) -> (u16, String) {
    if !target.contains("stream") && !target.starts_with("/events") {
        let answer = send(http, shown, "GET", target, "");
        // A job that is shown and has left nothing has an answer of its own.
        let is_empty_list = answer.text().contains("no artifacts for this job");
        return (if is_empty_list { 200 } else { answer.status }, answer.text());
    }
    let mut request = http.request("GET", target);
    for (name, value) in shown {
        request = request.header(name, value);
    }
    let mut stream = http.connect().unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream.write_all(&request.bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    let status = String::from_utf8_lossy(&head[9..12]).parse().unwrap();
    (status, if status == 404 { send(http, shown, "GET", target, "").text() } else { String::new() })
}

/// The stream of events from its beginning, until the event of this job is in it.
fn events_until(http: &Http, shown: &Shown, job: &str) -> String {
    let mut request = http.request("GET", "/events?after=0");
    for (name, value) in shown {
        request = request.header(name, value);
    }
    let mut stream = http.connect().unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream.write_all(&request.bytes()).unwrap();
    let (mut seen, mut piece) = (String::new(), [0; 4096]);
    while !seen.contains(job) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "the stream ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    seen
}

struct Callers {
    /// By name, what each shows.
    users: Vec<(&'static str, Shown)>,
    worker: Shown,
    other_worker: Shown,
}

impl Callers {
    fn of(cluster: &Cluster) -> Self {
        let named = |name| (name, cluster.token(name));
        let mut users: Vec<(&'static str, Shown)> =
            ["vera", "lisa", "bob", "ann", "carl", "olga"].map(named).into();
        users.push(("root", cluster.admin.clone()));
        Self { users, worker: cluster.worker("w1"), other_worker: cluster.worker("w2") }
    }

    fn user(&self, name: &str) -> &Shown {
        &self.users.iter().find(|(known, _)| *known == name).unwrap().1
    }
}

/// Checks every route for one kind of hidden work; `seeing` are the users who see it.
fn every_route_hides(cluster: &Cluster, callers: &Callers, fields: &Value, seeing: &[&str]) {
    let http = cluster.http();
    let owner = callers.user("ann");
    let hidden = cluster.objects(owner, &callers.worker, fields);
    let bob = callers.user("bob");
    ask(&http, bob, "POST", "/jobs", "{\"command\":\"true\",\"priority\":9}");
    let others = ask(&http, &callers.other_worker, "GET", "/jobs/next", "");
    let other_job: Shown = vec![("X-Muster-Token", text(&others["token"]))];
    let last = text(&ask(&http, bob, "POST", "/jobs", "{\"command\":\"true\"}")["id"]);
    let mut wrong = Vec::new();
    for route in JOB_ROUTES.iter().chain(&SET_ROUTES) {
        let target_of_it = target(route, &hidden);
        for (name, shown) in &callers.users {
            let (status, body) = looked(&http, shown, &target_of_it);
            let sees = seeing.contains(name);
            let fits = if sees {
                status < 300
            } else {
                let (as_unknown, unknown) = looked(&http, shown, &target(route, &nowhere()));
                status == 404 && as_unknown == 404 && body == unknown
            };
            if !fits {
                wrong.push(format!("{route} as {name}: {status} {body}; sees it: {sees}"));
            }
        }
    }
    for route in JOB_ROUTES.iter().filter(|route| !route.starts_with("/events")) {
        let cases = [
            (&callers.worker, true),
            (&hidden.token, true),
            (&callers.other_worker, false),
            (&other_job, false),
        ];
        for (place, (shown, holds)) in cases.iter().enumerate() {
            let (status, _) = looked(&http, shown, &target(route, &hidden));
            if (status < 300) != *holds {
                wrong.push(format!("{route} as holder {place}: {status}"));
            }
        }
    }
    for (name, shown) in &callers.users {
        let sees = seeing.contains(name);
        for list in LISTS {
            let body = send(&http, shown, "GET", list, "").expect(200).text();
            let shows = body.contains(MARK);
            if shows && !sees || !shows && sees && ["/jobs", "/pipelines"].contains(&list) {
                wrong.push(format!("{list} as {name}: {body}"));
            }
        }
        // Whose the work is that waits before theirs is nothing that they are told; bob's own job waits behind it.
        for told in ["/explain".to_owned(), format!("/jobs/{last}/why")] {
            let body = send(&http, shown, "GET", &told, "").expect(200).text();
            if !sees && body.contains("\"ann\"") {
                wrong.push(format!("{told} as {name}: {body}"));
            }
        }
        let told = events_until(&http, shown, &last);
        if told.contains(&hidden.job) != sees || told.contains("event: gap") {
            wrong.push(format!("/events as {name}: {told}"));
        }
    }
    assert!(wrong.is_empty(), "{} cells are wrong:\n{}", wrong.len(), wrong.join("\n"));
    // The numbers count it.
    let counted = |shown: &Shown| ask(&http, shown, "GET", "/summary", "")["jobs"].clone();
    assert_eq!(counted(callers.user("vera")), counted(&cluster.admin));
    nothing_is_done_to_it(&http, bob, &hidden);
}

fn nothing_is_done_to_it(http: &Http, bob: &Shown, hidden: &Objects) {
    // What may not be seen is not changed either, and an id that is there answers as one that is not.
    for (method, route) in [("POST", "/jobs/{job}/cancel"), ("POST", "/pipelines/{pipeline}/cancel")] {
        let answers = [hidden, &nowhere()]
            .map(|of| send(http, bob, method, &target(route, of), ""))
            .map(|answer| (answer.status, answer.text()));
        assert_eq!(answers[0], answers[1], "{route}");
        assert_eq!(answers[0].0, 403);
    }
    let bulk = json!({ "ids": [hidden.job] }).to_string();
    let refused = ask(http, bob, "POST", "/jobs/bulk/cancel", &bulk)["refused"].to_string();
    assert!(refused.contains("not found") || refused.contains("no such job"), "{refused}");
    let after = json!({ "command": "true", "depends_on": [hidden.job] }).to_string();
    let unknown = json!({ "command": "true", "depends_on": [nowhere().job] }).to_string();
    let codes = [after, unknown].map(|body| send(http, bob, "POST", "/jobs", &body).status);
    assert_eq!(codes, [400, 400], "nobody waits for what it may not see");
}

fn private_jobs(kind: StoreKind) {
    let cluster = Cluster::start(kind);
    let callers = Callers::of(&cluster);
    every_route_hides(&cluster, &callers, &json!({ "private": true }), &["ann", "olga", "root"]);
}

fn jobs_of_a_listed_queue(kind: StoreKind) {
    let cluster = Cluster::start(kind);
    let callers = Callers::of(&cluster);
    let fields = json!({ "queue_name": "listed" });
    every_route_hides(&cluster, &callers, &fields, &["lisa", "ann", "carl", "olga", "root"]);
}

#[test]
fn private_jobs_are_seen_by_their_owner_and_operators_sqlite() {
    private_jobs(StoreKind::Sqlite);
}

#[test]
fn private_jobs_are_seen_by_their_owner_and_operators_postgres() {
    private_jobs(StoreKind::Postgres);
}

#[test]
fn jobs_of_a_queue_with_viewers_are_seen_by_them_sqlite() {
    jobs_of_a_listed_queue(StoreKind::Sqlite);
}

#[test]
fn jobs_of_a_queue_with_viewers_are_seen_by_them_postgres() {
    jobs_of_a_listed_queue(StoreKind::Postgres);
}

/// The list above has every GET route that names a job, a pipeline, an array or a gang.
#[test]
fn no_route_that_shows_a_job_is_left_out() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let document = scheduler.http().get("/openapi.json").json();
    let kinds = ["jobs", "pipelines", "arrays", "gangs"];
    let listed: BTreeSet<String> = JOB_ROUTES
        .iter()
        .chain(&SET_ROUTES)
        .filter(|route| !route.starts_with("/events"))
        .map(|route| {
            kinds.iter().fold((*route).to_owned(), |route, kind| {
                route.replace(&format!("{{{}}}", kind.trim_end_matches('s')), "{id}")
            })
        })
        .collect();
    let documented: BTreeSet<String> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(path, item)| item.get("get").is_some() && path.contains("{id}"))
        .map(|(path, _)| path.clone())
        .filter(|path| kinds.contains(&path.split('/').nth(1).unwrap()))
        // Only its owner reads a checkpoint and what was sent along, and opens a terminal; workers serve it.
        .filter(|path| {
            !["/checkpoint", "/uploads/{upload}", "/inputs", "/inputs/{name}", "/exec", "/terminal"]
                .iter()
                .any(|end| path.ends_with(end))
        })
        .filter(|path| !path.ends_with("/terminals/{session}"))
        // One artifact is as hidden as the list of them, by the same lines.
        .filter(|path| !path.ends_with("/artifacts/{name}"))
        .collect();
    assert_eq!(listed, documented);
}

#[test]
fn artifacts_of_a_private_job_reach_only_the_job_that_names_them() {
    let cluster = Cluster::start(StoreKind::Sqlite);
    let (http, ann, bob) = (cluster.http(), cluster.token("ann"), cluster.token("bob"));
    let (worker, other) = (cluster.worker("w1"), cluster.worker("w2"));
    let private = json!({ "command": "x", "private": true });
    let first = text(&ask(&http, &ann, "POST", "/jobs", &private.to_string())["id"]);
    let lease = ask(&http, &worker, "GET", "/jobs/next?worker_id=w1", "")["lease"].clone();
    ask(&http, &worker, "PUT", &format!("/jobs/{first}/artifacts/a?lease={lease}"), MARK);
    ask(&http, &worker, "POST", &format!("/jobs/{first}/done?lease={lease}"), "");
    let wish =
        json!({ "command": "x", "private": true, "depends_on": [first], "inputs": [{ "from": first }] });
    let refused = send(&http, &bob, "POST", "/jobs", &wish.to_string());
    assert!(refused.status == 400 && refused.text().contains("does not exist"), "{}", refused.text());
    let second = text(&ask(&http, &ann, "POST", "/jobs", &wish.to_string())["id"]);
    let poll = json!({ "max": 1, "takes_inputs": true, "takes_all_inputs": true }).to_string();
    let claimed = ask(&http, &worker, "POST", "/workers/w1/sync", &poll)["jobs"][0].clone();
    assert_eq!(claimed["id"], json!(second), "{claimed}");
    let token = vec![("X-Muster-Token", text(&claimed["token"]))];
    let (list, one) = (format!("/jobs/{second}/inputs"), format!("/jobs/{second}/inputs/a?from={first}"));
    for shown in [&worker, &ann, &token] {
        assert_eq!(ask(&http, shown, "GET", &list, "")["files"][0]["from"], json!(first));
        assert_eq!(send(&http, shown, "GET", &one, "").text(), MARK);
    }
    // For bob it is as one that does not exist.
    let none = "/jobs/job-00000000-0000-4000-8000-000000000000/inputs";
    for (shown, target) in
        [(&other, list.as_str()), (&other, &one), (&bob, &list), (&bob, &one), (&bob, none)]
    {
        assert_eq!(send(&http, shown, "GET", target, "").status, 403, "{target}");
    }
    // Elsewhere the worker has no right to it.
    assert_eq!(send(&http, &other, "GET", &format!("/jobs/{first}/artifacts/a"), "").status, 403);
}

#[test]
fn of_a_mixed_pipeline_only_the_open_steps_are_shown() {
    let cluster = Cluster::start(StoreKind::Sqlite);
    let (http, ann, bob) = (cluster.http(), cluster.token("ann"), cluster.token("bob"));
    let file = "steps:\n  - name: hush\n    run: echo hush\n    private: true\n  - name: b\n    run: \"true\"\n    needs: [hush]\n";
    let made = ask(&http, &ann, "POST", "/pipelines", file);
    let id = text(&made["id"]);
    assert_eq!(made["steps"].as_array().unwrap().len(), 2);
    let seen = ask(&http, &bob, "GET", &format!("/pipelines/{id}"), "");
    assert!(!seen.to_string().contains(MARK), "{seen}");
    assert_eq!((seen["steps"].as_array().unwrap().len(), &seen["size"]), (1, &json!(1)));
    let jobs = ask(&http, &bob, "GET", &format!("/jobs?pipeline={id}"), "");
    assert_eq!(jobs.as_array().unwrap().len(), 1, "{jobs}");
}

#[test]
fn pages_have_no_holes() {
    let cluster = Cluster::start(StoreKind::Sqlite);
    let (http, ann, bob) = (cluster.http(), cluster.token("ann"), cluster.token("bob"));
    let jobs: Vec<Value> =
        (0..30).map(|number| json!({ "command": "true", "private": number % 3 != 0 })).collect();
    ask(&http, &ann, "POST", "/jobs/batch", &Value::from(jobs).to_string());
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = send(&http, &bob, "GET", &format!("/jobs?limit=4{cursor}"), "");
        let page = answer.expect(200).json();
        seen.extend(page.as_array().unwrap().iter().map(|job| text(&job["id"])));
        let Some(next) = answer.header("X-Next-Cursor") else { break };
        assert_eq!(page.as_array().unwrap().len(), 4);
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen.len(), 10);
    assert_eq!(ask(&http, &bob, "GET", "/jobs", "").as_array().unwrap().len(), 10);
    assert_eq!(ask(&http, &ann, "GET", "/jobs", "").as_array().unwrap().len(), 30);
}

#[test]
fn a_key_does_not_show_what_it_names() {
    let cluster = Cluster::start(StoreKind::Sqlite);
    let (http, ann, bob) = (cluster.http(), cluster.token("ann"), cluster.token("bob"));
    let body = |user: &str| {
        json!({ "command": "echo hush", "private": true, "unique": { "key": "k" }, "user": user }).to_string()
    };
    ask(&http, &ann, "POST", "/jobs", &body("ann"));
    let again = send(&http, &bob, "POST", "/jobs", &body("bob"));
    assert_eq!(again.status, 409, "{}", again.text());
    assert!(!again.text().contains(MARK), "{}", again.text());
    assert_eq!(send(&http, &ann, "POST", "/jobs", &body("ann")).status, 200);
}

#[test]
fn a_queue_names_who_submits_and_who_administrates() {
    let cluster = Cluster::start(StoreKind::Sqlite);
    let http = cluster.http();
    let [ann, bob, carl, olga] = ["ann", "bob", "carl", "olga"].map(|name| cluster.token(name));
    let lists = json!({ "submitters": ["ann"], "admins": ["carl"] }).to_string();
    let queue = ask(&http, &olga, "PUT", "/queues/team", &lists);
    assert_eq!((&queue["submitters"], &queue["admins"]), (&json!(["ann"]), &json!(["carl"])));
    assert_eq!(ask(&http, &bob, "GET", "/queues/team", "")["admins"], json!(["carl"]));
    ask(&http, &olga, "PUT", "/queues/below", "{\"parent\":\"team\"}");
    let submit = |shown: &Shown, queue: &str| {
        let body = json!({ "command": "true", "queue_name": queue }).to_string();
        send(&http, shown, "POST", "/jobs", &body)
    };
    for queue in ["team", "below"] {
        let refused = submit(&bob, queue);
        assert_eq!(refused.status, 403, "{queue}");
        assert!(refused.text().contains("ann"), "{}", refused.text());
        for shown in [&ann, &carl, &olga] {
            submit(shown, queue).expect(201);
        }
    }
    let batch = json!([{ "command": "true", "queue_name": "team" }]).to_string();
    send(&http, &bob, "POST", "/jobs/batch", &batch).expect(403);
    let file = "defaults:\n  queue: team\nsteps:\n  - name: a\n    run: \"true\"\n";
    send(&http, &bob, "POST", "/pipelines", file).expect(403);
    // An admin of the queue changes the jobs of others there, and no others.
    let job = text(&submit(&ann, "below").json()["id"]);
    let hold = format!("/jobs/{job}/hold");
    send(&http, &bob, "POST", &hold, "").expect(403);
    send(&http, &carl, "POST", &hold, "").expect(200);
    let events = ask(&http, &ann, "GET", &format!("/jobs/{job}/events"), "");
    let by: Vec<&Value> = events.as_array().unwrap().iter().map(|event| &event["by"]).collect();
    assert_eq!(by, [&json!("ann (token of-ann)"), &json!("carl (token of-carl)")]);
    let bulk = json!({ "queue": "below" }).to_string();
    let changed = ask(&http, &carl, "POST", "/jobs/bulk/cancel", &bulk);
    assert_eq!(changed["changed"].as_array().unwrap().len(), 4, "{changed}");
    let elsewhere = text(&ask(&http, &ann, "POST", "/jobs", "{\"command\":\"true\"}")["id"]);
    send(&http, &carl, "POST", &format!("/jobs/{elsewhere}/cancel"), "").expect(403);
    let hidden = json!({ "command": "true", "queue_name": "team", "private": true }).to_string();
    let hidden = text(&ask(&http, &ann, "POST", "/jobs", &hidden)["id"]);
    send(&http, &carl, "POST", &format!("/jobs/{hidden}/cancel"), "").expect(403);
    // It sets how the users of the queue share it, and nothing that others have.
    ask(&http, &carl, "PUT", "/queues/team", "{\"paused\":true,\"max_running_per_user\":2}");
    for body in [
        "{\"admins\":[\"bob\"]}",
        "{\"max_running\":9}",
        "{\"rate\":null}",
        "{\"weight\":9}",
        "{\"parent\":\"x\"}",
    ] {
        send(&http, &carl, "PUT", "/queues/team", body).expect(403);
    }
    send(&http, &carl, "DELETE", "/queues/team", "").expect(403);
    send(&http, &carl, "PUT", "/queues/other", "{\"paused\":true}").expect(403);
    send(&http, &bob, "PUT", "/queues/team", "{\"paused\":false}").expect(403);
    let wrong = send(&http, &olga, "PUT", "/queues/team", "{\"viewers\":[\"a b\"]}");
    assert!(wrong.status == 400 && wrong.text().contains("viewers"), "{}", wrong.text());
    let open = ask(&http, &olga, "PUT", "/queues/team", "{\"submitters\":null,\"paused\":false}");
    assert!(open.get("submitters").is_none() && open.get("admins").is_some(), "{open}");
    submit(&bob, "team").expect(201);
}

#[test]
fn the_audit_log_tells_what_operators_change_with_address_and_request() {
    let cluster = Cluster::start(StoreKind::Sqlite);
    let (http, olga, ann) = (cluster.http(), cluster.token("olga"), cluster.token("ann"));
    cluster.worker("w1");
    let set = send(&http, &olga, "PUT", "/queues/team", "{\"paused\":true}");
    let request = set.header("x-request-id").unwrap().to_owned();
    send(&http, &olga, "DELETE", "/queues/team", "").expect(204);
    send(&http, &olga, "POST", "/workers/w1/release", "").expect(200);
    let job = text(&ask(&http, &ann, "POST", "/jobs", "{\"command\":\"true\"}")["id"]);
    ask(&http, &olga, "POST", "/jobs/bulk/hold", &json!({ "ids": [job] }).to_string());
    ask(&http, &ann, "POST", "/jobs/bulk/release", &json!({ "ids": [job] }).to_string());
    let lines = ask(&http, &cluster.admin, "GET", "/audit", "");
    let lines = lines.as_array().unwrap();
    let by = |name: &str| {
        let own = lines.iter().filter(|line| line["by"] == json!(name));
        own.map(|line| (text(&line["action"]), text(&line["object"]))).collect::<Vec<_>>()
    };
    let named = |action: &str, object: &str| (action.to_owned(), object.to_owned());
    let expected = [
        named("jobs.hold", "1 of others"),
        named("worker.release", "w1"),
        named("queue.remove", "team"),
        named("queue.set", "team"),
    ];
    assert_eq!(by("olga"), expected);
    assert_eq!(by("ann"), [], "what is her own is in the events");
    let first =
        lines.iter().find(|line| line["action"] == json!("queue.set") && line["object"] == json!("team"));
    assert_eq!(first.unwrap()["request_id"], json!(request));
    for line in lines.iter().filter(|line| line["by"] != json!("local")) {
        assert!(line["address"].is_string() && line["request_id"].is_string(), "{line}");
    }
}
