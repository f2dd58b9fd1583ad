//! Secrets from the command line to the job, with the real programs: who reads them, and where they are not.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use muster_seal::{Context, KeyPair, PublicKey, SecretValue, seal};
use muster_tests::{
    Response, Scheduler, Settings, StoreKind, Worker, WorkerSettings, binary, eventually, for_each_store,
    id_of, until,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(60);
const VALUE: &str = "correct-horse-7f3a9c";
const FILE_VALUE: &str = "battery-staple-51d0e2";

/// A scheduler with a worker, and a person with a home directory.
struct Cluster {
    scheduler: Scheduler,
    worker: Worker,
    home: TempDir,
}

impl Cluster {
    fn start() -> Self {
        let verbose = Settings::default().set("log", "debug");
        let scheduler = Scheduler::start_with(StoreKind::Sqlite, verbose);
        let worker = Worker::start(&scheduler, WorkerSettings::new("w", 2).set("log", "debug"));
        Self { scheduler, worker, home: TempDir::with_prefix("muster-home-").unwrap() }
    }

    fn muster(&self, words: &[&str], input: &str) -> Output {
        let mut command = Command::new(binary("muster"));
        command.args(words).env("MUSTER_URL", self.scheduler.url()).env("USER", "ada");
        command.env("XDG_CONFIG_HOME", self.home.path()).current_dir(self.home.path());
        run(command, input)
    }

    fn good(&self, words: &[&str], input: &str) -> String {
        let output = self.muster(words, input);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn keys(&self) -> Vec<String> {
        let keys: Value = self.scheduler.http().get("/secrets/keys").expect(200).json();
        keys.as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap().to_owned()).collect()
    }

    fn restart_worker(&mut self) {
        self.worker.terminate(BOUND);
        self.worker.restart();
    }

    fn submit(&self, request: &Value) -> String {
        id_of(&self.scheduler.submit_job(request))
    }

    fn output(&self, id: &str) -> String {
        self.scheduler.http().get(&format!("/jobs/{id}/logs")).expect(200).text()
    }
}

fn run(mut command: Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that reads nothing may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn has(content: &[u8], value: &str) -> bool {
    content.windows(value.len()).any(|window| window == value.as_bytes())
}

/// All files below a directory, with what is in them.
fn files(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files(&entry.path()));
        } else if kind.is_file() {
            found.push((entry.path(), fs::read(entry.path()).unwrap_or_default()));
        }
    }
    found
}

fn arguments_of_all_processes() -> Vec<Vec<u8>> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok()).collect()
}

fn sha256(text: &str) -> String {
    let output = run(Command::new("sha256sum"), text);
    String::from_utf8(output.stdout).unwrap().split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_job_reads_its_secrets_and_they_are_nowhere_else() {
    let cluster = Cluster::start();
    let shown = cluster.good(&["secret", "set", "TOKEN"], &format!("{VALUE}\n"));
    assert!(shown.contains("user ada") && !shown.contains(VALUE), "{shown}");
    let source = cluster.home.path().join("db");
    fs::write(&source, FILE_VALUE).unwrap();
    cluster.good(&["secret", "set", "db", "--queue", "ml", "--file", source.to_str().unwrap()], "");
    fs::remove_file(&source).unwrap();
    assert!(cluster.good(&["secret", "ls"], "").contains("queue ml"));

    let command = r#"printf %s "$TOKEN" | sha256sum; sha256sum < "$PASSWORD_FILE"
        stat -c 'mode %a' "$PASSWORD_FILE"; stat -f -c 'type %T' "$PASSWORD_FILE"; echo "path $PASSWORD_FILE"
        echo "is $TOKEN and $(cat "$PASSWORD_FILE")"; echo "error $TOKEN" >&2
        printf 'cut %s' "${TOKEN%??????}"; sleep 0.3; echo "${TOKEN#??????????????}."
        touch ready; while [ ! -e go ]; do sleep 0.05; done"#;
    let directory = cluster.worker.directory();
    let id = cluster.submit(&json!({ "command": command, "queue_name": "ml", "working_dir": directory,
        "secrets": ["TOKEN", { "name": "db", "file": true, "as": "PASSWORD_FILE" }] }));
    until("the job has written", BOUND, || directory.join("ready").exists());
    for arguments in arguments_of_all_processes() {
        assert!(!has(&arguments, VALUE) && !has(&arguments, FILE_VALUE), "a process shows a value");
    }
    fs::write(directory.join("go"), "").unwrap();
    cluster.scheduler.await_status(&id, "done", BOUND);

    let output = cluster.output(&id);
    assert!(output.contains(&sha256(VALUE)) && output.contains(&sha256(FILE_VALUE)), "{output}");
    assert!(output.contains("mode 600\n") && output.contains("type tmpfs\n"), "{output}");
    assert!(output.contains("is *** and ***\n") && output.contains("error ***\n"), "{output}");
    assert!(output.contains("cut ***.\n"), "{output}");
    let path = output.lines().find_map(|line| line.strip_prefix("path ")).unwrap();
    assert!(!Path::new(path).exists(), "the file goes with the job");

    let events = cluster.scheduler.http().get(&format!("/jobs/{id}/events")).expect(200).text();
    let job = cluster.scheduler.http().get(&format!("/jobs/{id}")).expect(200).text();
    let listed = cluster.scheduler.http().get("/secrets").expect(200).text();
    assert!(!listed.contains("sealed"), "{listed}");
    for text in [&output, &events, &job, &listed] {
        assert!(!text.contains(VALUE) && !text.contains(FILE_VALUE), "{text}");
    }
    let data = [cluster.scheduler.backing().directory(), directory, cluster.home.path().to_owned()];
    let all: Vec<_> = data.iter().flat_map(|directory| files(directory)).collect();
    let names: Vec<String> = all.iter().map(|(path, _)| path.display().to_string()).collect();
    for needed in ["muster.db", "worker.log", "scheduler-", "keeper.log", "known-keys.json"] {
        assert!(names.iter().any(|name| name.contains(needed)), "no {needed} among {names:?}");
    }
    for (path, content) in all {
        assert!(!has(&content, VALUE) && !has(&content, FILE_VALUE), "{} has a value", path.display());
    }
}

#[test]
fn the_file_of_a_secret_goes_however_its_job_ends() {
    let mut cluster = Cluster::start();
    cluster.good(&["secret", "set", "db"], FILE_VALUE);
    let directory = cluster.worker.directory();
    let start = |cluster: &Cluster, name: &str| {
        let command =
            format!("echo $db_FILE > {name}.new; echo $$ >> {name}.new; mv {name}.new {name}; sleep 1000");
        let request = json!({ "command": command, "working_dir": directory, "max_retries": 1,
            "secrets": [{ "name": "db", "file": true }] });
        let id = cluster.submit(&request);
        let text =
            eventually("the job has its file", BOUND, || fs::read_to_string(directory.join(name)).ok());
        let (path, pid) = text.trim().split_once('\n').unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), FILE_VALUE);
        (id, PathBuf::from(path), pid.parse::<i32>().unwrap())
    };

    let (id, path, pid) = start(&cluster, "killed");
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    cluster.scheduler.await_status(&id, "failed", BOUND);
    assert!(!path.exists(), "after kill -9 of the job");

    let (id, path, _) = start(&cluster, "cancelled");
    cluster.worker.kill9();
    assert!(path.exists(), "the job goes on without its agent");
    cluster.worker.restart();
    cluster.scheduler.http().post(&format!("/jobs/{id}/cancel"), "").expect(200);
    cluster.scheduler.await_status(&id, "cancelled", BOUND);
    assert!(!path.exists(), "after another agent has taken over");

    let (_, path, _) = start(&cluster, "orphaned");
    assert!(cluster.worker.kill9_keeper());
    until("the guard has removed the file", BOUND, || !path.exists());

    let (_, path, _) = start(&cluster, "unplugged");
    cluster.worker.kill9_machine();
    assert!(path.exists(), "nobody is left who could remove it");
    cluster.worker.restart();
    until("the next worker has removed the file", BOUND, || !path.exists());
}

#[test]
fn keys_are_rotated_and_new_ones_are_not_trusted_unasked() {
    let mut cluster = Cluster::start();
    cluster.good(&["secret", "set", "TOKEN"], VALUE);
    cluster.good(&["secret", "set", "stale"], VALUE);
    let old = cluster.keys();
    assert_eq!(old.len(), 1);
    let mut new_key = Command::new(binary("muster-worker"));
    new_key.arg("--data-dir").arg(cluster.worker.directory()).args(["keys", "new"]);
    let made = String::from_utf8(run(new_key, "").stdout).unwrap();
    let new = made.split_whitespace().next().unwrap().to_owned();
    cluster.restart_worker();
    until("both keys are known", BOUND, || cluster.keys().len() == 2);

    let refused = cluster.muster(&["secret", "reseal", "TOKEN"], VALUE);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && words.contains(&new) && words.contains("--accept-new-keys"),
        "{words}"
    );
    let shown = cluster.good(&["secret", "reseal", "TOKEN", "--accept-new-keys"], VALUE);
    assert!(shown.contains(&new) && shown.contains(&old[0]) && shown.contains('2'), "{shown}");

    fs::remove_file(cluster.worker.directory().join("secret-keys").join(format!("{}.key", old[0]))).unwrap();
    cluster.restart_worker();
    until("the old key is gone", BOUND, || cluster.keys() == [new.clone()]);
    let command = json!({ "command": format!("test $(printf %s \"$TOKEN\" | sha256sum | cut -c1-64) = {}", sha256(VALUE)),
        "secrets": ["TOKEN"] });
    let id = cluster.submit(&command);
    cluster.scheduler.await_status(&id, "done", BOUND);

    let id = cluster.submit(&json!({ "command": "true", "secrets": ["stale"] }));
    let job = cluster.scheduler.await_status(&id, "failed", BOUND);
    let reason = job["reason"].as_str().unwrap();
    assert!(reason.contains("\"stale\"") && reason.contains(&new), "{reason}");
    assert_eq!(job["attempts"], 1, "another attempt would end the same way: {job}");
}

#[test]
fn a_box_under_another_name_is_refused_by_the_worker() {
    let cluster = Cluster::start();
    let key: Value = cluster.scheduler.http().get("/secrets/keys").expect(200).json();
    let key =
        PublicKey::announced(key[0]["public_key"].as_str().unwrap(), key[0]["id"].as_str().unwrap()).unwrap();
    let context =
        |name: &str| Context { name: name.into(), queue: None, owner: Some("ada".into()), version: 1 };
    let boxes = seal(&SecretValue::new(VALUE.into()), &context("payroll"), &[key]).unwrap();
    let request = json!({ "owner": "ada", "version": 1, "boxes": boxes });
    for name in ["payroll", "harmless"] {
        put(&cluster.scheduler, name, &request).expect(200);
    }
    let command = "printf %s \"$payroll\" | sha256sum";
    let id = cluster.submit(&json!({ "command": command, "secrets": ["payroll"] }));
    cluster.scheduler.await_status(&id, "done", BOUND);
    assert!(cluster.output(&id).contains(&sha256(VALUE)));

    let id = cluster.submit(&json!({ "command": "env", "secrets": ["harmless"] }));
    let job = cluster.scheduler.await_status(&id, "failed", BOUND);
    let reason = job["reason"].as_str().unwrap();
    assert!(reason.contains("\"harmless\"") && reason.contains("\"payroll\""), "{reason}");
    assert!(!reason.contains(VALUE) && job["attempts"] == 1, "{job}");
}

fn put(scheduler: &Scheduler, name: &str, request: &Value) -> Response {
    scheduler.http().request("PUT", &format!("/secrets/{name}")).body(request.to_string()).send()
}

/// What a client sends, sealed to these keys.
fn sealed(name: &str, version: u64, keys: &[&KeyPair]) -> Value {
    let context = Context { name: name.into(), queue: Some("ml".into()), owner: None, version };
    let keys: Vec<PublicKey> = keys.iter().map(|pair| pair.public().clone()).collect();
    let boxes = seal(&SecretValue::new(VALUE.into()), &context, &keys).unwrap();
    json!({ "queue": "ml", "version": version, "boxes": boxes })
}

for_each_store! {
    fn secrets_are_kept_by_version_and_shown_without_boxes(store) {
        let scheduler = Scheduler::start(store);
        let pair = KeyPair::from_private([5; 32]);
        put(&scheduler, "TOKEN", &sealed("TOKEN", 2, &[&pair])).expect(409);
        put(&scheduler, "TOKEN", &sealed("TOKEN", 1, &[&pair])).expect(200);
        put(&scheduler, "TOKEN", &sealed("TOKEN", 1, &[&pair])).expect(409);
        let second = put(&scheduler, "TOKEN", &sealed("TOKEN", 2, &[&pair])).expect(200).json();
        assert_eq!((&second["version"], &second["keys"]), (&json!(2), &json!([pair.public().id()])));
        assert!(second["boxes"].is_null() && second["queue"] == "ml", "{second}");
        assert_eq!(scheduler.http().get("/secrets").expect(200).json(), json!([second]));
        assert_eq!(scheduler.http().get("/secrets/TOKEN").expect(200).json(), second);
        for wrong in [json!({}), json!({ "owner": "a", "version": 3 }), json!({ "queue": "ml", "owner": "a" }),
            json!({ "owner": "a", "version": 3, "boxes": [{ "key": "x", "sealed": "eA==" }] })] {
            put(&scheduler, "TOKEN", &wrong).expect(400);
        }
        put(&scheduler, "a%20b", &sealed("a b", 1, &[&pair])).expect(400);
        scheduler.http().request("DELETE", "/secrets/TOKEN").send().expect(204);
        scheduler.http().request("DELETE", "/secrets/TOKEN").send().expect(404);
        scheduler.http().get("/secrets/TOKEN").expect(404);
    }

    fn a_secret_is_its_owners_own(store) {
        let scheduler = Scheduler::start(store);
        for name in ["ada", "eve"] {
            scheduler.http().post_json("/users", &json!({ "name": name, "password": "a long password" })).expect(201);
        }
        let login = |name: &str| {
            let request = json!({ "user": name, "password": "a long password" });
            let issued = scheduler.http().post_json("/auth/login", &request).expect(200).json();
            format!("Bearer {}", issued["token"].as_str().unwrap())
        };
        let (ada, eve) = (login("ada"), login("eve"));
        let send = |who: &str, method: &str, target: &str, body: &Value| {
            let request = scheduler.http().request(method, target).header("authorization", who);
            request.body(body.to_string()).send()
        };
        let pair = KeyPair::from_private([5; 32]);
        let owned = |version| json!({ "owner": "ada", "version": version, "boxes": sealed("x", 1, &[&pair])["boxes"] });
        send(&eve, "PUT", "/secrets/x", &owned(1)).expect(403);
        send(&ada, "PUT", "/secrets/x", &owned(1)).expect(200);
        send(&eve, "PUT", "/secrets/x", &owned(2)).expect(403);
        send(&eve, "DELETE", "/secrets/x", &json!({})).expect(403);
        send(&eve, "PUT", "/secrets/q", &sealed("q", 1, &[&pair])).expect(403);
        let job = json!({ "command": "true", "secrets": ["x"] });
        send(&eve, "POST", "/jobs", &job).expect(403);
        let near = json!({ "command": "true", "secrets": ["xx"] });
        assert!(!send(&eve, "POST", "/jobs", &near).expect(400).text().contains("did you mean"), "not hers to know");
        send(&ada, "POST", "/jobs", &job).expect(201);
        send(&ada, "DELETE", "/secrets/x", &json!({})).expect(204);
    }

    fn a_worker_that_knows_no_secrets_gets_no_job_with_some(store) {
        let scheduler = Scheduler::start(store);
        scheduler.register(&json!({ "id": "old" }));
        put(&scheduler, "TOKEN", &sealed("TOKEN", 1, &[&KeyPair::from_private([5; 32])])).expect(200);
        let request = json!({ "command": "true", "queue_name": "ml", "secrets": ["TOKEN"], "max_retries": 2 });
        let id = id_of(&scheduler.submit_job(&request));
        assert_eq!(scheduler.try_claim(Some("old")), None);
        assert_eq!(scheduler.status(&id), "pending", "another worker may do better");
        let answer = scheduler.http().post_json("/workers/old/sync", &json!({ "max": 1 })).expect(200).json();
        assert_eq!(answer["jobs"], json!([]));
        let job = scheduler.job(&id);
        let reason = job["reason"].as_str().unwrap();
        assert!(job["status"] == "failed" && reason.contains("old has announced no key"), "{job}");
    }

    fn a_claim_carries_the_boxes_of_its_job_and_worker(store) {
        let scheduler = Scheduler::start(store);
        let (own, other) = (KeyPair::from_private([5; 32]), KeyPair::from_private([6; 32]));
        let key = json!({ "id": own.public().id(), "public_key": own.public().to_string() });
        scheduler.register(&json!({ "id": "w", "sealing_keys": [key] }));
        let keys = scheduler.http().get("/secrets/keys").expect(200).json();
        assert_eq!((&keys[0]["id"], &keys[0]["workers"]), (&key["id"], &json!(["w"])));
        put(&scheduler, "TOKEN", &sealed("TOKEN", 1, &[&other, &own])).expect(200);
        put(&scheduler, "unused", &sealed("unused", 1, &[&own])).expect(200);

        let ask = |secrets: Value, queue: &str| scheduler.http().post_json("/jobs",
            &json!({ "command": "true", "queue_name": queue, "secrets": secrets }));
        ask(json!(["TOKN"]), "ml").expect_error(400, "there is no secret \"TOKN\"; did you mean TOKEN?");
        ask(json!(["TOKEN"]), "hr").expect(403);
        let job = ask(json!([{ "name": "TOKEN", "file": true }]), "ml").expect(201).json();
        assert_eq!(job["secrets"], json!([{ "name": "TOKEN", "file": true, "as": "TOKEN_FILE" }]));
        assert!(job["sealed"].is_null(), "{job}");
        let claimed = scheduler.http().post_json("/workers/w/sync", &json!({ "max": 1 })).expect(200).json();
        let sealed = claimed["jobs"][0]["sealed"].as_array().unwrap();
        assert_eq!((sealed.len(), &sealed[0]["name"], &sealed[0]["version"]), (1, &json!("TOKEN"), &json!(1)));
        let boxes = sealed[0]["boxes"].as_array().unwrap();
        assert_eq!((boxes.len(), &boxes[0]["key"]), (1, &key["id"]));
        assert!(scheduler.job(job["id"].as_str().unwrap())["sealed"].is_null(), "only the claim has them");
        scheduler.register(&json!({ "id": "w" }));
        assert_eq!(scheduler.http().get("/secrets/keys").expect(200).json(), json!([]));
    }
}
