//! Checkpoints that attempts leave: saved before the end is reported.
//!
//! Guarantees: an end is reported whatever becomes of the checkpoint; what is in memory at a time is bounded.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use muster_client::{Client, ClientError, Proof};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use super::agent_loop::Agent;
use super::held::Stage;
use super::start::{RETRY_FIRST, RETRY_MOST};
use crate::attempt_files::file_name;
use crate::backoff::Backoff;
use crate::checkpoint_dirs;
use crate::job_user::{JobUser, acting_as, checkpoints_folder, open_plain, sweep_checkpoints};
use crate::keeper::{End, Key, Outcome, StopCause};

/// How many checkpoints are in memory at a time.
const UPLOADS: usize = 2;
/// How long a scheduler that answers, but not well, is asked again. One that does not answer at all could not take
/// the report either, so that it is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often directories are looked through.
pub(super) const SWEEP: Duration = Duration::from_secs(3600);

/// A checkpoint that was saved, with how many bytes it had, or was not.
#[derive(Debug)]
pub(super) struct Saved {
    key: Key,
    result: Result<usize, String>,
}

/// What is to be saved.
#[derive(Debug)]
enum Source {
    File(PathBuf, Option<JobUser>),
    Bytes(Bytes),
}

/// All that are on their way.
#[derive(Debug)]
pub(super) struct Checkpoints {
    client: Client,
    limit: u64,
    room: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<Saved>,
    receiver: mpsc::UnboundedReceiver<Saved>,
    pub(super) next_sweep: Instant,
}

impl Checkpoints {
    pub(super) fn new(client: Client, limit: u64) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(UPLOADS));
        Self { client, limit, room, sender, receiver, next_sweep: Instant::now() }
    }

    /// The next thing that happened.
    pub(super) async fn next(&mut self) -> Option<Saved> {
        self.receiver.recv().await
    }

    fn save(&self, key: Key, epoch: Option<u32>, source: Source) {
        let (client, sender, room) = (self.client.clone(), self.sender.clone(), Arc::clone(&self.room));
        let limit = self.limit;
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _room = room.acquire().await;
            let result = save(&client, &key, epoch, source, limit).await;
            let _ = sender.send(Saved { key, result });
        });
    }
}

async fn save(
    client: &Client,
    key: &Key,
    epoch: Option<u32>,
    source: Source,
    limit: u64,
) -> Result<usize, String> {
    let bytes = match source {
        Source::Bytes(bytes) => bytes,
        Source::File(path, user) => {
            let read = tokio::task::spawn_blocking(move || read(&path, user.as_ref(), limit)).await;
            read.map_err(|error| error.to_string())??
        }
    };
    let proof = Proof { lease: Some(key.lease), token: None };
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
    let mut answered: Option<Instant> = None;
    loop {
        let error = match client.save_checkpoint(&key.job_id, &proof, epoch, bytes.clone()).await {
            Ok(()) => return Ok(bytes.len()),
            Err(error) => error,
        };
        if !matches!(error, ClientError::Unreachable { .. }) {
            let since = *answered.get_or_insert_with(Instant::now);
            if !error.is_transient() || since.elapsed() > PATIENCE {
                return Err(format!("{} bytes: {error}", bytes.len()));
            }
        }
        tokio::time::sleep(backoff.fail()).await;
    }
}

/// The job may have put anything in the place of the file, so nothing is followed and nothing waited for.
fn read(path: &Path, user: Option<&JobUser>, limit: u64) -> Result<Bytes, String> {
    let open = || {
        let file = open_plain(path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
    };
    let (file, length) = acting_as(user, open).map_err(|error| format!("it cannot be read: {error}"))?;
    let too_long = |length: u64| format!("it has {length} bytes, and a worker takes at most {limit}");
    if length > limit {
        return Err(too_long(length));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 > limit {
        return Err(too_long(bytes.len() as u64));
    }
    Ok(Bytes::from(bytes))
}

impl Agent {
    /// Saves what an ended attempt left before anything is said about its end. Returns the end when there is
    /// nothing to save.
    pub(super) fn save_first(&mut self, key: &Key, demo: bool, end: End) -> Option<End> {
        let epoch = (end.epoch > 0).then_some(end.epoch);
        let source = if !end.files.checkpoint.is_empty() {
            let user = self.held.get(key).and_then(|held| held.note.user.clone());
            Source::File(PathBuf::from(&end.files.checkpoint), user)
        } else if demo && end.cause == Some(StopCause::Order) && ran(&end.outcome) {
            Source::Bytes(demo_checkpoint(key, &end))
        } else {
            return Some(end);
        };
        self.held.advance(key, Stage::Saving(Box::new(end)));
        self.checkpoints.save(key.clone(), epoch, source);
        None
    }

    pub(super) fn on_saved(&mut self, saved: Saved) {
        let Saved { key, result } = saved;
        let key = &key;
        let Some(held) = self.held.get_mut(key) else { return };
        let demo = held.note.demo;
        let Stage::Saving(end) = std::mem::replace(&mut held.stage, Stage::Reporting) else { return };
        let mut end = *end;
        match result {
            Ok(bytes) => {
                let saved = if demo { "demo checkpoint saved" } else { "checkpoint saved" };
                tracing::info!(job_id = %key.job_id, preemption_epoch = end.epoch, bytes, "{saved}");
            }
            Err(message) => {
                tracing::warn!(job_id = %key.job_id, preemption_epoch = end.epoch, error = message, "checkpoint not saved");
                let message = format!("its checkpoint was not saved: {message}");
                end.complaint = Some(match end.complaint {
                    Some(before) => format!("{before}; {message}"),
                    None => message,
                });
            }
        }
        self.conclude(key, end);
    }

    /// Removes old directories now and then, away from the loop.
    pub(super) fn sweep_checkpoints(&mut self, now: Instant) {
        if now < self.checkpoints.next_sweep || self.keeper.is_none() {
            return;
        }
        self.checkpoints.next_sweep = now + SWEEP;
        let in_use: HashSet<String> = self.held.keys().map(|key| file_name(&key.job_id)).collect();
        let (folder, keep) = (self.checkpoint_dir.clone(), self.config.timing.checkpoint_dirs);
        let of_users = folder.parent().map(checkpoints_folder);
        tokio::task::spawn_blocking(move || {
            let now = SystemTime::now();
            let of_users = of_users.map_or(0, |folder| sweep_checkpoints(&folder, keep, &in_use, now));
            let removed = checkpoint_dirs::sweep(&folder, keep, &in_use, now) + of_users;
            if removed > 0 {
                tracing::info!(
                    count = removed,
                    "removed directories of checkpoints that were not used for long"
                );
            }
        });
    }
}

fn ran(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Exited(_) | Outcome::Signalled(_))
}

/// What the demonstration of the old system leaves.
fn demo_checkpoint(key: &Key, end: &End) -> Bytes {
    let object = json!({
        "task_id": &*key.job_id,
        "epoch": end.epoch,
        "elapsed_ms": end.run_us / 1000,
        "demo": true,
    });
    Bytes::from(object.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_file_of_a_bounded_size_is_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("out");
        assert!(read(&path, None, 10).unwrap_err().contains("cannot be read"));
        std::fs::write(&path, [0, 255, 10]).unwrap();
        assert_eq!(read(&path, None, 3).unwrap().as_ref(), [0, 255, 10]);
        assert_eq!(read(&path, None, 2).unwrap_err(), "it has 3 bytes, and a worker takes at most 2");
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert!(read(&path, None, 1000).unwrap_err().contains("cannot be read"));
        std::fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&path, None, 1000).unwrap_err().contains("not a plain file"));
    }

    #[test]
    fn the_demonstration_leaves_its_four_keys() {
        let key = Key { job_id: "job-1".into(), lease: 3 };
        let end = End { epoch: 2, run_us: 1_234_567, ..End::of(Outcome::Signalled(15)) };
        let value: serde_json::Value = serde_json::from_slice(&demo_checkpoint(&key, &end)).unwrap();
        assert_eq!(value, json!({"task_id": "job-1", "epoch": 2, "elapsed_ms": 1234, "demo": true}));
    }
}
