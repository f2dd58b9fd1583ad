//! Free loopback ports that no other test process is handed at the same time.
//!
//! The ports lie below the range from which the kernel takes source ports: a client that retries against a
//! stopped server on a port of that range can end up connected to itself. They lie below those that workers
//! keep for gangs, too.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 10_000;
const COUNT: u32 = 10_000;

/// A port that stays ours, also while nothing listens on it, until this value is dropped.
#[derive(Debug)]
pub struct PortLease {
    port: u16,
    /// Locked for as long as the lease lives; the kernel unlocks it when the process ends.
    _lock: File,
}

impl PortLease {
    /// Takes a port on which nothing listens and which no other holder of a lease has.
    pub fn take() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let start = std::process::id().wrapping_mul(7919);
        for _ in 0..COUNT {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let port = (FIRST + start.wrapping_add(step) % COUNT) as u16;
            let Some(lock) = lock(port) else { continue };
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                return Self { port, _lock: lock };
            }
        }
        panic!("no free port between {FIRST} and {}", FIRST + COUNT);
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

fn lock(port: u16) -> Option<File> {
    // One directory for each user: the files of another could not be opened.
    let directory = std::env::temp_dir().join(format!("muster-test-ports-{}", nix::unistd::geteuid()));
    fs::create_dir_all(&directory).expect("the temporary directory is writable");
    let path = directory.join(port.to_string());
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).ok()?;
    file.try_lock().ok()?;
    Some(file)
}
