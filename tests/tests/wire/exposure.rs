//! What one process shows another: nothing in `/proc` of scheduler, worker, keeper and jobs holds a credential, a password or a
//! secret that is not its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_tests::{Http, Response, Scheduler, Settings, StoreKind, Worker, WorkerSettings, until};
use serde_json::{Value, json};
use tempfile::TempDir;

const BOUND: Duration = Duration::from_secs(60);
const PASSWORD: &str = "a-password-of-the-admin";
/// What a job was given by its user, as its own.
const OWN: &str = "an-own-secret-of-the-job";

fn send(http: &Http, token: &str, method: &str, target: &str, body: &Value) -> Response {
    let request = http.request(method, target).header("Authorization", &format!("Bearer {token}"));
    if body.is_null() { request.send() } else { request.body(body.to_string()).send() }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// A process and what it shows of itself.
struct Seen {
    pid: u32,
    name: String,
    shown: String,
}

fn seen(pid: u32) -> Option<Seen> {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).ok();
    let shown = [read("environ")?, read("cmdline")?].concat();
    let name = String::from_utf8_lossy(&read("comm")?).trim().to_owned();
    Some(Seen { pid, name, shown: String::from_utf8_lossy(&shown).into_owned() })
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// A process and everything below it, and those whose working directory is the one of the worker.
fn family(of: u32, directory: &Path) -> Vec<Seen> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let stands_there = |pid: u32| {
        let place =
            |link: &str| fs::read_link(format!("/proc/{pid}/{link}")).unwrap_or_else(|_| PathBuf::new());
        ["cwd", "fd/1", "fd/2"].into_iter().any(|link| place(link).starts_with(directory))
    };
    let descends = |pid: u32| {
        let mut above = Some(pid);
        while let Some(pid) = above.filter(|pid| *pid > 1) {
            if pid == of {
                return true;
            }
            above = parent(pid);
        }
        false
    };
    let own = std::process::id();
    pids.into_iter()
        .filter(|pid| *pid != own && (descends(*pid) || stands_there(*pid)))
        .filter_map(seen)
        .collect()
}

fn sleeps(seen: &Seen, length: &str) -> bool {
    ["\0", " "].iter().any(|between| seen.shown.contains(&format!("sleep{between}{length}")))
}

/// The tokens of jobs that a process has in its environment.
fn tokens(seen: &Seen) -> impl Iterator<Item = &str> {
    seen.shown.split('\0').filter_map(|line| line.strip_prefix("MUSTER_TOKEN="))
}

fn shows_nothing_of(process: &Seen, secrets: &[(&str, &str)]) {
    let Seen { pid, name, shown } = process;
    for (what, secret) in secrets {
        assert!(!shown.contains(secret), "{name} ({pid}) shows the {what}");
    }
    assert!(!shown.contains("MUSTER_JOIN_TOKEN=") && !shown.contains("MUSTER_API_TOKEN="), "{name} ({pid})");
    assert!(sleeps(process, "600") || !shown.contains(OWN), "{name} ({pid}) shows the secret of a job");
}

#[test]
fn no_process_shows_what_belongs_to_another() {
    let mut scheduler = Scheduler::start(StoreKind::Sqlite);
    let root = json!({ "name": "root", "role": "admin", "password": PASSWORD });
    scheduler.http().post_json("/users", &root).expect(201);
    scheduler.terminate();
    scheduler.restart_with(Settings::default().set("loopback", "none"));
    let http = scheduler.http();
    let session = text(
        &http.post_json("/auth/login", &json!({ "user": "root", "password": PASSWORD })).json()["token"],
    );
    let token =
        text(&send(&http, &session, "POST", "/tokens", &json!({ "name": "ci" })).expect(201).json()["token"]);
    let join = text(
        &send(&http, &session, "POST", "/join-tokens", &json!({ "name": "rack" })).expect(201).json()["token"],
    );
    let files = TempDir::with_prefix("muster-join-").unwrap();
    fs::write(files.path().join("join"), &join).unwrap();
    let settings =
        WorkerSettings::new("w1", 2).set("join-token-file", &files.path().join("join").display().to_string());
    let mut worker = Worker::start_unheard(&scheduler.url(), settings);
    let kept = worker.directory().join("worker-key");
    until("the worker has its key", BOUND, || kept.exists());
    let key = fs::read_to_string(&kept).unwrap().trim().to_owned();
    let job = |command: &str, secret: &str| {
        let job = json!({ "command": command, "env": { "OWN": secret } });
        text(&send(&http, &token, "POST", "/jobs", &job).expect(201).json()["id"])
    };
    let (first, second) = (job("sleep 600", OWN), job("sleep 601", "nothing"));
    let state = |job: &str| {
        send(&http, &token, "GET", &format!("/jobs/{job}"), &Value::Null).json()["status"].clone()
    };
    until("both jobs run", BOUND, || [&first, &second].iter().all(|job| state(job) == "running"));
    let directory = worker.directory();
    let mut all = Vec::new();
    until("their processes are there", BOUND, || {
        all = family(worker.process().id(), &directory);
        ["600", "601"].iter().all(|length| all.iter().any(|seen| sleeps(seen, length)))
    });
    assert!(
        all.iter().any(|seen| seen.name == "muster-keeper"),
        "no keeper among {:?}",
        all.iter().map(|seen| &seen.name).collect::<Vec<_>>()
    );
    all.extend(seen(scheduler.process().id()));
    let secrets = [
        ("password", PASSWORD),
        ("session", &session),
        ("token", &token),
        ("join token", &join),
        ("key", &key),
    ];
    for process in &all {
        shows_nothing_of(process, &secrets);
    }
    assert!(all.iter().any(|seen| seen.shown.contains(OWN)), "the job itself has what it was given");
    let of =
        |length: &str| all.iter().filter(|seen| sleeps(seen, length)).flat_map(tokens).collect::<Vec<_>>();
    let (mine, others) = (of("600"), of("601"));
    assert!(
        !mine.is_empty() && !others.is_empty() && mine.iter().all(|token| !others.contains(token)),
        "{mine:?} {others:?}"
    );
}
