//! Touching files as a user: the system then allows no more than it would allow that user.
//!
//! The identity that counts for files belongs to a thread, and only this one thread changes it for as long as it works; the
//! others of the process go on as they are. Signals and all else stay as they were.
//!
//! Guarantees: nothing is done where the identity could not be taken on; a thread never goes on under the identity of another.

use std::io;

use nix::libc;

use super::JobUser;

/// Does something with files as a user, or as the worker itself where there is none. It must not wait for other threads.
pub(crate) fn acting_as<T>(user: Option<&JobUser>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let Some(user) = user else { return act() };
    let _identity = Identity::take_on(user)?;
    act()
}

/// The identity that the thread had before.
struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<libc::gid_t>,
}

impl Identity {
    fn take_on(user: &JobUser) -> io::Result<Self> {
        let before = Self { uid: file_uid(None), gid: file_gid(None), groups: own_groups()? };
        let failed = |error: io::Error| {
            io::Error::new(error.kind(), format!("the worker cannot act as the user {}: {error}", user.name))
        };
        // What was taken on is laid down again also where it was not all of it.
        set_groups(&user.groups).map_err(failed)?;
        let refused = || failed(io::Error::from(io::ErrorKind::PermissionDenied));
        if become_for_files(user.uid, user.gid) { Ok(before) } else { Err(refused()) }
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let is_back = become_for_files(self.uid, self.gid) && set_groups(&self.groups).is_ok();
        if !is_back {
            // A thread of the worker must not go on with the rights of somebody else.
            eprintln!("the worker cannot act as itself any more");
            std::process::abort();
        }
    }
}

/// The call answers nothing useful, so that it is asked for what is set.
fn become_for_files(uid: u32, gid: u32) -> bool {
    file_gid(Some(gid));
    file_uid(Some(uid));
    file_gid(None) == gid && file_uid(None) == uid
}

/// Sets the user that counts for files of this thread, if one is given; returns the one that was set before.
fn file_uid(uid: Option<u32>) -> u32 {
    #[expect(unsafe_code, reason = "the safe wrappers do not tell what was set")]
    // SAFETY: the call takes a number and touches no memory. A number that no user has changes nothing.
    let before = unsafe { libc::setfsuid(uid.unwrap_or(u32::MAX)) };
    before.cast_unsigned()
}

/// The same for the group.
fn file_gid(gid: Option<u32>) -> u32 {
    #[expect(unsafe_code, reason = "the safe wrappers do not tell what was set")]
    // SAFETY: as above.
    let before = unsafe { libc::setfsgid(gid.unwrap_or(u32::MAX)) };
    before.cast_unsigned()
}

fn own_groups() -> io::Result<Vec<libc::gid_t>> {
    Ok(nix::unistd::getgroups()?.into_iter().map(nix::unistd::Gid::as_raw).collect())
}

/// The groups of this thread. The C library would set those of all threads.
fn set_groups(groups: &[libc::gid_t]) -> io::Result<()> {
    #[expect(unsafe_code, reason = "the wrappers set the groups of the whole process")]
    // SAFETY: the call reads as many numbers as the slice has.
    let set = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    fn nobody() -> JobUser {
        JobUser {
            name: "somebody".into(),
            uid: 64_123,
            gid: 64_124,
            groups: vec![64_124, 64_125],
            home: "/".into(),
            shell: "/bin/sh".into(),
        }
    }

    /// Root is had wherever the tests run.
    #[test]
    fn a_thread_has_no_more_rights_than_the_user_and_then_its_own_again() {
        assert!(nix::unistd::geteuid().is_root(), "run the tests as root");
        let root = tempfile::tempdir().unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let secret = root.path().join("secret");
        fs::write(&secret, "s").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
        let open = root.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let user = nobody();
        let refused = acting_as(Some(&user), || fs::read(&secret)).unwrap_err();
        assert_eq!(
            refused.kind(),
            io::ErrorKind::PermissionDenied,
            "the groups of root count no more either"
        );
        acting_as(Some(&user), || fs::write(open.join("file"), "x")).unwrap();
        let found = fs::metadata(open.join("file")).unwrap();
        assert_eq!((found.uid(), found.gid()), (64_123, 64_124));
        // A group that is not the first counts as well.
        std::os::unix::fs::chown(&secret, None, Some(64_125)).unwrap();
        let (other, there) = (secret.clone(), user.clone());
        let elsewhere = std::thread::spawn(move || {
            let inside = acting_as(Some(&there), || {
                assert_eq!(fs::read(&other)?, b"s");
                Ok(())
            });
            inside.unwrap();
        });
        elsewhere.join().unwrap();
        assert_eq!(acting_as(None, || fs::read(&secret)).unwrap(), b"s");
        let unwound =
            std::panic::catch_unwind(|| acting_as(Some(&user), || -> io::Result<()> { panic!("x") }));
        assert!(unwound.is_err());
        assert_eq!((file_uid(None), file_gid(None)), (0, 0), "also after a panic");
        assert!(fs::read("/etc/shadow").is_ok());
    }
}
