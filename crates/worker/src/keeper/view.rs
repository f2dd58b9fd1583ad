//! What a process sees of the file system where that differs from what the keeper sees: a `/tmp` of its own, or what another
//! process sees.
//!
//! Guarantee: the view is changed before the program is there, or there is no program. Nothing here costs a process that
//! sees what the keeper sees.

use std::ffi::{CStr, c_char, c_int};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::ptr;

use nix::libc;

/// What a new process is to see.
#[derive(Debug, Clone, Copy)]
pub(super) enum View<'a> {
    /// These directories in place of `/tmp` and `/var/tmp`. A process that may not mount does it in a user namespace.
    OwnTmp { tmp: &'a CStr, var_tmp: &'a CStr, user: Option<&'a File> },
    /// The same as somebody else.
    Of(&'a Seen),
}

/// The namespaces of a process.
#[derive(Debug)]
pub(super) struct Seen {
    user: File,
    mounts: File,
}

impl Seen {
    pub(super) fn by(pid: u32) -> io::Result<Self> {
        let open = |name: &str| File::open(format!("/proc/{pid}/ns/{name}"));
        Ok(Self { user: open("user")?, mounts: open("mnt")? })
    }
}

/// The same in plain values, for the process that is just being made.
#[repr(C)]
pub(super) struct RawView {
    tmp: *const c_char,
    var_tmp: *const c_char,
    user: c_int,
    mounts: c_int,
}

impl RawView {
    pub(super) fn of(view: View<'_>) -> Self {
        match view {
            View::OwnTmp { tmp, var_tmp, user } => Self {
                tmp: tmp.as_ptr(),
                var_tmp: var_tmp.as_ptr(),
                user: user.map_or(-1, std::os::fd::AsRawFd::as_raw_fd),
                mounts: -1,
            },
            View::Of(seen) => {
                let same = is_own_user_namespace(&seen.user);
                Self {
                    tmp: ptr::null(),
                    var_tmp: ptr::null(),
                    user: if same { -1 } else { seen.user.as_raw_fd() },
                    mounts: seen.mounts.as_raw_fd(),
                }
            }
        }
    }

    /// Changes what this process sees; false when the system does not let it, with the reason in `errno`.
    ///
    /// # Safety
    ///
    /// For a process that has no program yet: the texts and descriptors must be valid.
    #[expect(unsafe_code, reason = "between clone and exec only bare calls of the system are allowed")]
    pub(super) unsafe fn enter(&self) -> bool {
        // SAFETY: every call may be made in a signal handler, and its arguments are valid as the caller says.
        unsafe {
            if self.mounts >= 0 {
                let user = self.user < 0 || libc::setns(self.user, libc::CLONE_NEWUSER) == 0;
                return user && libc::setns(self.mounts, libc::CLONE_NEWNS) == 0;
            }
            // What the machine mounts later is seen, and what is mounted here is seen nowhere else.
            (self.user < 0 || libc::setns(self.user, libc::CLONE_NEWUSER) == 0)
                && libc::unshare(libc::CLONE_NEWNS) == 0
                && mount(ptr::null(), c"/".as_ptr(), libc::MS_REC | libc::MS_SLAVE)
                && mount(self.tmp, c"/tmp".as_ptr(), libc::MS_BIND)
                && mount(self.var_tmp, c"/var/tmp".as_ptr(), libc::MS_BIND)
        }
    }
}

#[expect(unsafe_code, reason = "between clone and exec only bare calls of the system are allowed")]
unsafe fn mount(source: *const c_char, target: *const c_char, flags: libc::c_ulong) -> bool {
    // SAFETY: as the caller says.
    unsafe { libc::mount(source, target, ptr::null(), flags, ptr::null()) == 0 }
}

/// A process cannot enter the user namespace that it is in.
fn is_own_user_namespace(other: &File) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let number = |file: &File| file.metadata().map(|found| (found.dev(), found.ino())).ok();
    File::open("/proc/self/ns/user").is_ok_and(|own| number(&own) == number(other))
}
