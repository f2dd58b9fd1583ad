//! Makes a process inside of a control group.
//!
//! The C library offers no such call that also lends the new process the memory of its maker. To move a process that is
//! there already costs milliseconds on many machines, because the kernel waits for all others.

use nix::libc;
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::RawFd;

/// What is asked of the kernel: more than the older call takes.
#[cfg(target_arch = "x86_64")]
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Whether the error means that this kernel, or this machine, does not know how.
pub(super) fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::E2BIG | libc::EPERM))
}

/// A stack that the new process uses until it has its program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    pub(super) top: *mut u8,
    pub(super) bytes: usize,
}

/// Makes a process in the group whose directory is open, which runs `entry` on the stack and shares the memory of this
/// one until it has its program or ends; this thread stands still as long. Returns the number of the process.
///
/// # Safety
///
/// Stack and orders must be valid, the stack must begin at a multiple of 16, and `entry` must do nothing that is not
/// allowed in a signal handler.
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "no wrapper makes a process in a group that shares memory until it has its program"
)]
pub(super) unsafe fn clone_into(
    group: RawFd,
    stack: Stack,
    entry: extern "C" fn(*mut c_void) -> c_int,
    orders: *mut c_void,
) -> io::Result<c_int> {
    let flags = libc::CLONE_VM as u64 | libc::CLONE_VFORK as u64 | CLONE_INTO_CGROUP;
    let begin = stack.top.wrapping_sub(stack.bytes);
    let arguments: [u64; 11] = [
        flags,
        0,
        0,
        0,
        libc::SIGCHLD as u64,
        begin.addr() as u64,
        stack.bytes as u64,
        0,
        0,
        0,
        group as u64,
    ];
    let answer: i64;
    // SAFETY: in this process the call changes nothing but the registers that are named. The new process goes on behind
    // it with registers and a stack of its own, calls `entry` and never returns.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, {orders}",
            "call {entry}",
            "mov edi, eax",
            "mov eax, {exit}",
            "syscall",
            "ud2",
            "2:",
            orders = in(reg) orders,
            entry = in(reg) entry,
            exit = const libc::SYS_exit_group,
            inlateout("rax") libc::SYS_clone3 => answer,
            in("rdi") arguments.as_ptr(),
            in("rsi") size_of_val(&arguments),
            out("rcx") _,
            out("r11") _,
        );
    }
    match c_int::try_from(answer) {
        Ok(pid) if pid > 0 => Ok(pid),
        Ok(error) => Err(io::Error::from_raw_os_error(-error)),
        Err(_) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Other machines move the process.
///
/// # Safety
///
/// It does nothing.
#[cfg(not(target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "it stands in for a function that is not safe")]
pub(super) unsafe fn clone_into(
    _: RawFd,
    _: Stack,
    _: extern "C" fn(*mut c_void) -> c_int,
    _: *mut c_void,
) -> io::Result<c_int> {
    Err(io::Error::from_raw_os_error(libc::ENOSYS))
}
