//! Which groups a data directory has, written down before they are made, so that they can be ended and removed when
//! their keeper was killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::signals::ProcessHandle;
use super::files::{deepest_first, processes, write};
use super::{Isolation, NAME};
use crate::data_dir::write_private;
use nix::libc;

/// The file with the paths, one on each line.
const RECORD: &str = "cgroups";
/// How long processes may take to die. One that takes longer hangs in the kernel, and waiting does not help.
const PATIENCE: Duration = Duration::from_secs(10);
const ROUND: Duration = Duration::from_millis(2);

/// Writes down where the groups of a keeper will be.
pub(crate) fn record(data_dir: &Path, isolation: &Isolation) -> io::Result<()> {
    let paths = isolation.trees.iter().map(|tree| tree.path.to_string_lossy().into_owned());
    write_private(&data_dir.join(RECORD), &paths.collect::<Vec<_>>().join("\n"))
}

fn recorded(data_dir: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(data_dir.join(RECORD)).unwrap_or_default();
    let ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        path.is_absolute() && name.is_some_and(|name| name.starts_with(NAME))
    };
    text.lines().map(PathBuf::from).filter(ours).collect()
}

/// Kills, once, everything in the groups of a data directory whose keeper is gone.
pub(crate) fn kill_recorded(data_dir: &Path) {
    for tree in recorded(data_dir) {
        kill_tree(&tree);
    }
}

/// Ends everything in the groups of a data directory whose keeper is gone, and removes them. Returns how many processes
/// there were.
pub(crate) fn remove_recorded(data_dir: &Path) -> usize {
    let trees = recorded(data_dir);
    if trees.is_empty() {
        return 0;
    }
    let found = trees.iter().flat_map(|tree| members(tree)).collect::<std::collections::BTreeSet<_>>().len();
    let begun = Instant::now();
    while trees.iter().any(|tree| !members(tree).is_empty()) && begun.elapsed() < PATIENCE {
        for tree in &trees {
            kill_tree(tree);
        }
        std::thread::sleep(ROUND);
    }
    // The kernel takes a moment to let go of a group whose last process has ended.
    while trees.iter().filter(|tree| !remove_tree(tree)).count() > 0 && begun.elapsed() < PATIENCE {
        std::thread::sleep(ROUND);
    }
    if trees.iter().all(|tree| !tree.exists()) {
        let _ = fs::remove_file(data_dir.join(RECORD));
    }
    found
}

fn members(tree: &Path) -> Vec<i32> {
    deepest_first(tree).iter().flat_map(|group| processes(group)).collect()
}

/// Removes the groups below a directory and the directory; says whether it is gone.
fn remove_tree(tree: &Path) -> bool {
    for group in deepest_first(tree) {
        // One that still has somebody in it is tried again.
        let _ = fs::remove_dir(group);
    }
    !tree.exists()
}

/// Kills everything in a directory of groups and below.
pub(super) fn kill_tree(tree: &Path) {
    if write(&tree.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for group in deepest_first(tree) {
        // A group that may have no more processes can be emptied one by one.
        let _ = write(&group.join("pids.max"), "0");
        kill_listed(&group);
    }
}

/// Kills what a group lists, itself excepted. A number may have become a stranger's since it was read: only what the
/// group still lists after we have taken hold of it is killed.
pub(super) fn kill_listed(group: &Path) {
    let myself = i32::try_from(std::process::id()).unwrap_or_default();
    let held: Vec<_> = processes(group).into_iter().map(|pid| (pid, ProcessHandle::open(pid))).collect();
    if held.is_empty() {
        return;
    }
    let still = processes(group);
    for (pid, handle) in held {
        if pid > 0 && pid != myself && still.contains(&pid) {
            handle.signal(pid, libc::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IsolationForm, Tree};
    use super::*;

    #[test]
    fn only_groups_of_ours_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let tree = root.path().join("muster-1");
        fs::create_dir_all(tree.join("slot-0/below")).unwrap();
        fs::create_dir(root.path().join("other")).unwrap();
        let of = |path: PathBuf| Tree { controllers: Vec::new(), path };
        let trees = vec![of(tree.clone()), of(root.path().join("other")), of("muster-relative".into())];
        let isolation = Isolation { form: IsolationForm::CgroupV1, trees, ..Isolation::default() };
        record(root.path(), &isolation).unwrap();
        assert_eq!(recorded(root.path()), std::slice::from_ref(&tree));
        assert_eq!(remove_recorded(root.path()), 0, "there was no process");
        assert!(!tree.exists() && root.path().join("other").exists());
        assert!(!root.path().join(RECORD).exists());
        assert_eq!(remove_recorded(root.path()), 0);
    }
}
