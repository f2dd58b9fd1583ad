//! Files of the submitter that a job's output is written to, besides what is kept of it.
//!
//! Guarantees: both files can be written before the process starts, or it does not start; a file has every byte of its
//! stream when the end of the job is told, unless writing it failed, which the error output of the job says.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_protocol::{Job, OpenMode};
use serde::{Deserialize, Serialize};

use crate::job_user::{JobUser, acting_as, open_target};
use crate::keeper::Key;

/// The most that is read at a time.
const PIECE_BYTES: usize = 1024 * 1024;

/// Where the output of an attempt goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OutputFiles {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdout: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stderr: Option<PathBuf>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) append: bool,
    /// Whose files they are, where that is not the worker's user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<JobUser>,
}

impl OutputFiles {
    /// What a job asks for. The scheduler has filled in all places of the paths but the host.
    pub(crate) fn of_job(job: &Job, directory: &Path, host: &str) -> Option<Self> {
        let path =
            |pattern: &Option<String>| pattern.as_ref().map(|text| directory.join(with_host(text, host)));
        let (stdout, stderr) = (path(&job.stdout_path), path(&job.stderr_path));
        let append = job.open_mode == Some(OpenMode::Append);
        // As with sbatch, one file takes both unless another is named.
        let stderr = stderr.or_else(|| stdout.clone());
        stderr.is_some().then_some(Self { stdout, stderr, append, user: None })
    }

    /// Makes the files, or empties them.
    pub(crate) fn create(&self) -> Result<(), String> {
        let other = self.stderr.iter().filter(|path| Some(*path) != self.stdout.as_ref());
        for path in self.stdout.iter().chain(other) {
            let user = self.user.as_ref();
            let made = acting_as(user, || create(path, self.append, user.is_some()));
            made.map_err(|error| complaint(path, user, &error))?;
        }
        Ok(())
    }
}

fn create(path: &Path, append: bool, is_users: bool) -> io::Result<()> {
    let file = if is_users {
        open_target(path, true)?
    } else {
        OpenOptions::new().append(true).create(true).mode(0o666).open(path)?
    };
    // Devices such as /dev/null cannot be cut, and need not be.
    if !append && file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(())
}

/// Says which directory is missing, where that is what is wrong.
fn complaint(path: &Path, user: Option<&JobUser>, error: &io::Error) -> String {
    let shown = path.display();
    if let Some(user) = user {
        return format!("the output file {shown} cannot be written by the user {}: {error}", user.name);
    }
    let missing = path.parent().filter(|parent| error.kind() == io::ErrorKind::NotFound && !parent.exists());
    match missing {
        Some(directory) => {
            format!(
                "the output file {shown} cannot be written: the directory {} does not exist",
                directory.display()
            )
        }
        None => format!("the output file {shown} cannot be written: {error}"),
    }
}

/// Fills in the host, up to its first dot, and percent signs.
fn with_host(text: &str, host: &str) -> String {
    let short = host.split('.').next().unwrap_or(host);
    let mut path = String::with_capacity(text.len() + short.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        path.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = if let Some(after) = after.strip_prefix('N') {
            path.push_str(short);
            after
        } else {
            path.push('%');
            after.strip_prefix('%').unwrap_or(after)
        };
    }
    path.push_str(rest);
    path
}

/// How far a copy has come, as it survives the agent.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    job_id: String,
    lease: u64,
    position: u64,
    /// The length of the target after that.
    target_length: u64,
}

/// The copy of one stream.
#[derive(Debug)]
pub(crate) struct Copy {
    source: PathBuf,
    target: PathBuf,
    /// Whose the target is, where that is not the worker's user.
    user: Option<JobUser>,
    mark: Mark,
    files: Option<(File, File)>,
}

impl Copy {
    /// Goes on where an earlier agent stopped.
    pub(crate) fn new(key: &Key, source: &Path, target: &Path, user: Option<JobUser>) -> Self {
        let fresh = || Mark {
            job_id: key.job_id.to_string(),
            lease: key.lease,
            position: 0,
            target_length: u64::MAX,
        };
        let known = std::fs::read(mark_path(source)).ok();
        let known = known.and_then(|text| serde_json::from_slice::<Mark>(&text).ok());
        let mark = known.filter(|mark| *mark.job_id == *key.job_id && mark.lease == key.lease);
        Self {
            source: source.to_owned(),
            target: target.to_owned(),
            user,
            mark: mark.unwrap_or_else(fresh),
            files: None,
        }
    }

    /// Copies everything that was written by now; says how far it has come.
    pub(crate) fn advance(&mut self) -> Result<u64, String> {
        self.copy().map_err(|error| complaint(&self.target, self.user.as_ref(), &error))
    }

    fn copy(&mut self) -> io::Result<u64> {
        let length = match std::fs::metadata(&self.source) {
            Ok(source) => source.len(),
            // A file that stayed empty is removed, or used again, when its process has ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(self.mark.position),
            Err(error) => return Err(error),
        };
        if self.mark.position >= length {
            return Ok(self.mark.position);
        }
        if self.files.is_none() {
            let source = File::open(&self.source)?;
            let target = acting_as(self.user.as_ref(), || match &self.user {
                Some(_) => open_target(&self.target, false),
                None => OpenOptions::new().append(true).read(true).open(&self.target),
            })?;
            self.skip_what_is_there(&source, &target)?;
            self.files = Some((source, target));
        }
        let Some((source, target)) = &mut self.files else { return Ok(self.mark.position) };
        let mut buffer =
            vec![0; PIECE_BYTES.min(usize::try_from(length - self.mark.position).unwrap_or(PIECE_BYTES))];
        loop {
            let read = source.read_at(&mut buffer, self.mark.position)?;
            if read == 0 {
                break;
            }
            target.write_all(&buffer[..read])?;
            self.mark.position += read as u64;
        }
        self.mark.target_length = target.metadata()?.len();
        // Without it a later agent would copy from the beginning.
        std::fs::write(mark_path(&self.source), serde_json::to_vec(&self.mark)?)?;
        Ok(self.mark.position)
    }

    /// An agent that was killed may have written a piece and not noted it.
    fn skip_what_is_there(&mut self, source: &File, target: &File) -> io::Result<()> {
        let surplus = target.metadata()?.len().checked_sub(self.mark.target_length);
        let Some(surplus) = surplus.filter(|bytes| *bytes > 0) else { return Ok(()) };
        let size = PIECE_BYTES.min(usize::try_from(surplus).unwrap_or(PIECE_BYTES));
        let (mut there, mut next) = (vec![0; size], vec![0; size]);
        let there_bytes = target.read_at(&mut there, self.mark.target_length)?;
        let next_bytes = source.read_at(&mut next, self.mark.position)?;
        let common = there[..there_bytes].iter().zip(&next[..next_bytes]).take_while(|(one, two)| one == two);
        self.mark.position += common.count() as u64;
        Ok(())
    }
}

/// Beside the file whose copy it is about.
fn mark_path(source: &Path) -> PathBuf {
    source.with_extension("copied")
}

/// Removes what is noted about the copy of a file.
pub(crate) fn forget(source: &str) {
    if !source.is_empty() {
        // Most files have no copy.
        let _ = std::fs::remove_file(mark_path(Path::new(source)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(lease: u64) -> Key {
        Key { job_id: "job-1".into(), lease }
    }

    #[test]
    fn the_host_and_percent_signs_are_filled_in() {
        assert_eq!(with_host("%N/100%%-%%N.out", "gpu7.example.org"), "gpu7/100%-%N.out");
        assert_eq!(with_host("plain", "h"), "plain");
    }

    #[test]
    fn a_missing_directory_is_named() {
        let root = tempfile::tempdir().unwrap();
        let files = OutputFiles { stdout: Some(root.path().join("no/such/out")), ..OutputFiles::default() };
        let complaint = files.create().unwrap_err();
        assert!(
            complaint
                .contains(&format!("the directory {} does not exist", root.path().join("no/such").display())),
            "{complaint}"
        );
        let files = OutputFiles { stdout: Some(root.path().to_owned()), ..OutputFiles::default() };
        assert!(files.create().unwrap_err().contains("directory"), "a directory is no file");
    }

    #[test]
    fn files_begin_anew_or_are_continued() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        std::fs::write(&path, "old").unwrap();
        let files = |append| OutputFiles {
            stdout: Some(path.clone()),
            stderr: Some(path.clone()),
            append,
            user: None,
        };
        files(true).create().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        files(false).create().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        let null = OutputFiles { stdout: Some("/dev/null".into()), ..OutputFiles::default() };
        null.create().unwrap();
    }

    #[test]
    fn a_copy_goes_on_where_it_was_and_repeats_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (source, target) = (root.path().join("1.out"), root.path().join("file"));
        std::fs::write(&source, "one").unwrap();
        std::fs::write(&target, "before:").unwrap();
        let mut copy = Copy::new(&key(1), &source, &target, None);
        assert_eq!(copy.advance(), Ok(3));
        std::fs::write(&source, "onetwo").unwrap();
        // An agent that writes a piece and is killed before it can note it.
        let note = std::fs::read(mark_path(&source)).unwrap();
        assert_eq!(copy.advance(), Ok(6));
        std::fs::write(mark_path(&source), note).unwrap();
        std::fs::write(&source, "onetwothree").unwrap();
        assert_eq!(Copy::new(&key(1), &source, &target, None).advance(), Ok(11));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "before:onetwothree");
        // Another attempt, of which nothing is noted, begins at the beginning of its own output.
        assert_eq!(Copy::new(&key(2), &source, &target, None).advance(), Ok(11));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "before:onetwothreeonetwothree");
        forget(&source.to_string_lossy());
        assert!(!mark_path(&source).exists());
    }
}
