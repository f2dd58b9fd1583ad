//! From a claimed job to the process that is to be started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_protocol::{Gpu, Job};
use serde::{Deserialize, Serialize};

use crate::environment;
use crate::job_user::JobUser;
use crate::keeper::{AttemptPaths, Key, Limits, StartSpec, StopManner};
use crate::output_files::OutputFiles;
use crate::{machine, stop_signal, visible_devices};

/// Jobs of the old demonstration: run like any other, without the prefix.
const DEMO_PREFIX: &str = "demo:";
const TERM: &str = "TERM";
/// What a job with a terminal finds where it does not say which.
const DEFAULT_TERM: &str = "xterm-256color";
/// What a program in a terminal is told to stop with: an interactive shell ignores SIGTERM.
const HANG_UP: i32 = nix::libc::SIGHUP;
const CHECKPOINT_VARIABLE: &str = "CHECKPOINT_DATA";

/// What an agent must know of a job that a former agent started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) attempt: u32,
    pub(crate) grace_ms: u64,
    /// It carries the demonstration's prefix.
    #[serde(default)]
    pub(crate) demo: bool,
    /// Files of the submitter that its output is written to as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<OutputFiles>,
    /// It is not started again when it was lost.
    #[serde(default)]
    pub(crate) once: bool,
    /// It has a room.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) room: bool,
    /// Which files of its working directory are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wanted: Option<WantedFiles>,
    /// Whose its files are, where that is not the worker's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<JobUser>,
}

/// Files of a working directory that are kept when the attempt has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WantedFiles {
    /// Relative to the copy of the upload where there is one.
    pub(crate) directory: PathBuf,
    pub(crate) patterns: Vec<String>,
}

/// The key of a claim.
pub(crate) fn key_of(job: &Job) -> Key {
    Key { job_id: job.id.as_str().into(), lease: job.lease }
}

/// Whether a job carries the demonstration's prefix.
pub(crate) fn is_demo(job: &Job) -> bool {
    job.command.starts_with(DEMO_PREFIX)
}

/// The length of the checkpoint that a job starts from, once decoded.
pub(crate) fn checkpoint_bytes(job: &Job) -> Option<usize> {
    let Some(encoded) = job.env.get(CHECKPOINT_VARIABLE) else {
        return job.checkpoint_bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as usize);
    };
    let padding = encoded.bytes().rev().take_while(|byte| *byte == b'=').count();
    Some((encoded.len() / 4 * 3).saturating_sub(padding))
}

/// What the agent must not forget about a job.
pub(crate) fn note_of(job: &Job, default_grace: Duration, default_dir: &Path) -> Note {
    let (output, wanted) = (output_files(job, default_dir), wanted_files(job, default_dir));
    let grace_ms =
        job.grace_seconds.map_or(default_grace.as_millis() as u64, |seconds| u64::from(seconds) * 1000);
    let once = job.retry.as_ref().is_some_and(|retry| retry.lost == Some(false));
    let room = job.upload.is_some() || !job.inputs.is_empty();
    Note { attempt: job.attempts, grace_ms, demo: is_demo(job), output, once, room, wanted, user: None }
}

/// The files of its working directory that a job wants to be kept. Those of a container go with it, but for the copy of an upload.
fn wanted_files(job: &Job, default_dir: &Path) -> Option<WantedFiles> {
    if job.artifacts.is_empty() || (is_contained(job) && job.upload.is_none()) {
        return None;
    }
    let directory = match &job.upload {
        Some(_) => PathBuf::from(job.working_dir.as_deref().unwrap_or_default()),
        None => directory_of(job, default_dir),
    };
    Some(WantedFiles { directory, patterns: job.artifacts.clone() })
}

/// Where a job runs.
fn directory_of(job: &Job, default_dir: &Path) -> PathBuf {
    match &job.working_dir {
        Some(directory) => default_dir.join(directory),
        None => default_dir.to_owned(),
    }
}

/// The files that a job wants its output in; a relative path is meant from where it runs.
fn output_files(job: &Job, default_dir: &Path) -> Option<OutputFiles> {
    if job.stdout_path.is_none() && job.stderr_path.is_none() {
        return None;
    }
    // The directory of a container is none of the host.
    let directory = if is_contained(job) { default_dir.to_owned() } else { directory_of(job, default_dir) };
    OutputFiles::of_job(job, &directory, &machine::hostname().unwrap_or_default())
}

impl StartSpec {
    /// Has the attempt run as a user of its own, with all that is its.
    pub(crate) fn run_as(&mut self, user: Option<&JobUser>, note: &mut Note) {
        let Some(user) = user else { return };
        self.user = Some(Box::new(user.clone()));
        if let Some(output) = &mut note.output {
            output.user = Some(user.clone());
        }
        (note.room, note.user) = (true, Some(user.clone()));
        // A note of plain values always has a JSON form.
        self.note = serde_json::to_string(&note).unwrap_or_default();
    }
}

/// What to start for a job.
pub(crate) fn start_spec(job: &Job, gpus: &[Gpu], default_dir: &Path, default_grace: Duration) -> StartSpec {
    let cwd = directory_of(job, default_dir);
    let note = note_of(job, default_grace, default_dir);
    let grace_ms = note.grace_ms;
    let mut env = environment::of_job(job);
    let devices = visible_devices::variables(job, gpus).into_iter();
    // In a container the devices have other numbers, and its engine says which.
    env.extend(devices.filter(|(name, _)| !is_contained(job) || name.starts_with("MUSTER_")));
    if job.pty.is_some() && !job.env.contains_key(TERM) {
        env.push((TERM.to_owned(), DEFAULT_TERM.to_owned()));
    }
    StartSpec {
        key: key_of(job),
        argv: argv(job),
        env,
        unset: Vec::new(),
        secrets: Vec::new(),
        limits: limits(job),
        container: None,
        hostfile: None,
        cwd: cwd.to_string_lossy().into_owned(),
        stdin: None,
        grace_ms,
        lease_ms: job.lease_ttl_ms,
        stop_signal: job.stop_signal.as_deref().and_then(stop_signal::parse).or(job.pty.map(|_| HANG_UP)),
        timeout_ms: job.timeout_seconds.and_then(timeout_ms),
        manner: StopManner::default(),
        has_checkpoint: false,
        terminal: job.pty,
        paths: AttemptPaths::default(),
        user: None,
        // A note of plain values always has a JSON form.
        note: serde_json::to_string(&note).unwrap_or_default(),
    }
}

/// A job that asks for an amount gets no more than that.
fn limits(job: &Job) -> Limits {
    let Some(asked) = &job.resources else { return Limits::default() };
    let (cpus, memory_mb) = (asked.cpus, asked.memory_mb);
    Limits {
        memory_bytes: (memory_mb > 0).then(|| memory_mb.saturating_mul(1024 * 1024)),
        cpus_milli: (cpus > 0.0).then(|| (cpus * 1e3).ceil() as u64),
    }
}

/// Rounded up, so that nothing is stopped too early.
fn timeout_ms(seconds: f64) -> Option<u64> {
    (seconds > 0.0).then(|| (seconds * 1e3).ceil() as u64)
}

fn argv(job: &Job) -> Vec<String> {
    if !job.argv.is_empty() {
        return job.argv.clone();
    }
    let command = match job.command.strip_prefix(DEMO_PREFIX) {
        Some(rest) => rest.trim(),
        None => job.command.as_str(),
    };
    let shell = if is_contained(job) { "sh" } else { "/bin/sh" };
    vec![shell.to_owned(), "-c".to_owned(), command.to_owned()]
}

fn is_contained(job: &Job) -> bool {
    job.image.as_ref().is_some_and(|image| !image.is_empty())
}

/// Reads the note of an adopted job; one that cannot be read still has a process that must be looked after.
pub(crate) fn read_note(text: &str, default_grace: Duration) -> Note {
    serde_json::from_str(text).unwrap_or(Note {
        attempt: 0,
        grace_ms: default_grace.as_millis() as u64,
        demo: false,
        output: None,
        wanted: None,
        once: false,
        room: false,
        user: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(extra: &serde_json::Value) -> Job {
        let mut value = json!({"id": "job-1", "command": "", "status": "running", "attempts": 2, "max_retries": 3,
            "created_at": "2026-01-01T00:00:00Z", "lease": 7});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    fn spec(extra: &serde_json::Value) -> StartSpec {
        start_spec(&job(extra), &[], Path::new("/home/w"), Duration::from_secs(15))
    }

    #[test]
    fn commands_run_in_a_shell_and_argv_as_it_is() {
        assert_eq!(spec(&json!({"command": "a | b"})).argv, ["/bin/sh", "-c", "a | b"]);
        assert_eq!(spec(&json!({"command": "demo: sleep 1 "})).argv, ["/bin/sh", "-c", "sleep 1"]);
        assert_eq!(spec(&json!({"command": "x", "argv": ["echo", "a b"]})).argv, ["echo", "a b"]);
    }

    #[test]
    fn directory_and_grace_have_defaults() {
        let plain = spec(&json!({}));
        assert_eq!((plain.cwd.as_str(), plain.grace_ms), ("/home/w", 15_000));
        let given = spec(&json!({"working_dir": "/tmp", "grace_seconds": 3}));
        assert_eq!((given.cwd.as_str(), given.grace_ms), ("/tmp", 3_000));
        assert_eq!(
            read_note(&given.note, Duration::ZERO),
            Note {
                attempt: 2,
                grace_ms: 3_000,
                demo: false,
                output: None,
                once: false,
                room: false,
                wanted: None,
                user: None
            }
        );
        assert!(read_note(&spec(&json!({"retry": {"lost": false}})).note, Duration::ZERO).once);
        assert!(read_note(&spec(&json!({"command": "demo:x"})).note, Duration::ZERO).demo);
        assert_eq!(spec(&json!({"working_dir": "sub"})).cwd, "/home/w/sub");
    }

    #[test]
    fn timeout_and_signal_are_optional() {
        let plain = spec(&json!({}));
        assert_eq!((plain.timeout_ms, plain.stop_signal), (None, None));
        let given = spec(&json!({"timeout_seconds": 1.0005, "stop_signal": "SIGINT"}));
        assert_eq!((given.timeout_ms, given.stop_signal), (Some(1_001), Some(2)));
        assert_eq!(spec(&json!({"timeout_seconds": 1e300})).timeout_ms, Some(u64::MAX));
        assert_eq!(spec(&json!({"timeout_seconds": 0})).timeout_ms, None);
    }

    #[test]
    fn identity_cannot_be_overridden() {
        let env =
            spec(&json!({"env": {"MUSTER_LEASE": "99", "MUSTER_WORKER_DIR": "/elsewhere", "A": "b"}})).env;
        assert!(!env.iter().any(|(name, _)| name == "MUSTER_WORKER_DIR"), "what all jobs share has it");
        assert_eq!(env.iter().rfind(|(name, _)| name == "MUSTER_LEASE").unwrap().1, "7");
        assert!(env.contains(&("A".to_owned(), "b".to_owned())));
    }

    #[test]
    fn checkpoints_are_measured_decoded() {
        assert_eq!(
            checkpoint_bytes(&job(&json!({"env": {"CHECKPOINT_DATA": "eyJzdGVwIjo0Mn0="}}))),
            Some(11)
        );
        assert_eq!(checkpoint_bytes(&job(&json!({}))), None);
        assert_eq!(checkpoint_bytes(&job(&json!({"checkpoint_bytes": 0}))), None);
        let large = json!({"checkpoint_bytes": 200_000});
        assert_eq!(checkpoint_bytes(&job(&large)), Some(200_000), "too large for a variable");
    }
}
