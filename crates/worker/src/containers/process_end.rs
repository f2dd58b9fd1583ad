//! The end of a process of somebody else.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::keeper::process_handle;

/// A handle that can be read from once the process has ended that has this number now.
pub(super) fn watch_end(pid: i32) -> io::Result<AsyncFd<OwnedFd>> {
    let handle = process_handle(pid).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    #[expect(unsafe_code, reason = "the library asks for a promise about the descriptor")]
    // SAFETY: the descriptor is owned by what it is given to, and stays the same as long as that lives.
    let watched = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
    watched.map_err(io::Error::from)
}
