//! What lies in a directory of artifacts: plain files by name, and what cannot be kept, with the reason.
//!
//! Guarantee: nothing outside of the directory is ever opened; no more files are named than may be kept.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifact_patterns::{leads, matches};
use crate::job_user::{JobUser, acting_as, open_plain};
use crate::launch::WantedFiles;

/// Files of one attempt.
pub(super) const MOST_FILES: usize = 10_000;
/// Files of which it is said one by one why they are missing.
const MOST_REFUSED: usize = 100;
const DEEPEST: usize = 64;
/// The longest name, in bytes.
const LONGEST_NAME: usize = 1024;
/// The name of what is said about the directory as a whole.
pub(super) const WHOLE: &str = "MUSTER_ARTIFACTS";

/// A file that is to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// Bytes, as they were when it was found.
    pub(super) size: u64,
    /// Whose it is, where that is not the worker's user.
    pub(super) user: Option<Arc<JobUser>>,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) files: Vec<Found>,
    /// Names, and why they cannot be kept.
    pub(super) refused: Vec<(String, String)>,
    /// Files beyond those that are named above.
    pub(super) beyond: usize,
    /// What the names have to match, which of that was found, and names that are taken.
    patterns: Vec<String>,
    matched: Vec<bool>,
    taken: HashSet<String>,
    user: Option<Arc<JobUser>>,
}

/// By what a change of a file is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) size: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Look {
    pub(super) fn at(found: &Metadata) -> Self {
        Self {
            size: found.len(),
            inode: found.ino(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

/// Opens a plain file. A link was followed by the scan already; what has come in its place since is not.
pub(super) fn open(found: &Found) -> io::Result<(File, Look)> {
    let file = acting_as(found.user.as_deref(), || open_plain(&found.path))?;
    let look = Look::at(&file.metadata()?);
    Ok((file, look))
}

/// Where files are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// All of its files are kept; empty where the attempt left none.
    pub(super) artifacts: PathBuf,
    /// Of these directories those that match.
    pub(super) wanted: Option<WantedFiles>,
    /// Whose the files are, where that is not the worker's user.
    pub(super) user: Option<Arc<JobUser>>,
}

/// Looks through all places. Of two files of one name the one among the artifacts is kept.
pub(super) fn scan_all(places: &Places) -> Scan {
    let scanned = acting_as(places.user.as_deref(), || Ok(scan_places(places)));
    scanned.unwrap_or_else(|error| {
        let mut scan = Scan::default();
        scan.refuse(WHOLE, &error.to_string());
        scan
    })
}

fn scan_places(places: &Places) -> Scan {
    let mut scan = Scan { user: places.user.clone(), ..Scan::default() };
    if !places.artifacts.as_os_str().is_empty() {
        scan.look_through(&places.artifacts);
    }
    let Some(wanted) = &places.wanted else { return scan };
    scan.patterns.clone_from(&wanted.patterns);
    scan.matched = vec![false; wanted.patterns.len()];
    scan.taken = scan.files.iter().map(|file| file.name.clone()).collect();
    if let Ok(real) = wanted.directory.canonicalize() {
        scan.enter(&real, &wanted.directory, "", 0);
    }
    for (pattern, matched) in wanted.patterns.iter().zip(scan.matched.clone()) {
        if !matched {
            scan.refuse(pattern, "no file of the working directory matches");
        }
    }
    scan
}

impl Scan {
    /// Looks through a directory.
    fn look_through(&mut self, root: &Path) {
        match (fs::symlink_metadata(root), root.canonicalize()) {
            (Ok(found), Ok(real)) if found.is_dir() => self.enter(&real, root, "", 0),
            // Nothing is there: the job has removed it, or it was kept before this agent started.
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => {}
            _ => self.refuse(WHOLE, "it is no directory any more"),
        }
    }

    fn refuse(&mut self, name: &str, why: &str) {
        if self.refused.len() < MOST_REFUSED {
            self.refused.push((printable(name), why.to_owned()));
        } else {
            self.beyond += 1;
        }
    }

    /// `at` is the name of the directory, with a slash behind it.
    fn enter(&mut self, root: &Path, directory: &Path, at: &str, depth: usize) {
        let whole = || if at.is_empty() { WHOLE.to_owned() } else { at.trim_end_matches('/').to_owned() };
        let mut entries: Vec<fs::DirEntry> = match fs::read_dir(directory) {
            Ok(entries) => entries.flatten().collect(),
            Err(error) => return self.refuse(&whole(), &format!("the directory cannot be read: {error}")),
        };
        if depth > DEEPEST {
            return self.refuse(&whole(), "directories lie in each other too deep");
        }
        entries.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let Ok(file_name) = entry.file_name().into_string() else {
                if !self.patterns.is_empty() {
                    continue;
                }
                let shown = format!("{at}{}", entry.file_name().to_string_lossy());
                self.refuse(&shown, "the name is no UTF-8");
                continue;
            };
            let name = format!("{at}{file_name}");
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !self.wants(&name, is_folder) {
                continue;
            }
            if name.len() > LONGEST_NAME {
                self.refuse(&name, "the name has more than 1024 bytes");
            } else if file_name.chars().any(char::is_control) {
                self.refuse(&name, "the name has a control character");
            } else {
                self.look(root, &entry.path(), name, depth);
            }
        }
    }

    /// Whether a file, or files of a folder, can be meant.
    fn wants(&mut self, name: &str, is_folder: bool) -> bool {
        if self.patterns.is_empty() {
            return true;
        }
        if is_folder {
            return self.patterns.iter().any(|pattern| leads(pattern, name));
        }
        let mut wanted = false;
        for (pattern, matched) in self.patterns.iter().zip(&mut self.matched) {
            if matches(pattern, name) {
                (wanted, *matched) = (true, true);
            }
        }
        wanted
    }

    fn look(&mut self, root: &Path, path: &Path, name: String, depth: usize) {
        let kind = match fs::symlink_metadata(path) {
            Ok(found) => found.file_type(),
            Err(error) => return self.refuse(&name, &format!("it cannot be looked at: {error}")),
        };
        if kind.is_dir() {
            self.enter(root, path, &format!("{name}/"), depth + 1);
        } else if kind.is_file() {
            self.add(name, path.to_owned());
        } else if kind.is_symlink() {
            self.follow(root, path, name);
        } else if kind.is_socket() {
            self.refuse(&name, "it is a socket");
        } else if kind.is_fifo() {
            self.refuse(&name, "it is a pipe");
        } else {
            self.refuse(&name, "it is a device");
        }
    }

    /// A link to a file inside counts as the file; one that leads out is refused, whatever is there.
    fn follow(&mut self, root: &Path, path: &Path, name: String) {
        let Ok(target) = path.canonicalize() else {
            return self.refuse(&name, "it is a link that leads nowhere");
        };
        if !target.starts_with(root) {
            return self.refuse(&name, "it is a link that leads out of the directory");
        }
        match fs::symlink_metadata(&target) {
            Ok(found) if found.is_file() => self.add(name, target),
            _ => self.refuse(&name, "it is a link to something that is no file"),
        }
    }

    fn add(&mut self, name: String, path: PathBuf) {
        if self.taken.contains(&name) {
            return self.refuse(&name, "a file of $MUSTER_ARTIFACTS has the same name");
        }
        if self.files.len() < MOST_FILES {
            let size = fs::symlink_metadata(&path).map_or(0, |found| found.len());
            self.files.push(Found { name, path, size, user: self.user.clone() });
        } else {
            self.beyond += 1;
        }
    }
}

/// A name that can be written down, whatever the job called its file.
fn printable(name: &str) -> String {
    let mut shown: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let mut end = shown.len().min(200);
    while !shown.is_char_boundary(end) {
        end -= 1;
    }
    shown.truncate(end);
    shown.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn scan(root: &Path) -> Scan {
        scan_all(&Places { artifacts: root.to_owned(), ..Places::default() })
    }

    fn found(path: PathBuf) -> Found {
        Found { name: String::new(), path, size: 0, user: None }
    }

    #[test]
    fn plain_files_are_found_and_all_else_is_named_with_the_reason() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("room");
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::write(outer.path().join("secret"), "s").unwrap();
        fs::write(root.join("a.txt"), "a").unwrap();
        fs::write(root.join("sub/deep/b"), "").unwrap();
        symlink("a.txt", root.join("inside")).unwrap();
        symlink("../secret", root.join("outside")).unwrap();
        symlink("/etc/passwd", root.join("absolute")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("sub", root.join("to-directory")).unwrap();
        symlink("..", root.join("sub/up")).unwrap();
        nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = UnixListener::bind(root.join("socket")).unwrap();
        fs::write(root.join(OsStr::from_bytes(b"\xff\xfe")), "x").unwrap();
        fs::write(root.join("line\nbreak"), "x").unwrap();
        let found = scan(&root);
        let names: Vec<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.txt", "inside", "sub/deep/b"]);
        let why =
            |name: &str| found.refused.iter().find(|(known, _)| known == name).map(|(_, why)| why.as_str());
        for name in ["outside", "absolute"] {
            assert_eq!(why(name), Some("it is a link that leads out of the directory"), "{name}");
        }
        assert_eq!(why("dangling"), Some("it is a link that leads nowhere"));
        assert_eq!(why("to-directory"), Some("it is a link to something that is no file"));
        assert_eq!(why("sub/up"), Some("it is a link to something that is no file"));
        assert_eq!((why("pipe"), why("socket")), (Some("it is a pipe"), Some("it is a socket")));
        assert_eq!(why("\u{fffd}\u{fffd}"), Some("the name is no UTF-8"));
        assert_eq!(why("line\u{fffd}break"), Some("the name has a control character"));
        assert_eq!(found.refused.len(), 9, "{:?}", found.refused);
        assert_eq!(scan(&outer.path().join("none")), Scan::default());
        assert_eq!(scan(&root.join("a.txt")).refused.len(), 1);
    }

    #[test]
    fn patterns_choose_files_of_the_working_directory_and_nothing_outside() {
        let outer = tempfile::tempdir().unwrap();
        let (root, kept) = (outer.path().join("work"), outer.path().join("kept"));
        fs::create_dir_all(root.join("out/deep")).unwrap();
        fs::create_dir_all(kept.join("out")).unwrap();
        for name in ["out/a.pt", "out/b.txt", "out/deep/c.pt", "d.pt"] {
            fs::write(root.join(name), name).unwrap();
        }
        fs::write(kept.join("out/a.pt"), "kept").unwrap();
        fs::write(outer.path().join("secret.pt"), "s").unwrap();
        symlink("../../secret.pt", root.join("out/link.pt")).unwrap();
        symlink("../..", root.join("out/up")).unwrap();
        let wanted = |patterns: &[&str]| WantedFiles {
            directory: root.clone(),
            patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        };
        let places = |artifacts: &Path, patterns| Places {
            artifacts: artifacts.to_owned(),
            wanted: Some(wanted(patterns)),
            user: None,
        };
        let found = scan_all(&places(&kept, &["out/**/*.pt", "*.csv"]));
        let names: Vec<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["out/a.pt", "out/deep/c.pt"]);
        assert!(found.files[0].path.starts_with(&kept), "{found:?}");
        let why =
            |name: &str| found.refused.iter().find(|(known, _)| known == name).map(|(_, why)| why.as_str());
        assert_eq!(why("out/link.pt"), Some("it is a link that leads out of the directory"));
        assert_eq!(why("out/a.pt"), Some("a file of $MUSTER_ARTIFACTS has the same name"));
        assert_eq!(why("*.csv"), Some("no file of the working directory matches"));
        assert_eq!(found.refused.len(), 3);
        let all = scan_all(&places(Path::new(""), &["**"]));
        assert_eq!(all.files.len(), 4, "{all:?}");
    }

    #[test]
    fn what_is_opened_is_a_plain_file_and_a_change_is_seen() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        fs::write(&path, "one").unwrap();
        let (file, before) = open(&found(path.clone())).unwrap();
        assert_eq!(before, Look::at(&file.metadata().unwrap()));
        fs::write(&path, "two!").unwrap();
        assert_ne!(before, Look::at(&file.metadata().unwrap()));
        symlink("a", root.path().join("link")).unwrap();
        assert!(open(&found(root.path().join("link"))).is_err());
    }
}
