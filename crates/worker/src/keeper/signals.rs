//! How the keeper treats signals, and how it sends them.
//!
//! Guarantee: jobs start with default dispositions, whatever the keeper was started with. A handler does not
//! survive `exec`, an ignored signal would, so the keeper handles what it does not want to die of.

use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};

/// The polite signal of jobs that name none.
pub(super) const TERMINATE: i32 = libc::SIGTERM;
/// What programs written for batch systems listen to.
pub(super) const USER1: i32 = libc::SIGUSR1;

/// Whether a process that does not catch the signal would die of it. What it would die of anyway is no matter
/// of catching.
pub(super) fn kills_when_uncaught(signal: i32) -> bool {
    let spared = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGURG,
        libc::SIGWINCH,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGKILL,
    ];
    !spared.contains(&signal)
}

static TERMINATE_CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn note_terminate(_: libc::c_int) {
    TERMINATE_CAME.store(true, Ordering::Relaxed);
}

extern "C" fn ignore(_: libc::c_int) {}

/// What the keeper handles without doing anything.
const IGNORED: [Signal; 5] =
    [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// A service manager that stops a worker signals all of its processes. The agent decides what becomes
/// of the jobs; the keeper must live until it has.
///
/// Whoever started the worker may have told it to ignore signals, as a shell does for what it runs in the
/// background. A job must not inherit that: a shell cannot trap what was ignored when it started.
pub(super) fn install() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    for signal in 1..=libc::SIGRTMAX() {
        restore_if_ignored(signal);
    }
    for signal in IGNORED {
        handle(signal, ignore)?;
    }
    handle(Signal::SIGTERM, note_terminate)
}

/// The standard library ignores SIGPIPE for its own sake.
fn restore_if_ignored(signal: libc::c_int) {
    #[expect(unsafe_code, reason = "the safe wrapper does not know real-time signals")]
    // SAFETY: the structure is valid when it is all zeros, which is the default disposition and no flags.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0;
        if known && signal != libc::SIGPIPE && now.sa_sigaction == libc::SIG_IGN {
            libc::sigaction(signal, &std::mem::zeroed(), std::ptr::null_mut());
        }
    }
}

/// Gives a new process, before it has its program, default dispositions and an empty mask.
///
/// # Safety
///
/// Only for a process that has one thread; it calls nothing but the system.
#[expect(unsafe_code, reason = "only bare calls of the system are allowed before exec")]
pub(super) unsafe fn restore_in_child() {
    // SAFETY: structure and set are valid when they are all zeros: default disposition, no flags, no signal.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        for signal in
            IGNORED.map(|signal| signal as libc::c_int).into_iter().chain([TERMINATE, libc::SIGPIPE])
        {
            libc::sigaction(signal, &raw const default, std::ptr::null_mut());
        }
        let none: libc::sigset_t = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

fn handle(signal: Signal, handler: extern "C" fn(libc::c_int)) -> nix::Result<()> {
    let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_RESTART, SigSet::empty());
    #[expect(
        unsafe_code,
        reason = "the handlers only store to an atomic, which is safe in a signal handler"
    )]
    // SAFETY: both handlers are async-signal-safe and stay valid for the life of the process.
    unsafe { sigaction(signal, &action) }?;
    Ok(())
}

/// Whether a SIGTERM has come.
pub(super) fn terminate_requested() -> bool {
    TERMINATE_CAME.load(Ordering::Relaxed)
}

/// Lets a process group go on that was stopped: a stopped process could not act on what comes next.
pub(super) fn resume(group: u32) {
    to_group(group, libc::SIGCONT);
}

/// Ends a process group.
pub(super) fn kill(group: u32) {
    to_group(group, libc::SIGKILL);
}

/// Takes numbers, because real-time signals have no names.
pub(super) fn to_group(group: u32, signal: i32) {
    if let Ok(group) = i32::try_from(group) {
        #[expect(unsafe_code, reason = "the safe wrapper does not know real-time signals")]
        // SAFETY: the call takes two integers and touches no memory of ours. The group may be gone already,
        // which is what the signal was for.
        let _ = unsafe { libc::killpg(group, signal) };
    }
}

/// Signals one process. The caller knows that the number is not a stranger's: the process is ours and unreaped.
pub(super) fn to_process(pid: i32, signal: i32) {
    #[expect(unsafe_code, reason = "the safe wrapper does not know real-time signals")]
    // SAFETY: the call takes two integers and touches no memory of ours.
    let _ = unsafe { libc::kill(pid, signal) };
}

/// Holds on to whatever process has this number now; can be read from once that has ended.
pub(crate) fn process_handle(pid: i32) -> Option<OwnedFd> {
    #[expect(unsafe_code, reason = "the safe wrappers do not offer process handles")]
    // SAFETY: the call takes two integers; what it returns is a descriptor of ours or an error.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0);
    #[expect(unsafe_code, reason = "the descriptor comes from a raw call")]
    // SAFETY: the call has just returned it, and nobody else has it.
    fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A process whose number may be given to another once it has ended; the handle is not.
#[derive(Debug)]
pub(super) struct ProcessHandle(Option<OwnedFd>);

impl ProcessHandle {
    /// Holds on to whatever process has this number now; where the system knows no handles, to nothing.
    pub(super) fn open(pid: i32) -> Self {
        Self(process_handle(pid))
    }

    /// Waits until the process has ended, but no longer than this. Without a handle the time must do.
    pub(super) fn wait(&self, at_most: Duration) {
        let Some(fd) = &self.0 else { return std::thread::sleep(at_most.min(Duration::from_millis(100))) };
        let timeout = PollTimeout::try_from(at_most).unwrap_or(PollTimeout::MAX);
        // A wait that ends early is followed by another.
        let _ = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], timeout);
    }

    /// Signals the process, unless it has ended. Without a handle its number must do.
    pub(super) fn signal(&self, pid: i32, signal: i32) {
        let Some(fd) = &self.0 else { return to_process(pid, signal) };
        let info = std::ptr::null::<libc::siginfo_t>();
        #[expect(unsafe_code, reason = "the safe wrappers do not offer process handles")]
        // SAFETY: the descriptor is open, and the absent information is allowed.
        let _ = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, info, 0) };
    }
}
