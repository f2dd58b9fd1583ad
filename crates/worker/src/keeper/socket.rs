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
/// `sun_path` has 108 bytes, one of them for the end.
const LONGEST_ADDRESS: usize = 107;

/// Where the keeper of a data directory listens.
pub fn socket_path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// Connects to the keeper of a data directory, if one listens there.
pub fn connect(directory: &Path) -> io::Result<UnixStream> {
    with_address(directory, |address| UnixStream::connect(address))
}

/// Listens in a data directory. The caller holds the directory's lock, so what is there is a leftover.
pub(super) fn listen(directory: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(socket_path(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_address(directory, |address| UnixListener::bind(address))?;
    // Whoever can talk to the keeper can run programs as this user.
    std::fs::set_permissions(socket_path(directory), Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// A long path is reached through the directory's descriptor, whose own path is short.
fn with_address<T>(directory: &Path, use_it: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let path = socket_path(directory);
    if path.as_os_str().len() <= LONGEST_ADDRESS {
        return use_it(&path);
    }
    let handle = File::open(directory)?;
    use_it(Path::new(&format!("/proc/self/fd/{}/{NAME}", handle.as_raw_fd())))
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
