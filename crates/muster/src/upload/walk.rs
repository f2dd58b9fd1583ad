//! Finds what of a directory is sent: everything but `.git` and what `.gitignore` and `.musterignore` name.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ignore::{DirEntry, WalkBuilder};
use muster_protocol::{EntryKind, UploadEntry, UploadLimits};
use muster_upload::{check_link, check_path};

use super::pack::{Origin, Package};
use crate::failure::UsageError;
use crate::output::note;
use crate::output::quantities::bytes;

const IGNORE_FILE: &str = ".musterignore";
const PERMISSIONS: u32 = 0o777;
/// How many of the largest are named when there is too much.
const NAMED: usize = 5;

/// Everything that is sent of a directory.
pub(super) fn walk(root: &Path, limits: &UploadLimits) -> anyhow::Result<Package> {
    let found = std::fs::metadata(root);
    if !found.as_ref().is_ok_and(Metadata::is_dir) {
        let why = found.map_or_else(|error| error.to_string(), |_| "it is not a directory".to_owned());
        return Err(UsageError(format!("--upload {}: {why}", root.display())).into());
    }
    let mut entries: Vec<(UploadEntry, PathBuf)> = Vec::new();
    let mut special = 0;
    for entry in walker(root).build() {
        let entry = entry.with_context(|| advice("the directory cannot be read"))?;
        if entry.depth() == 0 {
            continue;
        }
        match describe(root, &entry)? {
            Some(described) => entries.push((described, entry.into_path())),
            None => special += 1,
        }
    }
    entries.sort_by(|(one, _), (other, _)| one.path.split('/').cmp(other.path.split('/')));
    drop_filled_directories(&mut entries);
    if special > 0 {
        note(&format!("{special} sockets, pipes and devices are not sent"));
    }
    check_limits(&entries, limits)?;
    let (entries, paths): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
    Ok(Package { entries, origins: paths.into_iter().map(Origin::Path).collect() })
}

/// In a repository its ignore files count, from its top on; elsewhere those that lie in the directory.
fn walker(root: &Path) -> WalkBuilder {
    let top = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let in_repository = top.ancestors().any(|directory| directory.join(".git").exists());
    let mut walker = WalkBuilder::new(root);
    walker
        .hidden(false)
        .ignore(false)
        .git_global(false)
        .git_exclude(false)
        .require_git(in_repository)
        .parents(in_repository)
        .follow_links(false)
        .add_custom_ignore_filename(IGNORE_FILE)
        .filter_entry(|entry| entry.file_name() != ".git");
    walker
}

fn advice(what: &str) -> String {
    format!("{what}; what a job does not need can be named in {IGNORE_FILE}")
}

/// An entry as the manifest has it; `None` for what cannot be sent.
fn describe(root: &Path, entry: &DirEntry) -> anyhow::Result<Option<UploadEntry>> {
    let relative = entry.path().strip_prefix(root).unwrap_or(entry.path());
    let Some(path) = relative.to_str() else {
        let what = format!("the name {} is not valid UTF-8", relative.display());
        return Err(UsageError(advice(&what)).into());
    };
    check_path(path).map_err(|error| UsageError(advice(&error.to_string())))?;
    let found = entry.metadata().with_context(|| advice(&format!("{path} cannot be read")))?;
    let kind = match found.file_type() {
        kind if kind.is_file() => EntryKind::File,
        kind if kind.is_dir() => EntryKind::Directory,
        kind if kind.is_symlink() => EntryKind::Link,
        _ => return Ok(None),
    };
    let target = match kind {
        EntryKind::Link => Some(target(path, entry.path())?),
        EntryKind::File | EntryKind::Directory => None,
    };
    let is_file = kind == EntryKind::File;
    Ok(Some(UploadEntry {
        path: path.to_owned(),
        kind,
        size: if is_file { found.len() } else { 0 },
        mode: (kind != EntryKind::Link).then_some(found.mode() & PERMISSIONS),
        modified_ms: is_file.then(|| modified_ms(&found)),
        target,
    }))
}

/// When a file was changed, as exactly as a manifest says it.
pub(super) fn modified_ms(found: &Metadata) -> i64 {
    found.mtime().saturating_mul(1_000).saturating_add(found.mtime_nsec() / 1_000_000)
}

fn target(path: &str, link: &Path) -> anyhow::Result<String> {
    let target = std::fs::read_link(link).with_context(|| format!("the link {path} cannot be read"))?;
    let Some(target) = target.to_str() else {
        let what = format!("the target of the link {path} is not valid UTF-8");
        return Err(UsageError(advice(&what)).into());
    };
    check_link(path, target).map_err(|error| UsageError(advice(&error.to_string())))?;
    Ok(target.to_owned())
}

/// A directory with something in it is there by what is in it.
fn drop_filled_directories(entries: &mut Vec<(UploadEntry, PathBuf)>) {
    let next: Vec<String> = entries.iter().skip(1).map(|(entry, _)| entry.path.clone()).collect();
    let mut next = next.into_iter();
    entries.retain(|(entry, _)| {
        let follower = next.next();
        let rest = follower.as_deref().and_then(|follower| follower.strip_prefix(entry.path.as_str()));
        entry.kind != EntryKind::Directory || !rest.is_some_and(|rest| rest.starts_with('/'))
    });
}

fn check_limits(entries: &[(UploadEntry, PathBuf)], limits: &UploadLimits) -> Result<(), UsageError> {
    let total: u64 = entries.iter().map(|(entry, _)| entry.size).sum();
    if total > limits.bytes {
        let mut largest: Vec<(u64, &str)> =
            entries.iter().map(|(entry, _)| (entry.size, entry.path.as_str())).collect();
        largest.sort_unstable_by(|one, other| other.cmp(one));
        let named = largest.iter().take(NAMED).map(|(size, path)| format!("{path} ({})", bytes(*size)));
        return Err(UsageError(format!(
            "the directory has {}, and at most {} are sent; the largest files: {}; name what the job does not need in \
             {IGNORE_FILE}, for example: echo '{}' >> {IGNORE_FILE}",
            bytes(total),
            bytes(limits.bytes),
            named.collect::<Vec<_>>().join(", "),
            largest.first().map_or("data/", |(_, path)| path),
        )));
    }
    if entries.len() as u64 > limits.entries {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (entry, _) in entries {
            *counts.entry(entry.path.split('/').next().unwrap_or_default()).or_default() += 1;
        }
        let mut fullest: Vec<(usize, &str)> = counts.into_iter().map(|(name, count)| (count, name)).collect();
        fullest.sort_unstable_by(|one, other| other.cmp(one));
        let named = fullest.iter().take(NAMED).map(|(count, name)| format!("{name} ({count})"));
        return Err(UsageError(format!(
            "the directory has {} files, and at most {} are sent; most are in: {}; name what the job does not need in \
             {IGNORE_FILE}, for example: echo '{}' >> {IGNORE_FILE}",
            entries.len(),
            limits.entries,
            named.collect::<Vec<_>>().join(", "),
            fullest.first().map_or("data/", |(_, name)| name),
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    const LIMITS: UploadLimits = UploadLimits { bytes: 1_000, entries: 20, stdin_bytes: 0 };

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn paths(root: &Path) -> Vec<String> {
        walk(root, &LIMITS).unwrap().entries.into_iter().map(|entry| entry.path).collect()
    }

    #[test]
    fn ignore_files_are_respected_with_and_without_a_repository() {
        let files = [
            (".gitignore", "*.log\nbuild/\n"),
            (".musterignore", "big\n!kept.log\n"),
            (".hidden", "x"),
            ("a.log", "x"),
            ("kept.log", "x"),
            ("big/data", "x"),
            ("build/out", "x"),
            ("src/.gitignore", "/local\n"),
            ("src/local", "x"),
            ("src/main", "x"),
            ("src-b", "x"),
            ("vendor/.git", "gitdir: elsewhere"),
            ("vendor/lib", "x"),
        ];
        let expected = [
            ".gitignore",
            ".hidden",
            ".musterignore",
            "kept.log",
            "src/.gitignore",
            "src/main",
            "src-b",
            "vendor/lib",
        ];
        let root = tree(&files);
        assert_eq!(paths(root.path()), expected);
        fs::create_dir_all(root.path().join(".git/objects")).unwrap();
        assert_eq!(paths(root.path()), expected);
        // What the top of a repository ignores is ignored below it too.
        fs::write(root.path().join("src/x.log"), "x").unwrap();
        assert_eq!(paths(&root.path().join("src")), [".gitignore", "main"]);
    }

    #[test]
    fn empty_directories_and_links_that_stay_inside_are_kept() {
        let root = tree(&[("a/file", "x")]);
        fs::create_dir_all(root.path().join("a/empty/deep")).unwrap();
        symlink("a/file", root.path().join("link")).unwrap();
        let package = walk(root.path(), &LIMITS).unwrap();
        let kinds: Vec<_> = package.entries.iter().map(|entry| (entry.path.as_str(), entry.kind)).collect();
        let expected =
            [("a/empty/deep", EntryKind::Directory), ("a/file", EntryKind::File), ("link", EntryKind::Link)];
        assert_eq!(kinds, expected);
        symlink("/etc/passwd", root.path().join("out")).unwrap();
        let error = walk(root.path(), &LIMITS).unwrap_err().to_string();
        assert!(error.contains("\"out\"") && error.contains(".musterignore"), "{error}");
    }

    #[test]
    fn too_much_is_refused_with_what_makes_it_too_much() {
        let root = tree(&[("data/large", &"x".repeat(900)), ("b", &"x".repeat(200))]);
        let error = walk(root.path(), &LIMITS).unwrap_err().to_string();
        assert!(
            error.contains("data/large") && error.contains("echo 'data/large' >> .musterignore"),
            "{error}"
        );
        let files: Vec<(String, &str)> = (0..30).map(|number| (format!("many/{number}"), "")).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let error = walk(tree(&files).path(), &LIMITS).unwrap_err().to_string();
        assert!(error.contains("30 files") && error.contains("many (30)"), "{error}");
        assert!(walk(Path::new("/nowhere/at/all"), &LIMITS).is_err());
    }
}
