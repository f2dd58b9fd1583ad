//! What a job has started and left behind.
//!
//! The keeper takes in everything below it that loses its parents, so that nothing gets away by leaving its group,
//! its session or its environment. Whose it is says its mark.
//!
//! Guarantees: when an attempt counts as ended, everything that it has started has ended; what another attempt
//! has started is left alone; the usual job, which leaves nothing behind, costs one call of the system.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::cgroups::SlotGroup;
use super::children::Children;
use super::mark::{Mark, Marks};
use super::message::Key;
use super::process_tree::{Process, ProcessTree};
use super::signals;
use crate::environment::{JOB_ID, LEASE, WORKER_DIR};

/// Between two kills: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);
/// How long a process may take to die. One that takes longer hangs in the kernel, and waiting does not help.
const PATIENCE: Duration = Duration::from_secs(10);
/// The unit of the times of birth that the kernel tells.
const TICK_NS: u64 = 10_000_000;

/// What names the processes of one attempt.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    pub(super) key: Key,
    /// The process that was started, and the session that it leads.
    pub(super) leader: i32,
    pub(super) mark: Option<Mark>,
    /// Ticks since boot.
    born: u64,
}

impl Origin {
    /// Of a process that was started after `since_ns` on the clock of leases.
    pub(super) fn new(key: Key, leader: u32, mark: Option<Mark>, since_ns: u64) -> Self {
        Self { key, leader: i32::try_from(leader).unwrap_or(0), mark, born: since_ns / TICK_NS }
    }
}

/// Finds and ends them.
#[derive(Debug, Default)]
pub(super) struct Stragglers {
    children: Children,
    marks: Marks,
    directory: PathBuf,
    /// Held while one is looked at, signalled or collected, so that no number becomes a stranger's in between.
    gate: Mutex<()>,
}

impl Stragglers {
    /// Of this process, whose first thread starts nothing itself.
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            children: Children::of_the_first_thread(),
            marks: Marks::new(directory),
            directory: directory.to_owned(),
            gate: Mutex::new(()),
        }
    }

    /// The data directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The mark of the next attempt.
    pub(super) fn next_mark(&self) -> Option<Mark> {
        self.marks.next()
    }

    /// Whether no attempt whose leader has ended has left anybody.
    pub(super) fn are_none(&self) -> bool {
        self.children.are_none()
    }

    /// Whether the attempt, whose leader has ended, has left anybody who meets a condition.
    pub(super) fn has_left(
        &self,
        origin: &Origin,
        others: &[i32],
        wanted: impl Fn(&Process) -> bool,
    ) -> bool {
        if self.children.list().is_empty() {
            return false;
        }
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.left_by(origin, others).iter().any(wanted)
    }

    /// Ends everything that the attempt, whose leader has ended, has left. `others` gives the leaders of the other
    /// attempts.
    pub(super) fn end(&self, origin: &Origin, others: impl Fn() -> Vec<i32>) {
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        while self.kill(origin, &others) {
            if begun.elapsed() > PATIENCE {
                eprintln!("keeper: processes of {} do not die", origin.key);
                return;
            }
            std::thread::sleep(pause);
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Ends everything in the group of an attempt whose leader has ended and was collected.
    pub(super) fn end_group(&self, origin: &Origin, group: &SlotGroup) {
        let (begun, mut pause, mut killed) = (Instant::now(), FIRST_PAUSE, false);
        while !group.is_empty() {
            if begun.elapsed() > PATIENCE {
                eprintln!("keeper: processes in the group of {} do not die", origin.key);
                return;
            }
            group.kill(killed);
            killed = true;
            self.collect_orphans();
            if group.is_empty() {
                return;
            }
            std::thread::sleep(pause);
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Collects the orphans that have ended.
    fn collect_orphans(&self) {
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        for pid in self.children.list() {
            collected(pid);
        }
        // What a process has started as its own sister is a child of the thread that started the process: this one.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::__WNOTHREAD;
        while matches!(waitid(Id::All, flags), Ok(status) if status != WaitStatus::StillAlive) {}
    }

    /// Kills what there is, and says whether there was anything: it may have started more in the meantime.
    fn kill(&self, origin: &Origin, others: &impl Fn() -> Vec<i32>) -> bool {
        if self.children.list().is_empty() {
            return false;
        }
        let others = others();
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.left_by(origin, &others);
        if left.is_empty() {
            return false;
        }
        let tree = ProcessTree::read();
        for process in &left {
            tree.descendants(process.pid).into_iter().for_each(|below| below.signal(libc::SIGKILL));
            signals::to_process(process.pid, libc::SIGKILL);
        }
        true
    }

    /// Collects what has ended, whosever it was. Only for the first thread, whose children they are.
    pub(super) fn collect(&self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::__WNOTHREAD;
        let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        while matches!(waitid(Id::All, flags), Ok(status) if status != WaitStatus::StillAlive) {}
    }

    /// The orphans of an attempt. The caller holds the gate.
    fn left_by(&self, origin: &Origin, others: &[i32]) -> Vec<Process> {
        let alive = self.children.list().into_iter().filter(|pid| !collected(*pid));
        let processes = alive.filter_map(Process::read);
        processes.filter(|process| self.belongs(process, origin, others)).collect()
    }

    /// The mark decides. Where a process has none of ours its environment does, then its session. One that got rid
    /// of all of these goes with the first attempt that it may be of.
    fn belongs(&self, process: &Process, origin: &Origin, others: &[i32]) -> bool {
        if let Some(mark) = Mark::of_process(process.pid).filter(|mark| self.marks.made(*mark)) {
            return Some(mark) == origin.mark;
        }
        if let Some((job_id, lease)) = self.named_in_environment(process.pid) {
            return job_id == *origin.key.job_id && lease == origin.key.lease.to_string();
        }
        let led_by = |leader: &i32| process.session == *leader || process.group == *leader;
        led_by(&origin.leader) || (!others.iter().any(led_by) && process.born >= origin.born)
    }

    /// Job and lease, of a process that was started with the environment of an attempt of this directory.
    fn named_in_environment(&self, pid: i32) -> Option<(String, String)> {
        let text = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let value =
            |name: &str| text.split('\0').find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='));
        let ours = value(WORKER_DIR).is_some_and(|directory| Path::new(directory) == self.directory);
        ours.then(|| Some((value(JOB_ID)?.to_owned(), value(LEASE)?.to_owned()))).flatten()
    }
}

/// Collects a child if it has ended.
fn collected(pid: i32) -> bool {
    loop {
        let status = waitid(Id::Pid(Pid::from_raw(pid)), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG);
        if status != Err(Errno::EINTR) {
            return status != Ok(WaitStatus::StillAlive);
        }
    }
}
