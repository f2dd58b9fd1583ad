//! `--run-as submitter`: who is proven, who is not, and what becomes of jobs of the latter.

use std::io::Read as _;
use std::process::Stdio;

use muster_tests::{
    ContainerEngine, Http, IMAGE, LocalUser, Scheduler, Settings, StoreKind, Worker, WorkerSettings, id_of,
    until,
};
use serde_json::{Value, json};

use super::{BOUND, end_of, ended, output};

/// What a client sends to change over.
const UPGRADE: [&str; 4] = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
];

fn personal(scheduler: &Scheduler, allow_root: bool) -> Worker {
    let settings = WorkerSettings::new("personal", 4).set("run-as", "submitter");
    Worker::start(scheduler, if allow_root { settings.set("allow-root-jobs", "true") } else { settings })
}

/// Makes an account and a token of it.
fn token(http: &Http, name: &str, role: &str) -> String {
    let account = json!({"name": name, "role": role, "password": "a long password"});
    http.post_json("/users", &account).expect(201);
    let made = http.post_json("/tokens", &json!({"user": name, "name": "t"})).expect(201).json();
    made["token"].as_str().unwrap().to_owned()
}

fn submit(http: &Http, token: &str, body: &Value) -> String {
    let request = http.request("POST", "/jobs").header("Authorization", &format!("Bearer {token}"));
    id_of(&request.body(body.to_string()).send().expect(201).json())
}

#[test]
fn a_token_proves_who_submits_and_a_name_does_not() {
    let scheduler = Scheduler::start(StoreKind::Sqlite);
    let (ann, bob) = (LocalUser::make(), LocalUser::make());
    let http = scheduler.http();
    let (of_ann, of_bob) = (token(&http, ann.name(), "user"), token(&http, bob.name(), "operator"));
    let of_nobody = token(&http, "no-such-user-here", "user");
    let _worker = personal(&scheduler, false);
    let who = json!({"command": "id -un", "max_retries": 1});
    for (shown, user) in [(&of_ann, &ann), (&of_bob, &bob)] {
        let job = end_of(&scheduler, &submit(&http, shown, &who));
        assert_eq!(output(&scheduler, &job), format!("{}\n", user.name()), "{job}");
        assert_eq!(job["proven_user"], user.name());
    }
    // Of a pipeline every step, of an array every element, of a gang every task, and each attempt again.
    let text = "steps:\n- {name: a, run: 'id -un; test $MUSTER_ATTEMPT = 2', max_retries: 2}\n- {name: b, array: '1-2', needs: a, run: 'id -un'}\n\
                - {name: c, needs: b, gang: {size: 2, tasks_per_worker: 2}, run: 'id -un'}\n";
    let request = http.request("POST", "/pipelines").header("Authorization", &format!("Bearer {of_ann}"));
    let pipeline = id_of(&request.body(text).send().expect(201).json());
    let steps = || scheduler.jobs().into_iter().filter(|job| job["pipeline_id"] == pipeline.as_str());
    until("all steps are done", BOUND, || steps().count() == 5 && steps().all(|job| job["status"] == "done"));
    for job in steps() {
        let said = output(&scheduler, &job);
        assert!(said.lines().all(|line| line == ann.name()) && !said.is_empty(), "{job}: {said}");
    }
    // An operator may name another user, which proves nothing.
    let for_ann = json!({"command": "id -un", "user": ann.name()});
    let refused = end_of(&scheduler, &submit(&http, &of_bob, &for_ann));
    let reason = refused["reason"].as_str().unwrap();
    assert_eq!(
        (&refused["status"], &refused["attempts"]),
        (&json!("failed"), &json!(1)),
        "no attempt would end otherwise: {refused}"
    );
    assert!(
        reason.contains(ann.name()) && reason.contains("personal") && reason.contains("muster login"),
        "{reason}"
    );
    assert_eq!(output(&scheduler, &refused), "");
    // The same for who has no account on the machine, who may have one on another.
    let missing = end_of(&scheduler, &submit(&http, &of_nobody, &json!({"command": "id", "max_retries": 2})));
    let reason = missing["reason"].as_str().unwrap();
    assert_eq!((&missing["status"], &missing["attempts"]), (&json!("failed"), &json!(2)), "{missing}");
    assert!(reason.contains("no user no-such-user-here") && reason.contains("useradd"), "{reason}");
    let events = scheduler.http().get(&format!("/jobs/{}/events", id_of(&missing))).json().to_string();
    assert!(events.contains("no user no-such-user-here"), "{events}");
}

/// A request by the socket of a user of this machine.
fn post_as(user: &LocalUser, scheduler: &Scheduler, body: &Value) -> String {
    let mut curl = user.command("curl");
    curl.args(["-sS", "-X", "POST", "--data", &body.to_string(), &format!("{}/jobs", scheduler.url())]);
    let answer = curl.output().unwrap();
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let job: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    id_of(&job)
}

#[test]
fn users_of_one_machine_are_known_by_their_sockets() {
    let scheduler = Scheduler::start_with(StoreKind::Memory, Settings::default().set("loopback", "any"));
    let (ann, bob) = (LocalUser::make(), LocalUser::make());
    let _worker = personal(&scheduler, false);
    for user in [&ann, &bob] {
        let job =
            end_of(&scheduler, &post_as(user, &scheduler, &json!({"command": "id -un", "max_retries": 1})));
        assert_eq!(output(&scheduler, &job), format!("{}\n", user.name()), "{job}");
    }
    let claimed = json!({"command": "id -un", "user": bob.name(), "max_retries": 1});
    let refused = end_of(&scheduler, &post_as(&ann, &scheduler, &claimed));
    assert_eq!(refused["status"], "failed", "ann is not bob: {refused}");
    assert!(refused["reason"].as_str().unwrap().contains("not proven"), "{refused}");
    // The test is root.
    let root = ended(&scheduler, &json!({"command": "id -un", "max_retries": 1}));
    assert!(root["reason"].as_str().unwrap_or_default().contains("--allow-root-jobs"), "{root}");
    // Whoever enters a job acts as its user: others do not.
    let id = post_as(&ann, &scheduler, &json!({"command": "sleep 1000"}));
    scheduler.await_status(&id, "running", BOUND);
    let enters = |user: &LocalUser| {
        let mut curl = user.command("curl");
        curl.args(["-isN", "--max-time", "90", "--http1.1"]).stdout(Stdio::piped());
        for header in UPGRADE {
            curl.args(["-H", header]);
        }
        let mut curl = curl.arg(format!("{}/jobs/{id}/exec", scheduler.url())).spawn().unwrap();
        let mut status = [0; 12];
        curl.stdout.as_mut().unwrap().read_exact(&mut status).unwrap();
        curl.kill().unwrap();
        curl.wait().unwrap();
        String::from_utf8_lossy(&status[9..]).into_owned()
    };
    assert_eq!((enters(&bob).as_str(), enters(&ann).as_str()), ("403", "101"));
    scheduler.http().post(&format!("/jobs/{id}/cancel"), "").expect(200);
}

#[test]
fn root_is_a_user_only_where_that_is_allowed() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let worker = personal(&scheduler, true);
    let job = ended(&scheduler, &json!({"command": "id -un; echo v=1 > $MUSTER_OUTPUT", "max_retries": 1}));
    assert_eq!((output(&scheduler, &job).as_str(), &job["outputs"]), ("root\n", &json!({"v": "1"})), "{job}");
    drop(worker);
}

#[test]
fn a_container_is_its_users_whatever_the_image_says() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let (user, engine) = (LocalUser::make(), ContainerEngine::shared());
    let settings = WorkerSettings::new("w", 2).set("run-as", &format!("user:{}", user.name()));
    let settings =
        settings.set("containers", "docker").set("container-socket", &engine.socket().display().to_string());
    let worker = Worker::start(&scheduler, settings);
    let command = "id -u; id -g; id -G; grep -E '^(NoNewPrivs|CapEff)' /proc/self/status | tr '\\t' ' '; echo v=1 > $MUSTER_OUTPUT; \
                   echo a > $MUSTER_ARTIFACTS/a; echo c > $MUSTER_CHECKPOINT_DIR/c; test -r /etc/shadow || echo closed";
    let job = ended(&scheduler, &json!({"command": command, "image": IMAGE, "max_retries": 1}));
    let text = output(&scheduler, &job);
    assert_eq!(job["status"], "done", "{job}\n{text}");
    let (uid, gid, group) = (user.uid(), user.gid(), user.group());
    let expected = format!("{uid}\n{gid}\n{gid} {group}\nNoNewPrivs: 1\nCapEff: 0000000000000000\nclosed\n");
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&text), sorted(&expected), "{text}");
    assert_eq!(job["outputs"], json!({"v": "1"}), "{job}");
    scheduler.http().get(&format!("/jobs/{}/artifacts/a", id_of(&job))).expect(200);
    let kept = worker.directory().join("user-checkpoints").join(uid.to_string()).join(id_of(&job)).join("c");
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(kept).unwrap()), uid);
    let asked = json!({"command": "id", "image": IMAGE, "container": {"user": "0"}, "max_retries": 1});
    let refused = ended(&scheduler, &asked);
    assert!(refused["reason"].as_str().unwrap_or_default().contains("leave out container.user"), "{refused}");
}
