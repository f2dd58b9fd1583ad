//! Processes of jobs that nobody looks after any more, because everybody who did was killed.
//!
//! Nobody can tell how they end, and nobody would stop them when their lease is over. They are found by
//! the mark or the variable that every job of a data directory carries, and killed before anything new starts.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::environment::WORKER_DIR;
use crate::keeper::{Mark, MarkFamily};

/// How long they may take to die. One that takes longer hangs in the kernel, and waiting does not help.
const PATIENCE: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(5);

/// Kills all processes that the worker of this data directory once started, and waits until they are gone. Returns
/// how many there were.
pub(crate) async fn kill_orphans(data_dir: &Path) -> usize {
    let mut wanted = format!("{WORKER_DIR}=").into_bytes();
    wanted.extend(data_dir.as_os_str().as_bytes());
    let family = MarkFamily::of(data_dir);
    let begun = Instant::now();
    let mut killed = HashSet::new();
    loop {
        let ours = |pid: &Pid| {
            Mark::of_process(pid.as_raw()).is_some_and(|mark| family.has(mark)) || has_variable(*pid, &wanted)
        };
        // What has ended and only waits to be collected can do no harm.
        let found: Vec<Pid> = processes().filter(ours).filter(|pid| has_memory(*pid)).collect();
        if found.is_empty() || begun.elapsed() > PATIENCE {
            return killed.len();
        }
        for pid in found {
            if kill(pid, Signal::SIGKILL).is_ok() {
                killed.insert(pid);
            }
        }
        tokio::time::sleep(ROUND).await;
    }
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

/// A process that has ended has no command line.
fn has_memory(pid: Pid) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    #[tokio::test]
    async fn only_processes_of_the_directory_are_killed() {
        let root = tempfile::tempdir().unwrap();
        let sleep =
            |directory: &Path| Command::new("sleep").arg("60").env(WORKER_DIR, directory).spawn().unwrap();
        let mut ours = sleep(root.path());
        let mut other = sleep(&root.path().join("other"));
        assert!(kill_orphans(root.path()).await >= 1);
        assert_eq!(ours.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
