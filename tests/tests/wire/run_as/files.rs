//! What a job with a user of its own finds and leaves: each file is that user's, and other users see none of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

use muster_tests::{LocalUser, Scheduler, StoreKind, binary, id_of, until};
use serde_json::json;

use super::{BOUND, end_of, ended, output, worker_of};

#[test]
fn what_a_job_leaves_is_kept() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let user = LocalUser::make();
    let worker = worker_of(&scheduler, &user);
    let out = user.home().join("job.out");
    let command = "stat -c '%U %a' $MUSTER_ARTIFACTS $MUSTER_CHECKPOINT_DIR $(dirname $MUSTER_OUTPUT); mkdir $MUSTER_ARTIFACTS/d; \
                   echo kept > $MUSTER_ARTIFACTS/d/f; echo rows=5 > $MUSTER_OUTPUT.new; mv $MUSTER_OUTPUT.new $MUSTER_OUTPUT; \
                   echo '{\"step\": 1}' > $MUSTER_CHECKPOINT_OUT; echo w > $MUSTER_CHECKPOINT_DIR/weights; echo p > pattern.txt";
    let request =
        json!({"command": command, "stdout_path": "job.out", "artifacts": ["pattern.txt"], "max_retries": 1});
    let job = ended(&scheduler, &request);
    let text = output(&scheduler, &job);
    assert_eq!(job["status"], "done", "{job}\n{text}");
    let line = format!("{} 700\n", user.name());
    assert_eq!(text, line.repeat(3));
    assert_eq!(job["outputs"], json!({"rows": "5"}), "{job}");
    assert_eq!(job["checkpoint"], json!({"step": 1}), "{job}");
    let http = scheduler.http();
    let artifact =
        |name: &str| http.get(&format!("/jobs/{}/artifacts/{name}", id_of(&job))).expect(200).text();
    assert_eq!((artifact("d%2Ff").as_str(), artifact("pattern.txt").as_str()), ("kept\n", "p\n"));
    assert_eq!(fs::read_to_string(&out).unwrap(), text, "the output file");
    assert_eq!(
        (fs::metadata(&out).unwrap().uid(), fs::metadata(&out).unwrap().gid()),
        (user.uid(), user.gid())
    );
    let rooms = worker.directory().join("rooms");
    until("nothing is left in the data directory", BOUND, || fs::read_dir(&rooms).unwrap().next().is_none());
    let weights = worker
        .directory()
        .join("user-checkpoints")
        .join(user.uid().to_string())
        .join(id_of(&job))
        .join("weights");
    assert_eq!(fs::read_to_string(weights).unwrap(), "w\n", "directories of checkpoints outlive attempts");
}

#[test]
fn what_is_sent_along_is_the_users_and_nobody_elses() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let (user, other) = (LocalUser::make(), LocalUser::make());
    let worker = worker_of(&scheduler, &user);
    let sent = tempfile::tempdir().unwrap();
    fs::create_dir(sent.path().join("sub")).unwrap();
    fs::write(sent.path().join("sub/data"), "sent\n").unwrap();
    let mut run = Command::new(binary("muster"));
    run.env("MUSTER_URL", scheduler.url())
        .current_dir(sent.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    run.args(["run", "--upload", ".", "--stdin", "-", "--", "sh", "-c"]);
    run.arg("stat -c '%U %n' . sub sub/data; echo x >> sub/data; cat sub/data; cat; echo in $MUSTER_JOB_ID; sleep 1000");
    let mut running = run.spawn().unwrap();
    std::io::Write::write_all(&mut running.stdin.take().unwrap(), b"typed\n").unwrap();
    let job = || scheduler.jobs().into_iter().next();
    until("it was submitted", BOUND, || job().is_some());
    let id = id_of(&job().unwrap());
    until("it has read all", BOUND, || {
        scheduler.http().get(&format!("/jobs/{id}/logs")).text().contains("in job-")
    });
    let text = scheduler.http().get(&format!("/jobs/{id}/logs")).text();
    let name = user.name();
    assert_eq!(text, format!("{name} .\n{name} sub\n{name} sub/data\nsent\nx\ntyped\nin {id}\n"));
    // Another user gets to the rooms, and sees neither which there are nor what is in one.
    let room = fs::read_dir(worker.directory().join("rooms")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::metadata(&room).unwrap().permissions().mode() & 0o777, 0o700);
    let looks = |what: &std::path::Path| other.command("ls").arg(what).output().unwrap().status.success();
    assert!(
        !looks(&room)
            && !looks(&worker.directory().join("rooms"))
            && !looks(&worker.directory().join("output"))
    );
    scheduler.http().post(&format!("/jobs/{id}/cancel"), "").expect(200);
    end_of(&scheduler, &id);
    running.wait().unwrap();
}

#[test]
fn an_agent_that_was_killed_finds_what_users_left() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let user = LocalUser::make();
    let mut worker = worker_of(&scheduler, &user);
    let flag = user.home().join("go");
    let command = format!(
        "echo a > $MUSTER_ARTIFACTS/a; echo v=1 > $MUSTER_OUTPUT; touch begun; while [ ! -e {} ]; do sleep 0.05; done; echo end",
        flag.display()
    );
    let id = id_of(&scheduler.submit_job(&json!({"command": command, "stdout_path": "late.out"})));
    until("it runs", BOUND, || user.home().join("begun").exists());
    worker.kill9();
    fs::write(&flag, "").unwrap();
    worker.restart();
    let job = end_of(&scheduler, &id);
    assert_eq!((&job["status"], &job["outputs"]), (&json!("done"), &json!({"v": "1"})), "{job}");
    let artifact = scheduler.http().get(&format!("/jobs/{id}/artifacts/a")).expect(200).text();
    assert_eq!(
        (artifact.as_str(), fs::read_to_string(user.home().join("late.out")).unwrap().as_str()),
        ("a\n", "end\n")
    );
}

#[test]
fn a_job_that_is_told_to_stop_hears_of_it_and_answers() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let user = LocalUser::make();
    let _worker = worker_of(&scheduler, &user);
    let command = "trap '' TERM; echo begun; while [ ! -s $MUSTER_PREEMPT_FILE ]; do sleep 0.05; done; stat -c '%U %a' $MUSTER_PREEMPT_FILE; \
                   touch $MUSTER_DONE_FILE";
    let id = id_of(&scheduler.submit_job(&json!({"command": command, "grace_seconds": 30})));
    until("it runs", BOUND, || scheduler.http().get(&format!("/jobs/{id}/logs")).text().contains("begun"));
    scheduler.http().post(&format!("/jobs/{id}/preempt"), "").expect(200);
    let job = end_of(&scheduler, &id);
    assert_eq!(job["status"], "done", "its word counts: {job}");
    assert_eq!(output(&scheduler, &job), format!("begun\n{} 600\n", user.name()));
}
