//! Which files and directories of the host a container may see.
//!
//! Guarantee: what a job mounts lies below a directory that the worker allows, whatever links are on the way.

use std::path::{Component, Path, PathBuf};

use super::spec::FileMount;

/// A directory of the host that jobs may mount, with all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedMount {
    pub path: PathBuf,
    pub read_only: bool,
}

impl std::str::FromStr for AllowedMount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, read_only) = match text.strip_suffix(":ro") {
            Some(path) => (path, true),
            None => (text.strip_suffix(":rw").unwrap_or(text), false),
        };
        if !path.starts_with('/') {
            return Err(format!("{text:?} is not an absolute path; write for example /data or /data:ro"));
        }
        Ok(Self { path: PathBuf::from(path), read_only })
    }
}

/// A mount as a job asks for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WantedMount<'a> {
    pub(super) source: &'a str,
    pub(super) target: &'a str,
    pub(super) read_only: bool,
}

/// Reads `SOURCE:TARGET[:ro|rw]`.
pub(super) fn parse(text: &str) -> Result<WantedMount<'_>, String> {
    let wrong = || {
        format!(
            "the mount {text:?} is not of the form SOURCE:TARGET or SOURCE:TARGET:ro, with absolute paths"
        )
    };
    let (paths, read_only) = match text.strip_suffix(":ro") {
        Some(paths) => (paths, true),
        None => (text.strip_suffix(":rw").unwrap_or(text), false),
    };
    let (source, target) = paths.split_once(':').ok_or_else(wrong)?;
    if !source.starts_with('/') || !target.starts_with('/') || target.contains(':') {
        return Err(wrong());
    }
    Ok(WantedMount { source, target, read_only })
}

/// What is mounted for a job, or why it is not.
pub(super) fn admit(wanted: &str, allowed: &[AllowedMount]) -> Result<FileMount, String> {
    let mount = parse(wanted)?;
    let source = Path::new(mount.source);
    if source.components().any(|part| part == Component::ParentDir) {
        return Err(format!("the mount {wanted:?} has .. in its source"));
    }
    let real = source
        .canonicalize()
        .map_err(|error| format!("the mount {wanted:?} has no source on this worker: {error}"))?;
    let below = |one: &&AllowedMount| one.path.canonicalize().is_ok_and(|path| real.starts_with(path));
    // The closest one decides.
    let found = allowed.iter().filter(below).max_by_key(|one| one.path.as_os_str().len());
    let Some(found) = found else {
        return Err(format!(
            "the mount {wanted:?} is not allowed on this worker; it is started with --allow-mount for each directory \
             that jobs may mount"
        ));
    };
    if found.read_only && !mount.read_only {
        let path = found.path.display();
        return Err(format!(
            "the mount {wanted:?} must be read-only on this worker, which allows {path}:ro; add :ro"
        ));
    }
    // What was checked is what is mounted.
    let source = real.to_str().ok_or_else(|| format!("the source of the mount {wanted:?} is no text"))?;
    Ok(FileMount { source: source.to_owned(), target: mount.target.to_owned(), read_only: mount.read_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_have_a_form() {
        let mount = parse("/a:/b:ro").unwrap();
        assert_eq!((mount.source, mount.target, mount.read_only), ("/a", "/b", true));
        assert!(!parse("/a:/b").unwrap().read_only);
        for wrong in ["/a", "a:/b", "/a:b", "/a:/b:/c", "", ":", "/a:/b:rx"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!("data".parse::<AllowedMount>().is_err());
        assert!("/data:ro".parse::<AllowedMount>().unwrap().read_only);
    }

    #[test]
    fn only_what_lies_below_an_allowed_directory_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name).to_string_lossy().into_owned();
        std::fs::create_dir_all(root.path().join("data/in")).unwrap();
        std::fs::create_dir(root.path().join("other")).unwrap();
        std::os::unix::fs::symlink(root.path().join("other"), root.path().join("data/out")).unwrap();
        let allowed = |text: &str| vec![format!("{}{text}", path("data")).parse::<AllowedMount>().unwrap()];
        let ask = |name: &str, mode: &str| format!("{}:/x{mode}", path(name));
        assert!(admit(&ask("data/in", ""), &allowed("")).unwrap().source.ends_with("data/in"));
        assert!(admit(&ask("data/in", ""), &allowed(":ro")).unwrap_err().contains("must be read-only"));
        assert!(admit(&ask("data/in", ":ro"), &allowed(":ro")).unwrap().read_only);
        for wrong in ["other", "data/out", "data/../other", "data/none"] {
            assert!(admit(&ask(wrong, ""), &allowed("")).is_err(), "{wrong}");
        }
        assert!(admit(&ask("data/in", ""), &[]).unwrap_err().contains("--allow-mount"));
    }
}
