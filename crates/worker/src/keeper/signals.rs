//! How the keeper treats signals, and how it sends them.
//!
//! Guarantee: jobs start with default dispositions. A handler does not survive `exec`, an ignored
//! signal would, so the keeper handles what it does not want to die of.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};

/// The polite signal of jobs that name none.
pub(super) const TERMINATE: i32 = libc::SIGTERM;

static TERMINATE_CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn note_terminate(_: libc::c_int) {
    TERMINATE_CAME.store(true, Ordering::Relaxed);
}

extern "C" fn ignore(_: libc::c_int) {}

/// A service manager that stops a worker signals all of its processes. The agent decides what becomes
/// of the jobs; the keeper must live until it has.
pub(super) fn install() -> nix::Result<()> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2] {
        handle(signal, ignore)?;
    }
    handle(Signal::SIGTERM, note_terminate)
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

/// Asks a process group to end. A stopped process could not act on it, hence the SIGCONT.
pub(super) fn ask_to_stop(group: u32, signal: i32) {
    send(group, signal);
    send(group, libc::SIGCONT);
}

/// Ends a process group.
pub(super) fn kill(group: u32) {
    send(group, libc::SIGKILL);
}

/// Takes numbers, because real-time signals have no names.
fn send(group: u32, signal: i32) {
    if let Ok(group) = i32::try_from(group) {
        #[expect(unsafe_code, reason = "the safe wrapper does not know real-time signals")]
        // SAFETY: the call takes two integers and touches no memory of ours. The group may be gone already,
        // which is what the signal was for.
        let _ = unsafe { libc::killpg(group, signal) };
    }
}
