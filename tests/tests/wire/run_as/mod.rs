//! Whose user jobs run as, with real users of this machine: one for all jobs, or who submitted the job as far as that is proven.

mod files;
mod links;
mod submitters;

use std::time::Duration;

use muster_tests::{LocalUser, Scheduler, Worker, WorkerSettings, id_of, until};
use serde_json::{Value, json};

const BOUND: Duration = Duration::from_secs(90);

/// A worker whose jobs run as one user.
fn worker_of(scheduler: &Scheduler, user: &LocalUser) -> Worker {
    Worker::start(scheduler, WorkerSettings::new("w", 2).set("run-as", &format!("user:{}", user.name())))
}

/// Submits a job, waits until it has ended and returns it.
fn ended(scheduler: &Scheduler, request: &Value) -> Value {
    let id = id_of(&scheduler.submit_job(request));
    end_of(scheduler, &id)
}

fn end_of(scheduler: &Scheduler, id: &str) -> Value {
    until("the job has ended", BOUND, || {
        matches!(scheduler.status(id).as_str(), "done" | "failed" | "cancelled")
    });
    scheduler.job(id)
}

fn output(scheduler: &Scheduler, job: &Value) -> String {
    scheduler.http().get(&format!("/jobs/{}/logs", id_of(job))).expect(200).text()
}

/// Runs a command to its good end and returns what it wrote.
fn said(scheduler: &Scheduler, command: &str) -> String {
    let job = ended(scheduler, &json!({"command": command, "max_retries": 1}));
    let text = output(scheduler, &job);
    assert_eq!(job["status"], "done", "{job}\n{text}");
    text
}

#[test]
fn a_job_is_its_user_in_all_that_programs_look_at() {
    let scheduler = Scheduler::start(muster_tests::StoreKind::Memory);
    let user = LocalUser::make();
    let worker = worker_of(&scheduler, &user);
    let text = said(
        &scheduler,
        "id -u; id -g; id -G; echo $HOME $USER $LOGNAME $SHELL; pwd; grep -E '^(Uid|Gid|CapEff|NoNewPrivs|Groups)' /proc/self/status | \
         tr -s '\\t ' ' '; cat /etc/shadow 2>/dev/null && echo read; echo again >> /dev/stderr; echo again >> /dev/stdout; sudo -n id 2>/dev/null; true",
    );
    let mut groups = [user.gid(), user.group()];
    groups.sort_unstable();
    let (name, uid, gid, group, home) = (user.name(), user.uid(), user.gid(), user.group(), user.home());
    let expected = format!(
        "{uid}\n{gid}\n{gid} {group}\n{home} {name} {name} /bin/bash\n{home}\nUid: {uid} {uid} {uid} {uid}\nGid: {gid} {gid} {gid} {gid}\n\
         Groups: {} {} \nCapEff: 0000000000000000\nNoNewPrivs: 1\nagain\nagain\n",
        groups[0],
        groups[1],
        home = home.display()
    );
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&text), sorted(&expected), "{text}");
    let shown = scheduler.workers();
    assert_eq!(shown[0]["run_as"], format!("user:{name}"), "{shown:?}");
    // What it may not is told with its name.
    let closed = worker.directory().join("output");
    let job = ended(&scheduler, &json!({"command": "true", "working_dir": closed, "max_retries": 1}));
    let reason = job["reason"].as_str().unwrap();
    assert!(
        reason.contains(&format!("the user {name} cannot enter")) && reason.contains("Permission denied"),
        "{reason}"
    );
    let own = user.home().join("program");
    std::fs::write(&own, "#!/bin/sh\necho own\n").unwrap();
    std::fs::set_permissions(&own, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let job = ended(&scheduler, &json!({"argv": [own], "max_retries": 1}));
    assert!(job["reason"].as_str().unwrap().contains("Permission denied"), "it is root's alone: {job}");
}

#[test]
fn nothing_of_a_job_is_left_when_it_is_stopped() {
    let scheduler = Scheduler::start(muster_tests::StoreKind::Memory);
    let user = LocalUser::make();
    let worker = worker_of(&scheduler, &user);
    let request = json!({"command": "setsid sleep 4711 & echo begun; sleep 4711", "grace_seconds": 1});
    let id = id_of(&scheduler.submit_job(&request));
    let alive = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let of_user = entries.filter(|entry| {
            let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            status.contains(&format!("\nUid:\t{}\t", user.uid()))
        });
        of_user.count()
    };
    until("it runs", BOUND, || alive() >= 3);
    scheduler.http().post(&format!("/jobs/{id}/cancel"), "").expect(200);
    assert_eq!(end_of(&scheduler, &id)["status"], "cancelled");
    until("all of its processes are gone", BOUND, || alive() == 0);
    let rooms = worker.directory().join("rooms");
    until("its directory is gone", BOUND, || std::fs::read_dir(&rooms).unwrap().next().is_none());
    let usage = scheduler.job(&id)["usage"].clone();
    assert!(usage.is_object(), "what it used is known: {usage}");
}

#[test]
fn people_who_enter_a_job_are_its_user() {
    let scheduler = Scheduler::start(muster_tests::StoreKind::Memory);
    let user = LocalUser::make();
    let _worker = worker_of(&scheduler, &user);
    let request = json!({"command": "stat -c %U $(tty); sleep 1000", "pty": {"columns": 80, "rows": 24}});
    let id = id_of(&scheduler.submit_job(&request));
    scheduler.await_status(&id, "running", BOUND);
    let owner = || scheduler.http().get(&format!("/jobs/{id}/logs")).text();
    until("the terminal is the user's", BOUND, || owner().contains(user.name()));
    let mut exec = std::process::Command::new(muster_tests::binary("muster"));
    exec.env("MUSTER_URL", scheduler.url()).stdin(std::process::Stdio::null());
    let ran = exec.args(["exec", &id, "--", "sh", "-c", "id -u; id -G; echo >> /dev/stderr; pwd"]);
    let ran = ran.output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    let expected = format!("{}\n{} {}\n{}\n", user.uid(), user.gid(), user.group(), user.home().display());
    assert_eq!(text, expected, "{}", String::from_utf8_lossy(&ran.stderr));
    scheduler.http().post(&format!("/jobs/{id}/cancel"), "").expect(200);
}
