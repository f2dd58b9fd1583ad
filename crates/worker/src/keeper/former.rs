//! One keeper at a time in a data directory: what an agent does about one that does not answer.
//!
//! Guarantee: a new keeper starts when the one before it and its guard are gone, and with them everything that
//! their jobs have started.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::libc;

use super::host::KEEPER_ARGUMENT;
use super::process_tree::{Process, ProcessTree};

/// What the system calls the keeper. Its guard has the same command line and another name.
pub(super) const KEEPER_NAME: &CStr = c"muster-keeper";
const LOCK_FILE: &str = "keeper.lock";

/// How long a guard may take to end what its keeper has left. One that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(12);
const ROUND: Duration = Duration::from_millis(5);

/// Takes the place of the keeper in a data directory.
pub(super) fn lock(directory: &Path) -> io::Result<Flock<File>> {
    let path = directory.join(LOCK_FILE);
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
        io::Error::other(format!("there is a keeper in {}: {errno}", directory.display()))
    })
}

/// Ends a keeper that cannot be talked to, and waits until it, its guard and all of its processes are gone. Says
/// whether they are.
pub(crate) async fn end_former(directory: &Path) -> bool {
    let begun = Instant::now();
    signal_keepers(directory, |name| name.as_bytes() == KEEPER_NAME.to_bytes());
    while lock(directory).is_err() {
        if begun.elapsed() > 2 * PATIENCE {
            return false;
        }
        if begun.elapsed() > PATIENCE {
            signal_keepers(directory, |_| true);
        }
        tokio::time::sleep(ROUND).await;
    }
    true
}

/// Kills those of the keepers of a directory, and their guards, whose name is meant.
fn signal_keepers(directory: &Path, meant: impl Fn(&str) -> bool) {
    let arguments = [KEEPER_ARGUMENT.as_bytes(), directory.as_os_str().as_bytes()];
    let is_keeper = |process: &Process| {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let name = std::fs::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
        line.split(|byte| *byte == 0).skip(1).take(2).eq(arguments) && meant(name.trim_end())
    };
    for process in ProcessTree::read().into_processes().filter(is_keeper) {
        process.signal(libc::SIGKILL);
    }
}
