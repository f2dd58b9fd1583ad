//! Pseudo-terminals: a pair of which a process has one end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use muster_protocol::TerminalSize;
use nix::fcntl::OFlag;
use nix::libc;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

/// Makes a pair: our end, which never blocks, and that of a process.
pub(super) fn open(size: TerminalSize) -> io::Result<(File, File)> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let ours = posix_openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname_r(&ours)?;
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(name)?;
    let ours = File::from(OwnedFd::from(ours));
    resize(&ours, size)?;
    Ok((ours, theirs))
}

/// Sets the size; the system tells the processes that the terminal is in front of.
pub(super) fn resize(terminal: &File, size: TerminalSize) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    #[expect(unsafe_code, reason = "the safe wrappers offer no sizes of terminals")]
    // SAFETY: the call reads the structure, and the descriptor is open.
    let set = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
