//! The files and directories that an attempt finds in its environment besides its output.
//!
//! Guarantee: the names follow from job and lease alone, so that an agent that comes after this one finds them
//! again, and no two attempts ever share a file.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_protocol::{Job, OnPreemptExit0};

use crate::attempt_room::{self, AttemptRoom};
use crate::containers::FileMount;
use crate::job_user::{JobUser, checkpoints_folder};
use crate::keeper::{AttemptPaths, Key, StartSpec, StopManner};

/// Appears when the job is told to stop.
pub(crate) const NOTICE_VARIABLE: &str = "MUSTER_PREEMPT_FILE";
/// To be made by a job that has finished although it was told to stop.
pub(crate) const DONE_VARIABLE: &str = "MUSTER_DONE_FILE";
/// The checkpoint to start from; not set when there is none.
pub(crate) const CHECKPOINT_VARIABLE: &str = "MUSTER_CHECKPOINT_FILE";
/// Where a checkpoint may be written that is saved when the attempt has ended.
pub(crate) const CHECKPOINT_OUT_VARIABLE: &str = "MUSTER_CHECKPOINT_OUT";
/// A directory that the attempts of a job on one machine share.
pub(crate) const CHECKPOINT_DIR_VARIABLE: &str = "MUSTER_CHECKPOINT_DIR";

/// A directory with the artifacts of needed jobs that were asked for.
pub(crate) const INPUTS_VARIABLE: &str = "MUSTER_INPUTS";
/// Where a container finds the copy of an upload.
const CONTAINED_WORK: &str = "/workspace";
/// Where a container finds artifacts of needed jobs, if it has no copy of an upload.
const CONTAINED_INPUTS: &str = "/inputs";

/// The notice of an attempt in a container, in the folder that both see.
pub(crate) const CONTAINED_NOTICE: &str = "notice";

/// The longest name that every file system takes, with room for what is added.
const LONGEST_NAME: usize = 150;

/// The folder of files that live as long as their attempt.
pub(crate) fn attempt_directory(data_dir: &Path) -> PathBuf {
    data_dir.join("attempts")
}

/// The folder of directories that outlive the attempts.
pub(crate) fn checkpoint_directory(data_dir: &Path) -> PathBuf {
    data_dir.join("checkpoints")
}

/// Names the files of attempts; without a data directory there are none.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptFiles {
    folders: Option<(PathBuf, PathBuf)>,
    /// Where the rooms are.
    data_dir: Option<PathBuf>,
}

impl AttemptFiles {
    pub(crate) fn new(data_dir: &Path) -> Self {
        let folders = Some((attempt_directory(data_dir), checkpoint_directory(data_dir)));
        Self { folders, data_dir: Some(data_dir.to_owned()) }
    }

    /// Adds to a process what it needs to be stopped and to go on later.
    pub(crate) fn equip(&self, spec: &mut StartSpec, job: &Job) {
        spec.manner = StopManner {
            scope: job.signal_scope.unwrap_or_default(),
            prefers_usr1: job.slurm_env,
            exit0_finishes: job.on_preempt_exit0 == Some(OnPreemptExit0::Success),
        };
        spec.has_checkpoint = job.checkpoint_bytes.unwrap_or(0) > 0;
        // A value that the submitter gave one of these would only mislead the job.
        spec.env
            .retain(|(name, _)| !variables(&AttemptPaths::default()).iter().any(|(ours, _)| ours == name));
        self.address(spec);
        self.give_inputs(spec, job);
    }

    /// Says where the attempt finds what was sent along with its job, and the artifacts that it needs.
    fn give_inputs(&self, spec: &mut StartSpec, job: &Job) {
        if job.stdin_upload.is_some() {
            spec.stdin = self.stdin(&spec.key);
        }
        let Some(room) = self.room(&spec.key) else { return };
        let has_copy = job.upload.is_some();
        let inside = |root: &str| {
            let directory = Path::new(root).join(job.working_dir.as_deref().unwrap_or_default());
            directory.to_string_lossy().trim_end_matches('/').to_owned()
        };
        let mount = |source: PathBuf, target: &str| FileMount {
            source: source.to_string_lossy().into_owned(),
            target: target.to_owned(),
            read_only: false,
        };
        let mut inputs = room.inputs().to_string_lossy().into_owned();
        match &mut spec.container {
            Some(container) if has_copy => {
                inputs = inside(CONTAINED_WORK);
                container.working_dir = Some(inputs.clone());
                container.mounts.push(mount(room.work(), CONTAINED_WORK));
            }
            None if has_copy => {
                inputs = inside(&room.work().to_string_lossy());
                spec.cwd.clone_from(&inputs);
            }
            Some(container) if !job.inputs.is_empty() => {
                CONTAINED_INPUTS.clone_into(&mut inputs);
                container.mounts.push(mount(room.inputs(), CONTAINED_INPUTS));
            }
            Some(_) | None => {}
        }
        if !job.inputs.is_empty() {
            spec.env.push((INPUTS_VARIABLE.to_owned(), inputs));
        }
    }

    /// The room of an attempt, whether it is there or not.
    pub(crate) fn room(&self, key: &Key) -> Option<AttemptRoom> {
        self.data_dir.as_ref().map(|data_dir| AttemptRoom::of(data_dir, key))
    }

    fn stdin(&self, key: &Key) -> Option<String> {
        let (attempts, _) = self.folders.as_ref()?;
        Some(attempts.join(format!("{}.stdin", attempt_name(key))).to_string_lossy().into_owned())
    }

    /// Fills in the paths of an attempt, where they are not known.
    pub(crate) fn address(&self, spec: &mut StartSpec) {
        if spec.paths == AttemptPaths::default() {
            spec.paths = self.paths_for(&spec.key, spec.user.as_deref());
            if !spec.has_checkpoint {
                spec.paths.checkpoint.clear();
            }
            // A user of its own sees the whole room, in a container as well.
            if let (Some(_), Some((attempts, _)), None) = (&spec.container, &self.folders, &spec.user) {
                let notice = room(attempts, &spec.key).join(CONTAINED_NOTICE);
                spec.paths.notice = notice.to_string_lossy().into_owned();
            }
        }
    }

    /// Makes a start ready for its way to a keeper: one that names the files itself need not be told.
    pub(crate) fn for_the_way(spec: &mut StartSpec, keeper_names_files: bool) {
        if keeper_names_files {
            spec.paths = AttemptPaths::default();
        } else {
            let set = variables(&spec.paths).into_iter().filter(|(_, path)| !path.is_empty());
            let set: Vec<_> = set.map(|(name, path)| (name.to_owned(), path.to_owned())).collect();
            spec.env.extend(set);
        }
    }

    /// There is no checkpoint after all.
    pub(crate) fn without_checkpoint(spec: &mut StartSpec) {
        spec.has_checkpoint = false;
        spec.paths.checkpoint.clear();
    }

    /// What was put there for an attempt that was never started, but for its room.
    pub(crate) fn remove_prepared(&self, key: &Key) {
        let checkpoint = Some(self.paths(key).checkpoint).filter(|path| !path.is_empty());
        for path in checkpoint.into_iter().chain(self.stdin(key)) {
            // What cannot be removed now is removed with the other leftovers.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Files of attempts that ended, or never began, while there was no agent.
    pub(crate) fn remove_strangers(&self, known: &[Key]) {
        let Some((attempts, _)) = &self.folders else { return };
        if let Some(data_dir) = &self.data_dir {
            attempt_room::remove_strangers(data_dir, known);
        }
        let known: HashSet<String> = known.iter().map(attempt_name).collect();
        for entry in std::fs::read_dir(attempts).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let attempt =
                name.to_str().and_then(|name| name.match_indices('.').nth(1).map(|(at, _)| &name[..at]));
            if attempt.is_none_or(|attempt| !known.contains(attempt)) {
                // What cannot be removed now is tried again at the next start.
                let _ = match entry.file_type() {
                    Ok(kind) if kind.is_dir() => std::fs::remove_dir_all(entry.path()),
                    _ => std::fs::remove_file(entry.path()),
                };
            }
        }
    }

    /// The same where they may be those of a user: all of them lie in the room of the attempt, which is that user's.
    fn paths_for(&self, key: &Key, user: Option<&JobUser>) -> AttemptPaths {
        let (Some(user), Some(data_dir)) = (user, &self.data_dir) else { return self.paths(key) };
        let room = AttemptRoom::of(data_dir, key);
        let file = |name: &str| room.path().join(name).to_string_lossy().into_owned();
        let checkpoints = checkpoints_folder(data_dir).join(user.uid.to_string());
        AttemptPaths {
            notice: file(CONTAINED_NOTICE),
            done: file("done"),
            checkpoint: file("checkpoint"),
            checkpoint_out: file("checkpoint-out"),
            checkpoint_dir: checkpoints.join(file_name(&key.job_id)).to_string_lossy().into_owned(),
        }
    }

    /// All files of an attempt, whether they are there or not.
    pub(crate) fn paths(&self, key: &Key) -> AttemptPaths {
        let Some((attempts, checkpoints)) = &self.folders else { return AttemptPaths::default() };
        let (job, attempt) = (file_name(&key.job_id), attempt_name(key));
        let file = |kind: &str| attempts.join(format!("{attempt}.{kind}")).to_string_lossy().into_owned();
        AttemptPaths {
            notice: file("notice"),
            done: file("done"),
            checkpoint: file("checkpoint"),
            checkpoint_out: file("checkpoint-out"),
            checkpoint_dir: checkpoints.join(&job).to_string_lossy().into_owned(),
        }
    }
}

/// The folder that the container of an attempt and its keeper see, among the files of attempts.
pub(crate) fn room(attempts: &Path, key: &Key) -> PathBuf {
    attempts.join(format!("{}.room", attempt_name(key)))
}

/// The variables that name the files of an attempt; those that are empty are not set.
pub(crate) fn variables(paths: &AttemptPaths) -> [(&'static str, &str); 5] {
    [
        (NOTICE_VARIABLE, &paths.notice),
        (DONE_VARIABLE, &paths.done),
        (CHECKPOINT_VARIABLE, &paths.checkpoint),
        (CHECKPOINT_OUT_VARIABLE, &paths.checkpoint_out),
        (CHECKPOINT_DIR_VARIABLE, &paths.checkpoint_dir),
    ]
}

/// What the names of all files of an attempt begin with; the job's part has no dot in it.
pub(crate) fn attempt_name(key: &Key) -> String {
    format!("{}.{}", file_name(&key.job_id), key.lease)
}

/// An id as a name of a file: ids of our scheduler stay as they are, nothing leads out of the folder, and no two
/// ids get the same name.
pub(crate) fn file_name(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let mut name = String::with_capacity(id.len());
    for byte in id.bytes() {
        if plain(byte) {
            name.push(char::from(byte));
        } else {
            let _ = write!(name, "%{byte:02x}");
        }
    }
    if name.is_empty() {
        name.push('%');
    }
    if name.len() > LONGEST_NAME {
        name.truncate(LONGEST_NAME);
        // Writing to a String cannot fail.
        let _ = write!(name, "%%{:016x}", fingerprint(id.as_bytes()));
    }
    name
}

/// A number that tells texts apart: FNV-1a, which is the same in every build.
pub(crate) fn fingerprint(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;
    use crate::launch;

    fn equipped(extra: &Value) -> StartSpec {
        let mut value = json!({"id": "job-1", "command": "x", "status": "running", "attempts": 2,
            "max_retries": 3, "created_at": "2026-01-01T00:00:00Z", "lease": 7});
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let job: Job = serde_json::from_value(value).unwrap();
        let mut spec = launch::start_spec(&job, &[], Path::new("/"), Duration::ZERO);
        AttemptFiles::new(Path::new("/data")).equip(&mut spec, &job);
        spec
    }

    /// As the keeper sees it: on the way the paths are left out, or are variables already.
    fn variable(spec: &StartSpec, name: &str) -> Option<String> {
        assert!(!spec.env.iter().any(|(known, _)| known == name), "only the keeper sets it");
        let found = |keeper_names_files: bool| {
            let mut sent = spec.clone();
            AttemptFiles::for_the_way(&mut sent, keeper_names_files);
            let mut came: StartSpec = serde_json::from_value(serde_json::to_value(&sent).unwrap()).unwrap();
            AttemptFiles::new(Path::new("/data")).address(&mut came);
            let given = variables(&came.paths).into_iter().find(|(known, _)| *known == name);
            let given = given.map(|(_, path)| path.to_owned()).filter(|path| !path.is_empty());
            let told = came.env.into_iter().find(|(known, _)| known == name).map(|(_, value)| value);
            assert_eq!(told, given.clone().filter(|_| !keeper_names_files));
            given
        };
        assert_eq!(found(true), found(false));
        found(true)
    }

    #[test]
    fn every_attempt_has_paths_of_its_own_and_a_job_one_directory() {
        let spec = equipped(&json!({"env": {"MUSTER_DONE_FILE": "/etc/passwd"}}));
        assert_eq!(variable(&spec, NOTICE_VARIABLE).as_deref(), Some("/data/attempts/job-1.7.notice"));
        assert_eq!(variable(&spec, DONE_VARIABLE).as_deref(), Some("/data/attempts/job-1.7.done"));
        assert_eq!(
            variable(&spec, CHECKPOINT_OUT_VARIABLE).as_deref(),
            Some("/data/attempts/job-1.7.checkpoint-out")
        );
        assert_eq!(variable(&spec, CHECKPOINT_DIR_VARIABLE).as_deref(), Some("/data/checkpoints/job-1"));
        assert_eq!(variable(&spec, CHECKPOINT_VARIABLE), None);
        assert_eq!(spec.manner, StopManner::default());
    }

    #[test]
    fn a_checkpoint_is_named_only_when_there_is_one() {
        let mut spec = equipped(&json!({"checkpoint_bytes": 5, "env": {"MUSTER_CHECKPOINT_FILE": "x"}}));
        assert_eq!(
            variable(&spec, CHECKPOINT_VARIABLE).as_deref(),
            Some("/data/attempts/job-1.7.checkpoint")
        );
        AttemptFiles::without_checkpoint(&mut spec);
        assert_eq!(variable(&spec, CHECKPOINT_VARIABLE), None);
        let none = equipped(&json!({"checkpoint_bytes": 0, "env": {"MUSTER_CHECKPOINT_FILE": "x"}}));
        assert_eq!(variable(&none, CHECKPOINT_VARIABLE), None);
    }

    #[test]
    fn the_job_says_how_it_wants_to_be_stopped() {
        let spec =
            equipped(&json!({"signal_scope": "leader", "slurm_env": true, "on_preempt_exit0": "success"}));
        let scope = muster_protocol::SignalScope::Leader;
        assert_eq!(spec.manner, StopManner { scope, prefers_usr1: true, exit0_finishes: true });
    }

    #[test]
    fn only_files_of_attempts_that_are_known_stay() {
        let root = tempfile::tempdir().unwrap();
        let files = AttemptFiles::new(root.path());
        std::fs::create_dir(attempt_directory(root.path())).unwrap();
        let key = |job: &str, lease| Key { job_id: job.into(), lease };
        let known = key("job.1", 7);
        for key in [&known, &key("job.1", 8), &key("job-2", 7)] {
            std::fs::write(files.paths(key).checkpoint, "").unwrap();
        }
        std::fs::write(files.paths(&known).notice, "").unwrap();
        std::fs::write(attempt_directory(root.path()).join("stray"), "").unwrap();
        files.remove_strangers(std::slice::from_ref(&known));
        let left = std::fs::read_dir(attempt_directory(root.path())).unwrap().count();
        assert!(left == 2 && Path::new(&files.paths(&known).checkpoint).exists());
    }

    #[test]
    fn no_id_leads_out_of_the_folder() {
        assert_eq!(file_name("job-1_a"), "job-1_a");
        assert_eq!(file_name("../x y"), "%2e%2e%2fx%20y");
        assert_eq!(file_name(""), "%");
        let long = |end: &str| file_name(&format!("{}{end}", "x".repeat(5_000)));
        assert!(long("a").len() < 200 && long("a") != long("b"));
    }
}
