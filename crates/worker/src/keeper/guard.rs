//! The guard: a process that does nothing but watch the keeper, whose parent it is.
//!
//! It takes in whatever the keeper leaves, so that a keeper that is killed takes everything with it that its jobs
//! have started. And it ends a keeper that has let the fence pass: one that hangs or was stopped does not notice.
//!
//! Guarantee: when the guard has ended by itself, nothing that the keeper has started is alive.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::libc;
use nix::sys::prctl;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{ForkResult, Pid, dup2_stdin, fork, getpid, getppid};

use super::cgroups;
use super::clock::boottime_ns;
use super::process_tree::ProcessTree;
use super::signals::{self, ProcessHandle};

/// How late the keeper may be with what the fence demands. Less than what the fence keeps for safety.
const LATE_NS: u64 = 1_000_000_000;
/// How often the fence is looked at.
const ROUND: Duration = Duration::from_millis(500);
/// Between two kills: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Which of the two this process is.
#[derive(Debug)]
pub(super) enum Side {
    Keeper(Guarded),
    /// The keeper has come and gone.
    Guard(ExitCode),
}

/// The keeper's view of its guard.
#[derive(Debug)]
pub(super) struct Guarded {
    guard: Pid,
    pub(super) fence: FenceMirror,
}

impl Guarded {
    /// Whether nobody watches any more.
    pub(super) fn is_alone(&self) -> bool {
        getppid() != self.guard
    }
}

/// Where the guard sees the fence; nowhere in a keeper without a guard.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FenceMirror(Option<&'static AtomicU64>);

impl FenceMirror {
    #[cfg(test)]
    pub(super) const fn of(number: &'static AtomicU64) -> Self {
        Self(Some(number))
    }

    pub(super) fn show(self, deadline_ns: u64) {
        if let Some(fence) = self.0 {
            fence.store(deadline_ns, Ordering::Relaxed);
        }
    }
}

/// Becomes two processes. Call it while there is one thread.
pub(super) fn split(directory: &Path) -> io::Result<Side> {
    let fence = common_number()?;
    let guard = getpid();
    prctl::set_child_subreaper(true)?;
    #[expect(unsafe_code, reason = "the keeper must be a child of the guard, and both are this program")]
    // SAFETY: there is one thread, so that the child holds no lock of another and may go on as usual.
    match unsafe { fork() }? {
        ForkResult::Child => {
            prctl::set_child_subreaper(true)?;
            Ok(Side::Keeper(Guarded { guard, fence: FenceMirror(Some(fence)) }))
        }
        ForkResult::Parent { child } => {
            // The agent must see the keeper's end of their connection close with the keeper.
            dup2_stdin(File::open("/dev/null")?)?;
            prctl::set_name(c"muster-guard")?;
            Ok(Side::Guard(watch(child, fence, directory)))
        }
    }
}

/// A number that both processes see.
fn common_number() -> io::Result<&'static AtomicU64> {
    let (length, protection) = (size_of::<AtomicU64>(), libc::PROT_READ | libc::PROT_WRITE);
    #[expect(unsafe_code, reason = "the safe wrappers in use do not offer memory that two processes share")]
    // SAFETY: the system chooses the place; nothing of ours is there.
    let page = unsafe {
        libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
    };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "the memory comes from a raw call")]
    // SAFETY: the page is aligned, holds zeros, is never given back, and is used as this atomic only.
    Ok(unsafe { &*page.cast::<AtomicU64>() })
}

fn watch(keeper: Pid, fence: &AtomicU64, directory: &Path) -> ExitCode {
    let handle = ProcessHandle::open(keeper.as_raw());
    let mut judged = 0;
    let code = loop {
        match waitid(Id::Pid(keeper), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::StillAlive) | Err(nix::errno::Errno::EINTR) => {}
            Ok(WaitStatus::Exited(_, 0)) => break ExitCode::SUCCESS,
            Ok(_) | Err(_) => break ExitCode::FAILURE,
        }
        let deadline_ns = fence.load(Ordering::Relaxed);
        if deadline_ns != judged && boottime_ns() >= deadline_ns.saturating_add(LATE_NS) {
            // Nothing starts past the fence, so that once is enough.
            judged = deadline_ns;
            if !ProcessTree::read().descendants(keeper.as_raw()).is_empty() {
                eprintln!("keeper: the keeper has not stopped its jobs in time and is killed");
                signals::to_process(keeper.as_raw(), libc::SIGKILL);
            }
        }
        handle.wait(ROUND);
    };
    end_everything(directory);
    code
}

/// Whatever is below this process was started by jobs.
fn end_everything(directory: &Path) {
    let mut pause = FIRST_PAUSE;
    loop {
        match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG) {
            Ok(WaitStatus::StillAlive) => {}
            Err(nix::errno::Errno::ECHILD) => return,
            Ok(_) | Err(_) => continue,
        }
        cgroups::kill_recorded(directory);
        let own = getpid().as_raw();
        ProcessTree::read().descendants(own).into_iter().for_each(|process| process.signal(libc::SIGKILL));
        std::thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}
