//! Opening files that a job may have put anything in the place of.
//!
//! Guarantees: nothing waits for the other end of a pipe; a plain file or nothing is read; no file of the worker's own process
//! is reached by the links that the system keeps about it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::libc;
use nix::sys::stat::{Mode, major};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};

/// The major number of `/dev/null` and its like.
const MEMORY_DEVICES: u64 = 1;

/// Opens a plain file to read it. No link is followed at its end.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    let file = open(path, OFlag::O_RDONLY | OFlag::O_NOFOLLOW, Mode::empty())?;
    if is_plain(&file)? { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
}

/// Opens a file of a user to write at its end, and makes it if asked to. Devices such as `/dev/null` will do.
pub(crate) fn open_target(path: &Path, create: bool) -> io::Result<File> {
    let access = if create { OFlag::O_WRONLY | OFlag::O_CREAT } else { OFlag::O_RDWR };
    let file = open(path, access | OFlag::O_APPEND | OFlag::O_NOCTTY, Mode::from_bits_truncate(0o666))?;
    let found = file.metadata()?;
    // No terminal of the worker, though everyone may open what stands for it.
    let is_memory = found.file_type().is_char_device() && major(found.rdev()) == MEMORY_DEVICES;
    if is_memory || is_plain(&file)? { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
}

fn is_plain(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.is_file() && fstatfs(file)?.filesystem_type() != PROC_SUPER_MAGIC)
}

fn open(path: &Path, flags: OFlag, mode: Mode) -> io::Result<File> {
    let flags = flags | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let made = if flags.contains(OFlag::O_CREAT) { mode } else { Mode::empty() };
    let how = OpenHow::new().flags(flags).mode(made).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    match openat2(AT_FDCWD, path, how) {
        Ok(file) => Ok(File::from(file)),
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => {
            let mut options = OpenOptions::new();
            options.read(!flags.intersects(OFlag::O_WRONLY)).append(flags.contains(OFlag::O_APPEND));
            options.create(flags.contains(OFlag::O_CREAT)).mode(mode.bits());
            let rest = flags & !(OFlag::O_CREAT | OFlag::O_APPEND | OFlag::O_ACCMODE);
            options.custom_flags(rest.bits() & !libc::O_CLOEXEC).open(path)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Whether the system can refuse the links about a process.
pub(super) fn is_guarded() -> bool {
    let how = OpenHow::new().flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC);
    openat2(AT_FDCWD, "/", how.resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_but_plain_files_is_read() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::write(path("plain"), "x").unwrap();
        symlink("plain", path("link")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        symlink("/proc/self", path("self")).unwrap();
        assert!(open_plain(&path("plain")).is_ok());
        for wrong in ["link", "pipe", "self/environ", "self/root/etc/passwd", "self/comm", "."] {
            assert!(open_plain(&path(wrong)).is_err(), "{wrong}");
        }
        assert!(is_guarded());
    }

    #[test]
    fn a_target_is_made_and_continued() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        assert!(open_target(&path, false).is_err());
        open_target(&path, true).unwrap().write_all(b"a").unwrap();
        open_target(&path, false).unwrap().write_all(b"b").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"ab");
        let pipe = root.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for wrong in
            ["/proc/self/comm", "/proc/self/fd/1", "/dev/tty", "/dev/ptmx", pipe.to_str().unwrap(), "/"]
        {
            assert!(open_target(Path::new(wrong), true).is_err(), "{wrong}");
        }
        open_target(Path::new("/dev/null"), true).unwrap();
    }
}
