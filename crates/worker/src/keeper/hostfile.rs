//! The file that a task of a gang finds under `MUSTER_HOSTFILE`. It goes when the process has ended.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::outputs::OutputNames;
use super::personal::Personal;

/// What the path is called in the environment of the process.
pub(super) const VARIABLE: &str = "MUSTER_HOSTFILE";

/// Its name in the directory of an attempt that has a user of its own.
const OF_USER: &str = "hosts";

/// The file of one attempt; dropping it removes it. One that is left by a keeper that was killed lies among the
/// results, whose leftovers the next keeper removes.
#[derive(Debug)]
pub(super) struct Hostfile {
    path: PathBuf,
}

impl Hostfile {
    /// Writes the file of an attempt that has one.
    pub(super) fn write(
        names: &OutputNames,
        text: Option<&str>,
        personal: Option<&Personal<'_>>,
    ) -> Result<Option<Self>, String> {
        let Some(text) = text else { return Ok(None) };
        if let Some(personal) = personal {
            let made = personal.file(OF_USER, text.as_bytes());
            let path = made.map_err(|error| format!("cannot write the hostfile: {error}"))?;
            return Ok(Some(Self { path }));
        }
        let path = names.result_path().with_extension("hosts");
        let made = Self { path };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&made.path);
        file.as_mut()
            .map_err(|error| error.to_string())
            .and_then(|file| file.write_all(text.as_bytes()).map_err(|error| error.to_string()))
            .map_err(|error| format!("cannot write the hostfile {}: {error}", made.path.display()))?;
        Ok(Some(made))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Hostfile {
    fn drop(&mut self) {
        // What cannot be removed now is removed with the other leftovers.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_lives_as_long_as_its_attempt() {
        let root = tempfile::tempdir().unwrap();
        let names = OutputNames::new(root.path()).unwrap();
        assert!(Hostfile::write(&names, None, None).unwrap().is_none());
        let file = Hostfile::write(&names, Some("h slots=1\n"), None).unwrap().unwrap();
        let path = file.path().to_owned();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "h slots=1\n");
        drop(file);
        assert!(!path.exists());
        std::fs::remove_dir_all(root.path().join("results")).unwrap();
        assert!(Hostfile::write(&names, Some(""), None).unwrap_err().contains("hostfile"));
    }
}
