//! What nobody but the worker's own user can read, and what jobs of that user cannot read of the worker.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_protocol::ReportKind;
use serde_json::json;

use crate::process::{Worker, eventually};
use crate::scheduler::Scheduler;

/// Everything below a directory that others have any right to.
fn open_to_others(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if !kind.is_symlink() && entry.metadata().unwrap().permissions().mode() & 0o077 != 0 {
            found.push(entry.path());
        }
        if kind.is_dir() {
            found.extend(open_to_others(&entry.path()));
        }
    }
    found
}

#[test]
fn the_data_directory_is_for_its_owner_and_jobs_keep_their_umask() {
    let scheduler = Scheduler::start();
    let mut worker = Worker::start_under("022", &scheduler);
    let made = worker.directory().join("made");
    let show =
        format!("echo x > {}; echo a > $MUSTER_CHECKPOINT_DIR/a; umask; exec sleep 300", made.display());
    let id = scheduler.submit(&show, &json!({}));
    assert_eq!(scheduler.output_with(&id, "stdout", "\n"), "0022\n");
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o644, "files of jobs are theirs");
    let data = worker.directory().join("data");
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o777, 0o700);
    let mut open = open_to_others(&data);
    // Made by the job, with its own umask, behind a door that is closed.
    open.retain(|path| !path.ends_with("a"));
    assert_eq!(open, [] as [PathBuf; 0]);

    // A directory of an older version.
    worker.kill9();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["output", "attempts", "checkpoints", "results"] {
        fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    worker.restart();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for name in ["output", "attempts", "checkpoints", "results"] {
        eventually("it is closed", || (mode(&data.join(name)) == 0o700).then_some(()));
    }
    assert_eq!(mode(&data), 0o755, "what was there may be anything: it is left alone");
}

#[test]
fn the_keeper_carries_nothing_of_the_workers_environment() {
    let scheduler = Scheduler::start();
    let _worker = Worker::start(&scheduler, &["--workers=1", "--pass-env=SECRET_OF_THE_WORKER"]);
    let look = "test \"$SECRET_OF_THE_WORKER\" = hush || exit 3
                for pid in $PPID $(cut -d' ' -f4 /proc/$PPID/stat); do
                    case \"$(cat /proc/$pid/comm)\" in muster-keeper|muster-guard) ;; *) exit 4;; esac
                    grep -q hush /proc/$pid/environ && exit 5
                    grep -q hush /proc/$pid/cmdline && exit 6
                done; exit 0";
    let report = scheduler.report_of(&scheduler.submit(look, &json!({})));
    assert_eq!((report.kind, report.exit_code), (ReportKind::Done, Some(0)));
}

#[test]
fn a_job_has_three_descriptors_whatever_the_worker_was_started_with() {
    let scheduler = Scheduler::start();
    // What a careless launcher leaves open, and what the keeper opens for itself and for other jobs.
    let _worker = Worker::start_after(&scheduler, "exec 7< /etc/passwd 9> leaked");
    let other = scheduler.submit("true", &json!({}));
    scheduler.report_of(&other);
    let id = scheduler.submit(
        "exec python3 -c 'import os; print(sorted(map(int, os.listdir(\"/proc/self/fd\"))))'",
        &json!({}),
    );
    let said = scheduler.output_with(&id, "stdout", "\n");
    // The fourth is the directory that the program reads.
    assert_eq!(said.trim(), "[0, 1, 2, 3]");
    let id = scheduler
        .submit("readlink /proc/self/fd/0 /proc/self/fd/3 /proc/self/fd/7 /proc/self/fd/9; true", &json!({}));
    assert_eq!(scheduler.output_with(&id, "stdout", "\n").trim(), "/dev/null");
}
