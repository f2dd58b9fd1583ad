//! Jobs that put links, pipes and devices in the place of every file that the worker touches for them: root reads and writes nothing
//! that the user of the job could not.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use muster_tests::{LocalUser, Scheduler, StoreKind, id_of, until};
use serde_json::json;

use super::{BOUND, end_of, ended, output, worker_of};

/// A file that only root can read, and that nobody must have written to.
struct Treasure {
    directory: tempfile::TempDir,
    path: std::path::PathBuf,
}

impl Treasure {
    fn bury() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o711)).unwrap();
        let path = directory.path().join("treasure");
        fs::write(&path, "rows=secret\n").unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Self { directory, path }
    }

    fn assert_untouched(&self) {
        assert_eq!(fs::read_to_string(&self.path).unwrap(), "rows=secret\n");
        assert_eq!(fs::metadata(&self.path).unwrap().uid(), 0);
        assert_eq!(fs::read_dir(self.directory.path()).unwrap().count(), 1, "nothing was made beside it");
    }
}

#[test]
fn nothing_that_a_job_leaves_leads_out_of_its_rights() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let user = LocalUser::make();
    let _worker = worker_of(&scheduler, &user);
    let treasure = Treasure::bury();
    let at = treasure.path.display();
    let above = treasure.directory.path().display();
    let plant = [
        // Results and checkpoints.
        format!("rm $MUSTER_OUTPUT; ln -s {at} $MUSTER_OUTPUT; ln -s {at} $MUSTER_CHECKPOINT_OUT"),
        "rm $MUSTER_OUTPUT; mkfifo $MUSTER_OUTPUT $MUSTER_CHECKPOINT_OUT".to_owned(),
        "rm $MUSTER_OUTPUT; ln -s /proc/self/environ $MUSTER_OUTPUT; ln -s /proc/self/maps $MUSTER_CHECKPOINT_OUT".to_owned(),
        format!("rm $MUSTER_OUTPUT; mkdir $MUSTER_OUTPUT; ln -s {above} $MUSTER_OUTPUT/x; mkdir $MUSTER_CHECKPOINT_OUT"),
        // The whole directory for checkpoints of the job.
        format!("rmdir $MUSTER_CHECKPOINT_DIR; chmod 0 $MUSTER_CHECKPOINT_DIR; ln -s {above} $MUSTER_CHECKPOINT_DIR/x; true"),
    ];
    for commands in &plant {
        let job = ended(&scheduler, &json!({"command": format!("{commands}; true"), "max_retries": 1}));
        assert_eq!(job["status"], "done", "{commands}: {job}");
        let text = format!("{job}");
        assert!(!text.contains("secret") && !text.contains("SECRET"), "{commands}: {text}");
        assert!(job["outputs"].is_null() && job["checkpoint"].is_null(), "{commands}: {job}");
        treasure.assert_untouched();
    }
}

#[test]
fn no_artifact_is_read_with_more_rights_than_the_user_has() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let user = LocalUser::make();
    let _worker = worker_of(&scheduler, &user);
    let treasure = Treasure::bury();
    let (at, above) = (treasure.path.display(), treasure.directory.path().display());
    let command = format!(
        "cd $MUSTER_ARTIFACTS; echo good > good; ln -s {at} link; ln -s {above} dir; ln -s /proc/self/fd fds; mkfifo pipe; \
         ln -s /etc/shadow shadow; mkdir closed; echo x > closed/x; chmod 0 closed"
    );
    let job = ended(&scheduler, &json!({"command": command, "max_retries": 1}));
    let kept = scheduler.http().get(&format!("/jobs/{}/artifacts", id_of(&job))).expect(200).json();
    let all = kept["artifacts"].as_array().unwrap();
    let names: Vec<&str> =
        all.iter().filter(|one| one["sha256"].is_string()).map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["good"], "{kept}");
    treasure.assert_untouched();
    // The directory itself becomes a link, also one of a directory that is swapped while it is looked through.
    let command = format!("d=$MUSTER_ARTIFACTS; echo x > $d/x; mv $d $d.old; ln -s {above} $d");
    let job = ended(&scheduler, &json!({"command": command, "max_retries": 1}));
    let kept = scheduler.http().get(&format!("/jobs/{}/artifacts", id_of(&job))).json();
    assert!(!kept.to_string().contains("treasure"), "{kept}");
    treasure.assert_untouched();
    let request = json!({"command": "true", "working_dir": treasure.directory.path(), "artifacts": ["**"], "max_retries": 1});
    let job = ended(&scheduler, &request);
    let kept = scheduler.http().get(&format!("/jobs/{}/artifacts", id_of(&job))).json();
    assert!(!kept["artifacts"].as_array().unwrap().iter().any(|one| one["sha256"].is_string()), "{kept}");
}

#[test]
fn output_files_are_opened_as_the_user() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let user = LocalUser::make();
    let _worker = worker_of(&scheduler, &user);
    let treasure = Treasure::bury();
    let link = user.home().join("link");
    std::os::unix::fs::symlink(&treasure.path, &link).unwrap();
    let pipe = user.home().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
    let new = treasure.directory.path().join("new");
    let wrong = [
        treasure.path.clone(),
        link,
        pipe,
        new,
        "/proc/self/fd/2".into(),
        "/proc/self/comm".into(),
        "/dev/tty".into(),
    ];
    for path in wrong {
        let job = ended(&scheduler, &json!({"command": "echo oops", "stdout_path": path, "max_retries": 1}));
        let reason = job["reason"].as_str().unwrap_or_default();
        assert_eq!(job["status"], "failed", "{path:?}: {job}");
        assert!(reason.contains(&format!("by the user {}", user.name())), "{path:?}: {reason}");
        treasure.assert_untouched();
    }
    // Swapped after it was made, before anything was written.
    let target = user.home().join("swapped");
    let command = format!(
        "rm {0}; ln -s {1} {0}; sleep 0.1; echo oops; true",
        target.display(),
        treasure.path.display()
    );
    let job = ended(&scheduler, &json!({"command": command, "stdout_path": target, "max_retries": 1}));
    assert_eq!(job["status"], "done", "its end counts all the same: {job}");
    let said = output(&scheduler, &job);
    assert!(said.contains("oops"), "{said}");
    treasure.assert_untouched();
}

#[test]
fn a_notice_is_written_as_the_user() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let user = LocalUser::make();
    let worker = worker_of(&scheduler, &user);
    let treasure = Treasure::bury();
    let at = treasure.path.display();
    let command = format!(
        "n=$MUSTER_PREEMPT_FILE; ln -s {at} $n; ln -s {at} $n.new; d=$MUSTER_DONE_FILE; mkdir $d; chmod 500 $(dirname $n); echo begun; \
         sleep 1000"
    );
    let id = id_of(&scheduler.submit_job(&json!({"command": command, "grace_seconds": 1, "max_retries": 1})));
    until("it runs", BOUND, || scheduler.http().get(&format!("/jobs/{id}/logs")).text().contains("begun"));
    scheduler.http().post(&format!("/jobs/{id}/cancel"), "").expect(200);
    end_of(&scheduler, &id);
    treasure.assert_untouched();
    let rooms = worker.directory().join("rooms");
    until("what it made goes", BOUND, || fs::read_dir(&rooms).unwrap().next().is_none());
}
