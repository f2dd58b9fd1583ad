//! A `/tmp` and a `/var/tmp` for each attempt: empty at its start, seen by nobody else, removed at its end.
//!
//! Guarantees: an attempt that is to have them has them, or does not start; what a keeper that was killed has left is removed
//! before the next one starts an attempt.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::spawn::{self, Plan};
use super::user_namespace;
use super::view::View;

/// The folder in the data directory.
const FOLDER: &str = "private-tmp";
/// As `/tmp` is: everybody may write, and remove what is theirs.
const OPEN_TO_ALL: u32 = 0o1777;
/// What an attempt sees its own of.
pub(crate) const PLACES: [&str; 2] = ["/tmp", "/var/tmp"];

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// By what right directories are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivateTmp {
    /// The worker may mount.
    Mounts,
    /// Each attempt is in a user namespace, in which it has the same user.
    UserNamespace,
}

/// The two directories of one attempt.
#[derive(Debug)]
pub(super) struct AttemptTmp {
    directory: PathBuf,
    tmp: CString,
    var_tmp: CString,
    user: Option<&'static File>,
}

impl AttemptTmp {
    pub(super) fn make(data_dir: &Path, by: PrivateTmp) -> io::Result<Self> {
        let user = (by == PrivateTmp::UserNamespace).then(user_namespace::own).transpose()?;
        let number = SERIAL.fetch_add(1, Ordering::Relaxed);
        let directory = data_dir.join(FOLDER).join(format!("{}.{number}", std::process::id()));
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let place = |name: &str| {
            let path = directory.join(name);
            fs::create_dir(&path)?;
            // Whatever the umask is.
            fs::set_permissions(&path, Permissions::from_mode(OPEN_TO_ALL))?;
            CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
        };
        let (tmp, var_tmp) = (place("tmp")?, place("var-tmp")?);
        Ok(Self { directory, tmp, var_tmp, user })
    }

    pub(super) fn view(&self) -> View<'_> {
        View::OwnTmp { tmp: &self.tmp, var_tmp: &self.var_tmp, user: self.user }
    }
}

impl Drop for AttemptTmp {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("keeper: {} cannot be removed: {error}", self.directory.display());
        }
    }
}

/// Removes what attempts of keepers that are gone have left.
pub(crate) fn remove_leftovers(data_dir: &Path) {
    for entry in fs::read_dir(data_dir.join(FOLDER)).into_iter().flatten().flatten() {
        if let Err(error) = fs::remove_dir_all(entry.path()) {
            eprintln!("{} cannot be removed: {error}", entry.path().display());
        }
    }
}

/// Finds out by what right attempts can have directories of their own; an error says why they cannot.
pub(crate) fn choose(data_dir: &Path) -> Result<PrivateTmp, String> {
    let real = fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let hidden = |place: &&str| real.starts_with(fs::canonicalize(place).unwrap_or_else(|_| place.into()));
    if let Some(place) = PLACES.into_iter().find(hidden) {
        let path = data_dir.display();
        return Err(format!(
            "the data directory {path} lies in {place}, where no job would find it; use another --data-dir"
        ));
    }
    let mut reasons = Vec::new();
    for (by, name) in [(PrivateTmp::Mounts, "mounts"), (PrivateTmp::UserNamespace, "user namespaces")] {
        match try_out(data_dir, by) {
            Ok(()) => return Ok(by),
            Err(error) => reasons.push(format!("{name}: {error}")),
        }
    }
    Err(format!("the system does not let the worker mount directories for its jobs ({})", reasons.join("; ")))
}

/// Makes a process that sees its own directories and has no program.
fn try_out(data_dir: &Path, by: PrivateTmp) -> io::Result<()> {
    let own = AttemptTmp::make(data_dir, by)?;
    let nothing = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    let stdio = [&nothing, &nothing, &nothing].map(std::os::fd::AsFd::as_fd);
    let plan = Plan {
        program: c"",
        argv: &[],
        env: &[],
        directory: c"/",
        stdio,
        mark: None,
        group: None,
        terminal: false,
        no_new_privileges: true,
        user: None,
        expendable: false,
        view: Some(own.view()),
    };
    match spawn::spawn(&plan) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_open_to_all_and_go_with_the_attempt() {
        let root = tempfile::tempdir().unwrap();
        let one = AttemptTmp::make(root.path(), PrivateTmp::Mounts).unwrap();
        let other = AttemptTmp::make(root.path(), PrivateTmp::Mounts).unwrap();
        assert_ne!(one.directory, other.directory);
        let mode = fs::metadata(one.directory.join("tmp")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, OPEN_TO_ALL);
        fs::write(one.directory.join("var-tmp/x"), "x").unwrap();
        let gone = one.directory.clone();
        drop(one);
        assert!(!gone.exists() && other.directory.exists());
        std::mem::forget(other);
        remove_leftovers(root.path());
        assert_eq!(fs::read_dir(root.path().join(FOLDER)).unwrap().count(), 0);
    }

    #[test]
    fn a_data_directory_that_jobs_would_not_find_is_refused() {
        let root = tempfile::tempdir_in("/tmp").unwrap();
        let why = choose(root.path()).unwrap_err();
        assert!(why.contains("/tmp") && why.contains("--data-dir"), "{why}");
    }
}
