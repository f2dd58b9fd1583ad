//! The files that processes write their output to.
//!
//! Creating and removing two files for each job is a noticeable part of the cost of a short one, and most
//! short jobs write nothing. So a slot uses its two files again as long as they stay empty.
//!
//! Guarantee: a file that was written to, or that some process still has open, is never used again; so
//! no output ends up with the wrong job.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::libc;

use super::artifact_room::artifact_directory;
use super::clock::boottime_ns;
use super::message::Files;
use super::result_file::result_directory;
use crate::data_dir::make_own_directory;
use crate::secret_files;

/// The folder of the output files in a data directory.
pub fn output_directory(directory: &Path) -> PathBuf {
    directory.join("output")
}

/// Removes the files that slots keep for the next job, when there will be none.
pub(super) fn remove_empty(directory: &Path) {
    for folder in [output_directory(directory), result_directory(directory)] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.metadata().is_ok_and(|file| file.len() == 0) {
                // What is left is removed by the next worker that starts here.
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Makes names that no keeper on this machine has used before.
#[derive(Debug)]
pub(super) struct OutputNames {
    directory: PathBuf,
    results: PathBuf,
    secrets: PathBuf,
    artifacts: PathBuf,
    born_ns: u64,
    next: AtomicU64,
}

impl OutputNames {
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let (secrets, artifacts) = (secret_files::folder(directory), artifact_directory(directory));
        let (directory, results) = (output_directory(directory), result_directory(directory));
        make_own_directory(&directory)?;
        make_own_directory(&results)?;
        make_own_directory(&artifacts)?;
        Ok(Self { directory, results, secrets, artifacts, born_ns: boottime_ns(), next: AtomicU64::new(1) })
    }

    /// A path that no attempt had before, not even one that was run by another keeper.
    pub(super) fn result_path(&self) -> PathBuf {
        self.results.join(self.fresh())
    }

    /// The path of a directory for artifacts that no attempt had before.
    pub(super) fn artifact_path(&self) -> PathBuf {
        self.artifacts.join(self.fresh())
    }

    /// The folder for the files of secrets.
    pub(super) fn secrets(&self) -> &Path {
        &self.secrets
    }

    fn fresh(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{:x}-{}-{number}", self.born_ns, std::process::id())
    }

    fn create(&self, kind: &str) -> Result<Output, String> {
        let path = self.directory.join(format!("{}.{kind}", self.fresh()));
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        file.map(|own| Output { path: path.clone(), own })
            .map_err(|error| format!("cannot create the output file {}: {error}", path.display()))
    }
}

/// The two files of a slot.
#[derive(Debug, Default)]
pub(super) struct SlotOutputs {
    stdout: Option<Output>,
    stderr: Option<Output>,
}

/// One file, with a handle of our own by which its state is known.
#[derive(Debug)]
struct Output {
    path: PathBuf,
    own: File,
}

/// Handles for one process, each opened for it alone.
#[derive(Debug)]
pub(super) struct Handles {
    pub(super) stdout: File,
    pub(super) stderr: File,
}

impl SlotOutputs {
    /// Opens both files for a process.
    pub(super) fn open(&mut self, names: &OutputNames) -> Result<Handles, String> {
        Ok(Handles {
            stdout: open(&mut self.stdout, names, "out")?,
            stderr: open(&mut self.stderr, names, "err")?,
        })
    }

    /// The paths, as the agent needs them to follow the output.
    pub(super) fn paths(&self) -> Files {
        let path = |output: &Option<Output>| {
            output.as_ref().map(|output| output.path.to_string_lossy().into_owned()).unwrap_or_default()
        };
        Files { stdout: path(&self.stdout), stderr: path(&self.stderr), ..Files::default() }
    }

    /// Adds a line of ours to what the process wrote to its error output.
    pub(super) fn remark(&mut self, text: &str) {
        if let Some(output) = &mut self.stderr {
            // The agent is told the same; a full disk keeps nobody from hearing it.
            let _ = writeln!(output.own, "muster: {text}");
        }
    }

    /// After the end of the process: the lengths written. Written files are the agent's from now on;
    /// empty ones are kept for the next process if that is allowed.
    pub(super) fn settle(&mut self, keep_empty: bool) -> (u64, u64) {
        (settle(&mut self.stdout, keep_empty), settle(&mut self.stderr, keep_empty))
    }
}

impl Drop for SlotOutputs {
    fn drop(&mut self) {
        self.settle(false);
    }
}

fn open(slot: &mut Option<Output>, names: &OutputNames, kind: &str) -> Result<File, String> {
    if let Some(output) = slot
        && let Ok(file) = OpenOptions::new().append(true).open(&output.path)
    {
        return Ok(file);
    }
    let output = names.create(kind)?;
    let path = &output.path;
    let opened = OpenOptions::new().append(true).open(path);
    let file = opened.map_err(|error| format!("cannot open the output file {}: {error}", path.display()))?;
    *slot = Some(output);
    Ok(file)
}

fn settle(slot: &mut Option<Output>, keep_empty: bool) -> u64 {
    let Some(output) = slot.take() else { return 0 };
    let length = output.own.metadata().map_or(0, |file| file.len());
    if length == 0 {
        if keep_empty && nobody_else_has_it_open(&output.own) {
            *slot = Some(output);
        } else {
            // What a process outside the job's group writes later belongs to no job. A file that cannot be
            // removed is removed with the other leftovers.
            let _ = std::fs::remove_file(&output.path);
        }
    }
    length
}

/// The system grants a write lease only on a file that is open once. Where it knows no leases the
/// answer is no, which costs a new file and nothing else.
pub(super) fn nobody_else_has_it_open(file: &File) -> bool {
    let set_lease = |kind: libc::c_int| {
        #[expect(unsafe_code, reason = "the safe wrappers do not offer file leases")]
        // SAFETY: fcntl with F_SETLEASE takes an integer and touches no memory of ours; the descriptor is open.
        unsafe {
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind)
        }
    };
    set_lease(libc::F_WRLCK) == 0 && set_lease(libc::F_UNLCK) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_files_are_used_again_and_others_are_not() {
        let root = tempfile::tempdir().unwrap();
        let names = OutputNames::new(root.path()).unwrap();
        let mut outputs = SlotOutputs::default();

        drop(outputs.open(&names).unwrap());
        let first = outputs.paths();
        assert_eq!(outputs.settle(true), (0, 0));
        let mut handles = outputs.open(&names).unwrap();
        assert_eq!(outputs.paths(), first, "an empty file is used again");

        handles.stdout.write_all(b"hello").unwrap();
        // Somebody keeps the other one open.
        let straggler = handles.stderr;
        assert_eq!(outputs.settle(true), (5, 0));
        drop(outputs.open(&names).unwrap());
        let second = outputs.paths();
        assert_ne!(second.stdout, first.stdout, "a written file is not used again");
        assert_ne!(second.stderr, first.stderr, "a file that is still open is not used again");
        assert!(Path::new(&first.stdout).exists(), "the agent wants to read it");
        assert!(!Path::new(&first.stderr).exists());
        drop(straggler);

        drop(outputs);
        assert!(!Path::new(&second.stdout).exists(), "nothing is left of a slot that goes");
    }
}
