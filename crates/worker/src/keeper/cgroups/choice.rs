//! Which form of isolation can be had here, and why not a better one.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use super::super::former::KEEPER_NAME;
use super::files::{deepest_first, processes, write};
use super::hierarchies::{Hierarchies, OwnGroup};
use super::{Isolation, IsolationForm, IsolationMode, NAME, Tree};
use crate::attempt_files::fingerprint;

/// Where the worker itself goes in the second form: a group with limits below it must be empty. The name is one that a
/// unit of systemd can give (`DelegateSubgroup=muster-worker`).
const WORKER_LEAF: &str = "muster-worker";
/// What is needed of the second form.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];
/// What is used of the second form where it is there.
const WELCOME: &str = "io";
/// What is needed of the first form, each in its hierarchy. Every attempt goes into the first, those that ask for cores
/// into all of them.
const HIERARCHIES: [&str; 4] = ["pids", "memory", "cpuacct", "cpu"];

/// What was chosen, and why nothing better.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pub isolation: Isolation,
    /// What stands in the way of a better form; empty when there is none.
    pub why: String,
}

/// Finds the best form that the mode allows. An error says why the form that was asked for cannot be had.
pub fn choose(mode: IsolationMode, data_dir: &Path) -> Result<Choice, String> {
    let name = group_name(data_dir);
    let found = || Hierarchies::read().map_err(|error| format!("the control groups cannot be read: {error}"));
    match mode {
        IsolationMode::Exactly(IsolationForm::None) => Ok(Choice::default()),
        IsolationMode::Exactly(IsolationForm::CgroupV2) => {
            Ok(chosen(second(&found()?, &name)?, String::new()))
        }
        IsolationMode::Exactly(IsolationForm::CgroupV1) => {
            Ok(chosen(first(&found()?, &name)?, String::new()))
        }
        IsolationMode::Auto => Ok(best(found(), &name)),
    }
}

fn best(found: Result<Hierarchies, String>, name: &str) -> Choice {
    let found = match found {
        Ok(found) => found,
        Err(why) => return Choice { why, ..Choice::default() },
    };
    let why_not_second = match second(&found, name) {
        Ok(isolation) => return chosen(isolation, String::new()),
        Err(why) => why,
    };
    match first(&found, name) {
        Ok(isolation) => chosen(isolation, why_not_second),
        Err(why) => Choice { why: format!("{why_not_second}; {why}"), ..Choice::default() },
    }
}

fn chosen(isolation: Isolation, why: String) -> Choice {
    Choice { isolation, why }
}

/// The groups of a data directory have one name, so that what a keeper has left is found again.
fn group_name(data_dir: &Path) -> String {
    format!("{NAME}{:016x}", fingerprint(data_dir.as_os_str().as_encoded_bytes()))
}

fn first(found: &Hierarchies, name: &str) -> Result<Isolation, String> {
    let mut trees: Vec<Tree> = Vec::new();
    for controller in HIERARCHIES {
        let Some((controllers, own)) = found.of(controller) else {
            return Err(format!("cgroup v1: the hierarchy of {controller} is not mounted"));
        };
        let path = own.join(name);
        if trees.iter().any(|tree| tree.path == path) {
            continue;
        }
        probe(&path)
            .map_err(|error| format!("cgroup v1: no group can be made in {}: {error}", own.display()))?;
        trees.push(Tree { controllers: controllers.clone(), path });
    }
    Ok(Isolation { form: IsolationForm::CgroupV1, trees, ..Isolation::default() })
}

/// The group of the worker in one more hierarchy of the first form.
pub(super) fn first_hierarchy(controller: &str, name: &OsStr) -> Result<Tree, String> {
    let found = Hierarchies::read().map_err(|error| format!("the control groups cannot be read: {error}"))?;
    let Some((controllers, own)) = found.of(controller) else {
        return Err(format!("cgroup v1: the hierarchy of {controller} is not mounted"));
    };
    let path = own.join(name);
    probe(&path).map_err(|error| format!("cgroup v1: no group can be made in {}: {error}", own.display()))?;
    Ok(Tree { controllers: controllers.clone(), path })
}

fn second(found: &Hierarchies, name: &str) -> Result<Isolation, String> {
    let own = found.unified.as_ref().ok_or("cgroup v2: it is not mounted")?;
    let base = match own.path.parent() {
        Some(parent) if own.path.ends_with(WORKER_LEAF) => parent.to_owned(),
        _ => own.path.clone(),
    };
    let there = fs::read_to_string(base.join("cgroup.controllers")).unwrap_or_default();
    let has = |controller: &str| there.split_whitespace().any(|known| known == controller);
    if let Some(missing) = CONTROLLERS.into_iter().find(|controller| !has(controller)) {
        return Err(format!("cgroup v2: there is no controller for {missing} in {}", base.display()));
    }
    let path = base.join(name);
    probe(&path)
        .map_err(|error| format!("cgroup v2: no group can be made in {}: {error}", base.display()))?;
    hand_down(&base, own).map_err(|error| {
        let hint = "let the worker have a group of its own, such as by systemd-run -p Delegate=yes";
        format!("cgroup v2: the controllers of {} cannot be used below it: {error} ({hint})", base.display())
    })?;
    if has(WELCOME) {
        // Without it input and output are counted by process.
        let _ = write(&base.join("cgroup.subtree_control"), &format!("+{WELCOME}"));
    }
    let controllers = CONTROLLERS.map(str::to_owned).to_vec();
    let tree = Tree { controllers, path };
    Ok(Isolation { form: IsolationForm::CgroupV2, trees: vec![tree], ..Isolation::default() })
}

/// Whether a group can be made. Keepers add their number to the name. Beside it go the empty groups of keepers that are
/// gone and whose data directory nobody has used since.
fn probe(path: &Path) -> io::Result<()> {
    let (Some(base), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if entry.file_name().to_str().and_then(keeper_of).is_some_and(|pid| !is_keeper(pid)) {
            // The system refuses to remove one that has somebody in it.
            for group in deepest_first(&entry.path()) {
                let _ = fs::remove_dir(group);
            }
        }
    }
    let mut probe = name.to_owned();
    probe.push(format!("-probe-{}", std::process::id()));
    let probe = base.join(probe);
    fs::create_dir(&probe)?;
    fs::remove_dir(probe)
}

/// The number of the keeper that a group belongs to: `muster-0123456789abcdef.4711`.
fn keeper_of(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.split_once('.')?.1.parse().ok()
}

fn is_keeper(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().as_bytes() == KEEPER_NAME.to_bytes()
}

/// Lets groups below this one have controllers. Unless it is the root of all, no process may be in it then: the worker
/// goes into a leaf, and in a container, whose group is its own, everybody else goes there too.
fn hand_down(base: &Path, own: &OwnGroup) -> io::Result<()> {
    let wanted: Vec<String> = CONTROLLERS.iter().map(|controller| format!("+{controller}")).collect();
    let control = base.join("cgroup.subtree_control");
    let is_root_of_all = !base.join("cgroup.type").exists();
    if !is_root_of_all {
        let leaf = base.join(WORKER_LEAF);
        match fs::create_dir(&leaf) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let myself = i32::try_from(std::process::id()).unwrap_or_default();
        let all = if own.is_top { processes(base) } else { Vec::new() };
        for pid in all.into_iter().filter(|pid| *pid != myself) {
            // One that has ended in the meantime need not be moved.
            let _ = write(&leaf.join("cgroup.procs"), &pid.to_string());
        }
        if own.path != leaf {
            write(&leaf.join("cgroup.procs"), &myself.to_string())?;
        }
    }
    let handed = write(&control, &wanted.join(" "));
    if handed.is_err() && !is_root_of_all && own.path == base {
        // Back to where it was. A leaf that is empty is of no use.
        let _ = write(&base.join("cgroup.procs"), &std::process::id().to_string());
        let _ = fs::remove_dir(base.join(WORKER_LEAF));
    }
    handed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_hierarchy_without_controllers_is_not_taken_and_the_reason_says_which() {
        let root = directory();
        fs::write(root.path().join("cgroup.controllers"), "cpu pids\n").unwrap();
        let unified = Some(OwnGroup { path: root.path().to_owned(), is_top: true });
        let found = Hierarchies { unified, separate: Vec::new() };
        let choice = best(Ok(found), "muster-1");
        assert_eq!(choice.isolation.form, IsolationForm::None);
        assert!(choice.why.contains("no controller for memory"), "{}", choice.why);
        assert!(choice.why.contains("is not mounted"), "{}", choice.why);
    }

    #[test]
    fn hierarchies_that_share_a_place_get_one_group() {
        let (both, memory, pids) = (directory(), directory(), directory());
        let separate = vec![
            (vec!["cpu".to_owned(), "cpuacct".to_owned()], both.path().to_owned()),
            (vec!["memory".to_owned()], memory.path().to_owned()),
            (vec!["pids".to_owned()], pids.path().to_owned()),
        ];
        let found = Hierarchies { unified: None, separate };
        let choice = best(Ok(found), "muster-1");
        assert_eq!(choice.isolation.form, IsolationForm::CgroupV1);
        assert_eq!(choice.isolation.trees.len(), 3);
        assert!(choice.why.contains("cgroup v2: it is not mounted"), "{}", choice.why);
        assert_eq!(fs::read_dir(both.path()).unwrap().count(), 0, "nothing is made yet");
    }

    #[test]
    fn groups_of_keepers_that_are_gone_are_removed() {
        let root = directory();
        let names = ["muster-1.4294967295/slot-0.0", "muster-1", "muster-x.y", "other.4294967295"];
        for name in names {
            fs::create_dir_all(root.path().join(name)).unwrap();
        }
        probe(&root.path().join("muster-2")).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["muster-1", "muster-x.y", "other.4294967295"]);
    }

    #[test]
    fn a_form_that_cannot_be_had_is_an_error() {
        let nowhere = Hierarchies::default();
        assert!(first(&nowhere, "x").unwrap_err().contains("not mounted"));
        assert!(second(&nowhere, "x").unwrap_err().contains("not mounted"));
        let none = choose(IsolationMode::Exactly(IsolationForm::None), Path::new("/d")).unwrap();
        assert_eq!(none, Choice::default());
    }
}
