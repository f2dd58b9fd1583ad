//! The private keys of a worker, which open the secrets of its jobs.
//!
//! Guarantees: a key file is readable by its owner alone, and one that others can read is refused; a key is never overwritten; the
//! keys leave the machine only if somebody copies the files.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_protocol::SealingKey;
use muster_seal::KeyPair;
use zeroize::Zeroizing;

use crate::data_dir::make_own_directory;
use crate::error::WorkerError;

const ENDING: &str = "key";

/// The folder of the key files in a data directory.
pub(crate) fn key_directory(data_dir: &Path) -> PathBuf {
    data_dir.join("secret-keys")
}

/// A key with its file.
#[derive(Debug, Clone)]
pub struct KeptKey {
    pub file: PathBuf,
    pub pair: KeyPair,
}

/// All keys of a data directory, by the names of their files.
pub fn kept_keys(data_dir: &Path) -> Result<Vec<KeptKey>, WorkerError> {
    let folder = key_directory(data_dir);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|cause| WorkerError::KeyFile { path: folder.clone(), cause })?,
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == ENDING));
    files.sort_unstable();
    files.into_iter().map(|file| Ok(KeptKey { pair: read(&file)?, file })).collect()
}

/// Makes a key and its file: in the data directory, or where `file` says.
pub fn make_key(data_dir: &Path, file: Option<&Path>) -> Result<KeptKey, WorkerError> {
    let pair = KeyPair::from_private(rand::random());
    let folder = key_directory(data_dir);
    let file = match file {
        Some(file) => file.to_owned(),
        None => folder.join(format!("{}.{ENDING}", pair.public().id())),
    };
    let write = || {
        if file.starts_with(&folder) {
            make_own_directory(&folder)?;
        }
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file)?;
        out.write_all(pair.private_text().as_bytes())?;
        out.write_all(b"\n")?;
        out.sync_all()
    };
    write().map_err(|cause| WorkerError::KeyFile { path: file.clone(), cause })?;
    Ok(KeptKey { file, pair })
}

/// The keys of a worker that starts: one is made where there is none.
pub(crate) fn keys_at_start(data_dir: &Path) -> Result<Vec<KeyPair>, WorkerError> {
    let mut kept = kept_keys(data_dir)?;
    if kept.is_empty() {
        let made = make_key(data_dir, None)?;
        tracing::info!(key = %made.pair.public().id(), "made a key for secrets");
        kept.push(made);
    }
    Ok(kept.into_iter().map(|key| key.pair).collect())
}

/// What the scheduler is told of the keys.
pub(crate) fn announced(keys: &[KeyPair]) -> Vec<SealingKey> {
    let shown = |pair: &KeyPair| SealingKey { id: pair.public().id(), public_key: pair.public().to_string() };
    keys.iter().map(shown).collect()
}

fn read(file: &Path) -> Result<KeyPair, WorkerError> {
    let failed = |cause| WorkerError::KeyFile { path: file.to_owned(), cause };
    if fs::metadata(file).map_err(failed)?.mode() & 0o077 != 0 {
        return Err(WorkerError::KeyFileOpen { path: file.to_owned() });
    }
    let text = Zeroizing::new(fs::read_to_string(file).map_err(failed)?);
    KeyPair::parse(&text).map_err(|error| failed(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_start_makes_a_key_and_later_ones_keep_it() {
        let root = tempfile::tempdir().unwrap();
        let first = announced(&keys_at_start(root.path()).unwrap());
        assert_eq!(first.len(), 1);
        assert_eq!(announced(&keys_at_start(root.path()).unwrap()), first);
        let second = make_key(root.path(), None).unwrap();
        assert_eq!(fs::metadata(&second.file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(keys_at_start(root.path()).unwrap().len(), 2, "several at once");
        fs::remove_file(root.path().join("secret-keys").join(format!("{}.key", first[0].id))).unwrap();
        let left = announced(&keys_at_start(root.path()).unwrap());
        assert_eq!(left[0].id, second.pair.public().id());
    }

    #[test]
    fn a_key_is_not_overwritten_and_not_read_when_others_can() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("fleet");
        let made = make_key(root.path(), Some(&file)).unwrap();
        assert!(kept_keys(root.path()).unwrap().is_empty(), "it lies elsewhere");
        assert!(matches!(make_key(root.path(), Some(&file)), Err(WorkerError::KeyFile { .. })));
        assert_eq!(read(&file).unwrap().public(), made.pair.public());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(read(&file), Err(WorkerError::KeyFileOpen { .. })));
    }
}
