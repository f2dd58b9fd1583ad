//! Processes of jobs that nobody looks after any more, because their keeper was killed.
//!
//! Nobody can tell how they end, and nobody would stop them when their lease is over. They are found by
//! the variable that every job of a data directory carries, and killed before anything new starts.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::environment::WORKER_DIR;

/// Kills all processes that the worker of this data directory once started. Returns how many there were.
pub(crate) fn kill_orphans(data_dir: &Path) -> usize {
    let mut wanted = format!("{WORKER_DIR}=").into_bytes();
    wanted.extend(data_dir.as_os_str().as_bytes());
    let mut killed = 0;
    // A killed process may have started another in the meantime.
    for _ in 0..3 {
        let found: Vec<Pid> = processes().filter(|pid| has_variable(*pid, &wanted)).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            if kill(pid, Signal::SIGKILL).is_ok() {
                killed += 1;
            }
        }
    }
    killed
}

fn processes() -> impl Iterator<Item = Pid> {
    let own = std::process::id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(move |pid| *pid != own)
        .filter_map(|pid| Some(Pid::from_raw(i32::try_from(pid).ok()?)))
}

/// A process that is gone, ended or somebody else's has no environment to read.
fn has_variable(pid: Pid, wanted: &[u8]) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[test]
    fn only_processes_of_the_directory_are_killed() {
        let root = tempfile::tempdir().unwrap();
        let sleep =
            |directory: &Path| Command::new("sleep").arg("60").env(WORKER_DIR, directory).spawn().unwrap();
        let mut ours = sleep(root.path());
        let mut other = sleep(&root.path().join("other"));
        assert!(kill_orphans(root.path()) >= 1);
        assert_eq!(ours.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
