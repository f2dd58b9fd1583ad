//! The directories that jobs keep their checkpoints in, and when they go.
//!
//! Whether a job is over for good is not known to a worker, so that a directory is kept for some time after its
//! last use.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The age, since 1970, that the keeper gives to its directories.
const UNTOUCHED: Duration = Duration::from_secs(1);

/// Removes directories that no attempt has used for so long. Returns how many there were.
pub(crate) fn sweep(folder: &Path, keep: Duration, in_use: &HashSet<String>, now: SystemTime) -> usize {
    let mut removed = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let used = entry.file_name().to_str().is_some_and(|name| in_use.contains(name));
        if used || !is_older(&entry.path(), keep, now) {
            continue;
        }
        match remove(&entry.path()) {
            Ok(()) => removed += 1,
            Err(error) => {
                tracing::warn!(path = %entry.path().display(), error = %error, "cannot remove old checkpoints");
            }
        }
    }
    removed
}

/// An age that cannot be told is no age. A time just after 1970 marks a directory of the keeper that nobody has changed: it is
/// empty, and may just have become the one of a job.
fn is_older(path: &Path, keep: Duration, now: SystemTime) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|entry| entry.modified());
    let is_old = |modified: SystemTime| now.duration_since(modified).is_ok_and(|age| age > keep);
    modified.is_ok_and(|modified| modified > SystemTime::UNIX_EPOCH + UNTOUCHED && is_old(modified))
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_lately_or_is_in_use_stays() {
        let root = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(86_400);
        let now = SystemTime::now();
        for (name, age) in [("old", 8), ("young", 6), ("held", 30)] {
            let path = root.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("weights"), "1").unwrap();
            fs::File::open(&path).unwrap().set_modified(now - day * age).unwrap();
        }
        assert_eq!(sweep(root.path(), day * 7, &HashSet::from(["held".to_owned()]), now), 1);
        let left = |name: &str| root.path().join(name).join("weights").exists();
        assert!(!left("old") && left("young") && left("held"));
        assert_eq!(sweep(&root.path().join("nowhere"), day, &HashSet::new(), now), 0);
    }
}
