//! A full disk is named, to clients and to whoever asks whether the scheduler is ready, and passes when there is room.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_tests::{Backing, Scheduler, Settings, until};

const BOUND: Duration = Duration::from_secs(60);

/// A small disk; unmounted with the value.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Self {
        fs::create_dir_all(at).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(at).status();
        assert!(mount.unwrap().success(), "mounting a small disk needs root");
        Self(at.to_owned())
    }

    /// Takes all that is left.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for size in [64 * 1024, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_named_and_passes() {
    let directory = tempfile::TempDir::with_prefix("muster-full-").unwrap();
    let disk = Disk::mount(&directory.path().join("disk"));
    let scheduler = Scheduler::start_on(&Backing::sqlite_in(&disk.0), Settings::default());
    let http = scheduler.http();
    let before = scheduler.submit("before");
    let filler = disk.fill();

    // The log of the database has some room of its own.
    let refused =
        std::iter::repeat_with(|| http.post("/jobs", format!(r#"{{"command":"{}"}}"#, "x".repeat(50_000))))
            .take(2_000)
            .find(|answer| answer.status != 201)
            .expect("the disk is full");
    refused.expect(503);
    let place = disk.0.display().to_string();
    assert!(
        refused.text().contains("no space is left") && refused.text().contains(&place),
        "{}",
        refused.text()
    );
    let ready = http.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("no space is left") && ready.text().contains(&place), "{}", ready.text());
    http.get("/healthz").expect(200);
    assert_eq!(scheduler.status(&before), "pending", "what is there can be read");

    fs::remove_file(filler).unwrap();
    until("readyz is 200 again", BOUND, || http.get("/readyz").status == 200);
    scheduler.submit("after");
    drop(scheduler);
    drop(disk);
}
