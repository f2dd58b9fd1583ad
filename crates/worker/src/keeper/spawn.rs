//! Makes a process, as `posix_spawn` does: the new process borrows the memory of the thread that makes it, which
//! stands still until the program has replaced it.
//!
//! The C library's own does not set limits or the signal on a parent's death, and asks the system about every
//! signal there is, twice, for each process. Here it is known which signals the keeper handles.
//!
//! Guarantees: the program starts with default dispositions, no blocked signal and no descriptor but the three it
//! is given; in a session and, where there are any, a control group of its own; marked; and it is killed when the
//! thread that made it ends.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use super::cgroups::Entrance;
use super::clone_into::{self, Stack, clone_into};
use super::mark::Mark;
use super::signals;
use super::view::{RawView, View};
use crate::job_user::JobUser;

/// A few frames of the C library's thinnest functions.
const STACK_BYTES: usize = 64 * 1024;
/// What the system asks of the start of a stack.
const STACK_ALIGNMENT: usize = 16;

/// A program and what it is to find.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) program: &'a CStr,
    pub(super) argv: &'a [CString],
    /// Each as `NAME=value`.
    pub(super) env: &'a [CString],
    pub(super) directory: &'a CStr,
    /// None of them is one of the first three descriptors.
    pub(super) stdio: [BorrowedFd<'a>; 3],
    pub(super) mark: Option<Mark>,
    pub(super) group: Option<Entrance<'a>>,
    /// The first of the three is a terminal, which becomes that of the session.
    pub(super) terminal: bool,
    pub(super) no_new_privileges: bool,
    /// The user that it becomes, where that is not the keeper's.
    pub(super) user: Option<&'a JobUser>,
    /// The kernel kills it before others when memory gets short.
    pub(super) expendable: bool,
    /// What it sees of the file system; what the keeper sees when absent.
    pub(super) view: Option<View<'a>>,
}

/// This kernel does not make processes inside of groups: they go there themselves.
static MUST_JOIN: AtomicBool = AtomicBool::new(false);

/// What the new process reads, and where it says why there is no program. Plain values: it may not allocate.
#[repr(C)]
struct Orders {
    program: *const c_char,
    argv: *const *const c_char,
    env: *const *const c_char,
    directory: *const c_char,
    stdio: [c_int; 3],
    limit: Option<libc::rlimit>,
    /// The files by which it goes into its groups.
    join: *const c_int,
    join_count: usize,
    terminal: bool,
    no_new_privileges: bool,
    expendable: bool,
    view: *const RawView,
    user: Option<Identity>,
    failed: c_int,
    /// What failed.
    at: Step,
}

/// A user with its groups.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Identity {
    uid: libc::uid_t,
    gid: libc::gid_t,
    groups: *const libc::gid_t,
    group_count: usize,
}

impl Identity {
    fn of(user: &JobUser) -> Self {
        let (groups, group_count) = (user.groups.as_ptr(), user.groups.len());
        Self { uid: user.uid, gid: user.gid, groups, group_count }
    }
}

/// What the new process was about to do.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    JoinGroup,
    Prepare,
    View,
    ChangeUser,
    EnterDirectory,
    Start,
}

/// Starts the program and returns the number of its process.
pub(super) fn spawn(plan: &Plan<'_>) -> io::Result<u32> {
    let into = plan.group.and_then(|group| group.into).filter(|_| !MUST_JOIN.load(Ordering::Relaxed));
    let join: &[File] = plan.group.filter(|_| into.is_none()).map_or(&[], |group| group.join);
    let join: Vec<c_int> = join.iter().map(std::os::fd::AsRawFd::as_raw_fd).collect();
    let (argv, env) = (pointers(plan.argv), pointers(plan.env));
    let view = plan.view.map(RawView::of);
    let mut orders = Orders {
        program: plan.program.as_ptr(),
        argv: argv.as_ptr(),
        env: env.as_ptr(),
        directory: plan.directory.as_ptr(),
        stdio: plan.stdio.map(|fd| fd.as_raw_fd()),
        limit: plan.mark.map(Mark::as_limit),
        join: join.as_ptr(),
        join_count: join.len(),
        terminal: plan.terminal,
        no_new_privileges: plan.no_new_privileges,
        user: plan.user.map(Identity::of),
        expendable: plan.expendable,
        view: view.as_ref().map_or(ptr::null(), ptr::from_ref),
        failed: 0,
        at: Step::Prepare,
    };
    let mut stack: Vec<u8> = Vec::with_capacity(STACK_BYTES);
    let top = stack.as_mut_ptr().wrapping_add(STACK_BYTES);
    let top = top.wrapping_sub(top.addr() % STACK_ALIGNMENT);
    // A handler of ours must not run in the other process, whose memory is ours.
    let mut before = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut before))?;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let given: *mut c_void = (&raw mut orders).cast();
    #[expect(
        unsafe_code,
        reason = "no safe wrapper makes a process that shares memory until it has its program"
    )]
    // SAFETY: this thread stands still until the other process has its program or has ended, so that stack and orders
    // outlive its use of them. The function it runs keeps to what is allowed there.
    let made = unsafe {
        match into {
            Some(group) => {
                let stack = Stack { top, bytes: STACK_BYTES - 2 * STACK_ALIGNMENT };
                clone_into(group.as_raw_fd(), stack, become_program, given)
            }
            None => match libc::clone(become_program, top.cast(), flags, given) {
                pid if pid > 0 => Ok(pid),
                _ => Err(io::Error::last_os_error()),
            },
        }
    };
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&before), None)?;
    drop(stack);
    let pid = match made {
        Err(error) if into.is_some() && clone_into::is_unknown(&error) => {
            MUST_JOIN.store(true, Ordering::Relaxed);
            return spawn(plan);
        }
        made => made?,
    };
    let Some(failure) = failure(&orders, plan) else { return Ok(pid.unsigned_abs()) };
    while waitpid(Pid::from_raw(pid), None) == Err(Errno::EINTR) {}
    Err(failure)
}

/// What the new process said that went wrong.
fn failure(orders: &Orders, plan: &Plan<'_>) -> Option<io::Error> {
    #[expect(
        unsafe_code,
        reason = "the values were written by another process, which the compiler does not see"
    )]
    // SAFETY: the places are ours and initialised; the other process no longer has them.
    let (failed, at) =
        unsafe { (ptr::read_volatile(&raw const orders.failed), ptr::read_volatile(&raw const orders.at)) };
    (failed != 0).then(|| explain(at, io::Error::from_raw_os_error(failed), plan))
}

/// Says what the new process could not do, where the error alone would mislead.
fn explain(at: Step, error: io::Error, plan: &Plan<'_>) -> io::Error {
    let name = plan.user.map_or("?", |user| user.name.as_str());
    let words = match at {
        Step::JoinGroup => format!("its control group does not take it: {error}"),
        Step::View => format!("it cannot have a /tmp of its own: {error}"),
        Step::ChangeUser => format!("it cannot become the user {name}: {error}"),
        Step::EnterDirectory if plan.user.is_some() => {
            let directory = plan.directory.to_string_lossy();
            format!("the user {name} cannot enter the working directory {directory}: {error}")
        }
        Step::Start if plan.user.is_some() => format!("for the user {name}: {error}"),
        Step::Prepare | Step::EnterDirectory | Step::Start => return error,
    };
    io::Error::new(error.kind(), words)
}

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Runs in the new process, on its own stack and in the memory of the keeper: calls nothing but the system.
extern "C" fn become_program(orders: *mut c_void) -> c_int {
    let orders = orders.cast::<Orders>();
    #[expect(unsafe_code, reason = "between clone and exec only bare calls of the system are allowed")]
    // SAFETY: the orders are valid and nobody else's until this process has its program. Every function called here
    // may be called in a signal handler, so that none of them waits for a lock that a thread of the keeper holds.
    unsafe {
        signals::restore_in_child();
        libc::setsid();
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if (*orders).no_new_privileges {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        }
        if (*orders).expendable {
            offer_to_the_kernel();
        }
        for index in 0..(*orders).join_count {
            if libc::write(*(*orders).join.add(index), c"0".as_ptr().cast(), 1) < 0 {
                (*orders).failed = Errno::last_raw();
                (*orders).at = Step::JoinGroup;
                libc::_exit(127);
            }
        }
        if !(*orders).view.is_null() && !(*(*orders).view).enter() {
            (*orders).failed = Errno::last_raw();
            (*orders).at = Step::View;
            libc::_exit(127);
        }
        if let Some(limit) = &(*orders).limit {
            libc::setrlimit(libc::RLIMIT_RTTIME, limit);
        }
        for (target, source) in (0..).zip((*orders).stdio) {
            if libc::dup2(source, target) < 0 {
                (*orders).failed = Errno::last_raw();
                libc::_exit(127);
            }
        }
        if (*orders).terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
            (*orders).failed = Errno::last_raw();
            libc::_exit(127);
        }
        if let Some(user) = &(*orders).user {
            (*orders).at = Step::ChangeUser;
            if !become_user(user) {
                (*orders).failed = Errno::last_raw();
                libc::_exit(127);
            }
            // The system forgets it where the user changes.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        }
        (*orders).at = Step::EnterDirectory;
        if libc::chdir((*orders).directory) == 0 {
            (*orders).at = Step::Start;
            libc::execve((*orders).program, (*orders).argv, (*orders).env);
        }
        (*orders).failed = Errno::last_raw();
        libc::_exit(127)
    }
}

/// Becomes a user for good: the groups first, which only root may set, and the user last. The C library would change all threads of
/// the keeper, whose memory this process shares, so that the system is asked itself.
#[expect(unsafe_code, reason = "the wrappers change the whole process that lends its memory")]
fn become_user(user: &Identity) -> bool {
    let (uid, gid) = (user.uid, user.gid);
    // SAFETY: the calls take numbers, and a list that outlives them.
    unsafe {
        libc::syscall(libc::SYS_setgroups, user.group_count, user.groups) == 0
            && libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
            && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
    }
}

/// Lets the kernel choose this process, and what it starts, when memory gets short.
#[expect(unsafe_code, reason = "between clone and exec only bare calls of the system are allowed")]
unsafe fn offer_to_the_kernel() {
    const MOST: &CStr = c"1000";
    // SAFETY: the texts are constants, and the calls are allowed in a signal handler. A failure changes only whom the
    // kernel chooses.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file >= 0 {
            libc::write(file, MOST.as_ptr().cast(), MOST.count_bytes());
            libc::close(file);
        }
    }
}
