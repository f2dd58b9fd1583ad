//! A `/tmp` for each attempt (`--private-tmp`).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use muster_protocol::ReportKind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::geteuid;
use serde_json::json;

use crate::process::{Worker, eventually};
use crate::scheduler::Scheduler;

/// What attempts have now.
fn places(worker: &Worker) -> Vec<String> {
    let entries = fs::read_dir(worker.directory().join("data/private-tmp")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Looks around, leaves something, and says what was there before.
const LOOK: &str = "ls -A /tmp /var/tmp | tr '\\n' ' '; echo mine > /tmp/mine; echo mine > /var/tmp/mine; \
    stat -c %a /tmp; id -u; sleep 0.2; cat /tmp/mine";

fn each_attempt_has_its_own(scheduler: &Scheduler, worker: &Worker, uid: u32) {
    let stray = tempfile::NamedTempFile::with_prefix_in("seen-by-all-", "/tmp").unwrap();
    let ids: Vec<String> = (0..2).map(|_| scheduler.submit(LOOK, &json!({}))).collect();
    for id in &ids {
        let said = scheduler.output_with(id, "stdout", "mine\n");
        assert_eq!(
            said,
            format!("/tmp: /var/tmp: 1777\n{uid}\nmine\n").replacen("/tmp: /var", "/tmp:  /var", 1)
        );
        assert_eq!(scheduler.report_of(id).kind, ReportKind::Done);
    }
    assert!(!Path::new("/tmp/mine").exists() && stray.path().exists());
    eventually("they are removed", || places(worker).is_empty().then_some(()));
}

#[test]
fn each_attempt_has_an_empty_tmp_that_goes_with_it() {
    let scheduler = Scheduler::start();
    let worker = Worker::start_outside_tmp(&scheduler, &["--workers=2", "--private-tmp"]);
    each_attempt_has_its_own(&scheduler, &worker, geteuid().as_raw());
    let report = scheduler.report_of(&scheduler.submit("true", &json!({"working_dir": "/tmp/nowhere"})));
    assert_eq!(report.kind, ReportKind::Failed);
    assert!(report.message.as_deref().unwrap_or_default().contains("--private-tmp"), "{report:?}");
}

#[test]
fn a_user_without_rights_has_it_too_where_the_system_lets_users_make_namespaces() {
    if !geteuid().is_root() {
        // The test above is the same then.
        return;
    }
    let scheduler = Scheduler::start();
    let words = "chmod 777 .; set -- setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
    let mut worker = Worker::start_outside_tmp_after(&scheduler, words, "--private-tmp");
    let allowed = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "unshare", "--user", "--mount", "true"])
        .status()
        .unwrap();
    if allowed.success() {
        each_attempt_has_its_own(&scheduler, &worker, 65_534);
    } else {
        assert_eq!(worker.wait().code(), Some(1));
        assert!(worker.log().contains("user namespaces"), "{}", worker.log());
    }
}

#[test]
fn what_a_killed_keeper_leaves_is_removed_before_the_next_attempt() {
    let scheduler = Scheduler::start();
    let worker = Worker::start_outside_tmp(&scheduler, &["--workers=1", "--private-tmp"]);
    let id = scheduler.submit("echo x > /tmp/x; echo up; exec sleep 300", &json!({}));
    scheduler.output_with(&id, "stdout", "up\n");
    let left = places(&worker);
    assert_eq!(left.len(), 1, "{left:?}");
    kill(worker.keeper().unwrap(), Signal::SIGKILL).unwrap();
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Lost);
    let id = scheduler.submit("ls -A /tmp; echo up", &json!({}));
    assert_eq!(scheduler.output_with(&id, "stdout", "up\n"), "up\n");
    assert!(!places(&worker).contains(&left[0]));
}

#[test]
fn a_worker_that_cannot_give_it_does_not_start() {
    let scheduler = Scheduler::start();
    // The data directory of this one lies where jobs would not find it.
    let mut worker = Worker::start(&scheduler, &["--workers=1", "--private-tmp"]);
    assert_eq!(worker.wait().code(), Some(1));
    assert!(worker.log().contains("use another --data-dir"), "{}", worker.log());
}

#[test]
fn without_the_flag_jobs_share_tmp() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1"]);
    let seen = tempfile::NamedTempFile::with_prefix_in("seen-by-all-", "/tmp").unwrap();
    fs::set_permissions(seen.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let id = scheduler.submit(&format!("test -e {}", seen.path().display()), &json!({}));
    assert_eq!(scheduler.report_of(&id).kind, ReportKind::Done);
}
