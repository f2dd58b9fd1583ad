//! The keeper, as its runner sees it: the process that started it, and that its container must not outlive.
//!
//! A runner that died with the keeper would leave its container to the guard, and nobody ends it if that was killed too. So it lives on,
//! ends the container, and ends then.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::prctl;
use nix::unistd::getppid;
use tokio::io::unix::AsyncFd;

use crate::containers::process_end::watch_end;

/// Watches the keeper from now on.
#[derive(Debug)]
pub(super) struct KeeperWatch {
    /// Where the system knows no handles of processes there is none, and this process dies with the keeper.
    handle: Option<AsyncFd<OwnedFd>>,
}

impl KeeperWatch {
    /// No longer dies with the keeper. Needs a runtime.
    pub(super) fn begin() -> io::Result<Self> {
        // As long as the signal is set, this is the keeper: we would be dead with it.
        let keeper = getppid();
        let handle = watch_end(keeper.as_raw()).ok();
        if handle.is_some() {
            prctl::set_pdeathsig(None)?;
        }
        Ok(Self { handle })
    }

    /// Waits until the keeper is gone.
    pub(super) async fn gone(&self) {
        match &self.handle {
            // What cannot be waited for counts as gone: a container must not go on without anybody.
            Some(handle) => drop(handle.readable().await),
            None => std::future::pending().await,
        }
    }
}
