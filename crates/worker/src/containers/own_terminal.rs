//! The terminal that a process of ours runs in for a container: every byte is passed on, and the container's own terminal makes of
//! it what terminals make of bytes.
//!
//! Guarantee: nothing typed is echoed, turned into a signal or kept back here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::OpenOptionsExt as _;

use nix::libc;
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::unix::OwnedWriteHalf;

/// The engine lets go of a terminal when these are typed, in place of its usual two, which belong to the program. Nobody types them.
pub(super) const NEVER_TYPED: &str = "ctrl-^,ctrl-^,ctrl-^,ctrl-^,ctrl-^,ctrl-^,ctrl-^,ctrl-^,ctrl-^,ctrl-^";
const PIECE: usize = 16 * 1024;

/// Has a terminal pass every byte on as it is. What was typed before keeps the form that it has, so that it must be done first.
pub(crate) fn pass_everything(terminal: impl AsFd) -> io::Result<()> {
    let mut modes = tcgetattr(&terminal)?;
    cfmakeraw(&mut modes);
    Ok(tcsetattr(&terminal, SetArg::TCSANOW, &modes)?)
}

/// The terminal, as somebody who reads from it.
#[derive(Debug)]
pub(super) struct OwnTerminal {
    typed: AsyncFd<File>,
}

impl OwnTerminal {
    /// Takes the terminal behind standard output, which becomes that of the session.
    pub(super) fn take() -> io::Result<Self> {
        #[expect(unsafe_code, reason = "the safe wrappers do not offer the terminal of a session")]
        // SAFETY: the call takes two integers. Where the terminal is that of the session already nothing changes.
        let _ = unsafe { libc::ioctl(1, libc::TIOCSCTTY, 0) };
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open("/dev/tty")?;
        pass_everything(&terminal)?;
        #[expect(unsafe_code, reason = "the library asks for a promise about the descriptor")]
        // SAFETY: the file is owned by what it is given to, and stays the same as long as that lives.
        let typed = unsafe { AsyncFd::register_with_interest(terminal, Interest::READABLE) };
        Ok(Self { typed: typed.map_err(io::Error::from)? })
    }

    /// Columns and rows.
    pub(super) fn size(&self) -> Option<(u16, u16)> {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        #[expect(unsafe_code, reason = "the safe wrappers offer no sizes of terminals")]
        // SAFETY: the call writes the structure, and the descriptor is open.
        let asked = unsafe { libc::ioctl(self.typed.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
        (asked == 0 && size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
    }

    /// Passes on what is typed, as long as somebody takes it.
    pub(super) async fn pass_on(&self, mut into: OwnedWriteHalf) {
        while let Ok(typed) = self.read().await {
            if typed.is_empty() || into.write_all(&typed).await.is_err() {
                break;
            }
        }
        // The other direction goes on.
        into.forget();
    }

    /// What was typed next.
    async fn read(&self) -> io::Result<Vec<u8>> {
        self.typed
            .async_io(Interest::READABLE, |mut terminal| {
                let mut piece = vec![0; PIECE];
                let length = io::Read::read(&mut terminal, &mut piece)?;
                piece.truncate(length);
                Ok(piece)
            })
            .await
    }
}
