//! The mark that all processes of an attempt carry, whatever becomes of their parents, session and environment.
//!
//! The system hands limits on to every child and keeps them across `exec`. One of them, processor time under
//! real-time scheduling, is set to a number that no process can reach and that names the attempt. Only a process
//! that sets this very limit again loses the mark.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::libc;

use crate::attempt_files::fingerprint;

/// Microseconds that are some hundred thousand years: nothing below is a mark of ours.
const LOWEST: u64 = 1 << 62;
/// So many bits tell data directories apart, and so many the attempts of one.
const FAMILY_BITS: u32 = 29;
const ATTEMPT_BITS: u32 = 32;

/// The mark of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// What the marks of one data directory have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MarkFamily(u64);

impl MarkFamily {
    pub(crate) fn of(directory: &Path) -> Self {
        let bits = fingerprint(directory.as_os_str().as_bytes()) & ((1 << FAMILY_BITS) - 1);
        Self(LOWEST | bits << ATTEMPT_BITS)
    }

    pub(crate) fn has(self, mark: Mark) -> bool {
        mark.0 >> ATTEMPT_BITS == self.0 >> ATTEMPT_BITS
    }
}

impl Mark {
    /// The mark of a process that lives or is not yet collected.
    pub(crate) fn of_process(pid: i32) -> Option<Self> {
        let limit = limit_of(pid)?;
        (limit.rlim_cur >= LOWEST && limit.rlim_cur != libc::RLIM_INFINITY).then_some(Self(limit.rlim_cur))
    }

    pub(super) const fn as_limit(self) -> libc::rlimit {
        libc::rlimit { rlim_cur: self.0, rlim_max: libc::RLIM_INFINITY }
    }
}

fn limit_of(pid: i32) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    #[expect(unsafe_code, reason = "the safe wrappers offer only the limits of the own process")]
    // SAFETY: the call reads nothing and writes the structure it is given.
    let asked = unsafe { libc::prlimit(pid, libc::RLIMIT_RTTIME, std::ptr::null(), &raw mut limit) };
    (asked == 0).then_some(limit)
}

/// Makes a mark for each attempt.
#[derive(Debug, Default)]
pub(super) struct Marks {
    family: MarkFamily,
    next: AtomicU32,
    available: bool,
}

impl Marks {
    /// Where the limit was already lowered for good there are no marks.
    pub(super) fn new(directory: &Path) -> Self {
        let available = limit_of(0).is_some_and(|limit| limit.rlim_max == libc::RLIM_INFINITY);
        Self { family: MarkFamily::of(directory), next: AtomicU32::new(1), available }
    }

    pub(super) fn next(&self) -> Option<Mark> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.available.then_some(Mark(self.family.0 | u64::from(number)))
    }

    /// Whether a mark was made here.
    pub(super) fn made(&self, mark: Mark) -> bool {
        self.family.has(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_name_the_directory_and_the_attempt() {
        let (here, there) = (Marks::new(Path::new("/a")), Marks::new(Path::new("/b")));
        let (Some(first), Some(second), Some(other)) = (here.next(), here.next(), there.next()) else {
            // A test that runs under such a limit cannot see more.
            assert_ne!(limit_of(0).unwrap().rlim_max, libc::RLIM_INFINITY);
            return;
        };
        assert!(first != second && here.made(first) && here.made(second) && !here.made(other));
        assert!(MarkFamily::of(Path::new("/b")).has(other));
        assert_eq!(first.as_limit().rlim_max, libc::RLIM_INFINITY);
        assert!(Mark::of_process(std::process::id() as i32).is_none_or(|own| !here.made(own)));
    }
}
