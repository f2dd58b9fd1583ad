//! The keeper's socket in the data directory.
//!
//! Guarantee: it works however long the path of the data directory is, although the address of a Unix
//! socket has room for little more than a hundred bytes.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const NAME: &str = "keeper.sock";
/// Where sessions with attempts begin.
const TERMINALS: &str = "terminals.sock";
/// `sun_path` has 108 bytes, one of them for the end.
const LONGEST_ADDRESS: usize = 107;

/// Where the keeper of a data directory listens.
pub fn socket_path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Where the keeper of a data directory waits for sessions with its attempts.
pub(super) fn terminals_path(directory: &Path) -> PathBuf {
    directory.join(TERMINALS)
}

/// Connects to the keeper of a data directory, if one listens there.
pub fn connect(directory: &Path) -> io::Result<UnixStream> {
    with_address(directory, NAME, |address| UnixStream::connect(address))
}

/// Begins a session with an attempt.
pub fn connect_terminals(directory: &Path) -> io::Result<UnixStream> {
    with_address(directory, TERMINALS, |address| UnixStream::connect(address))
}

/// Listens in a data directory. The caller holds the directory's lock, so what is there is a leftover.
pub(super) fn listen(directory: &Path) -> io::Result<UnixListener> {
    listen_at(directory, NAME)
}

/// The same for sessions with attempts.
pub(super) fn listen_for_terminals(directory: &Path) -> io::Result<UnixListener> {
    listen_at(directory, TERMINALS)
}

fn listen_at(directory: &Path, name: &str) -> io::Result<UnixListener> {
    let path = directory.join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_address(directory, name, |address| UnixListener::bind(address))?;
    // Whoever can talk to the keeper can run programs as this user.
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// A long path is reached through the directory's descriptor, whose own path is short.
fn with_address<T>(
    directory: &Path,
    name: &str,
    use_it: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let path = directory.join(name);
    if path.as_os_str().len() <= LONGEST_ADDRESS {
        return use_it(&path);
    }
    let handle = File::open(directory)?;
    use_it(Path::new(&format!("/proc/self/fd/{}/{name}", handle.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_directory_is_no_obstacle() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("d".repeat(90)).join("e".repeat(90));
        std::fs::create_dir_all(&directory).unwrap();
        let listener = listen(&directory).unwrap();
        let _stream = connect(&directory).unwrap();
        listener.accept().unwrap();
        drop(listen(&directory).unwrap());
    }
}
