//! How much output there is and how old it is, one part of the directory at a time.
//!
//! Guarantee: memory is bounded by one part of 256, however many jobs there are.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_domain::JobId;

use super::files::LogStore;

/// Parts that the directory has.
pub(crate) const SHARDS: u16 = 256;
/// Ages are told apart this finely when the oldest output has to go.
const BUCKET_SECONDS: u64 = 60;

/// The output of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) job: JobId,
    pub(crate) bytes: u64,
    /// When its output grew last.
    pub(crate) changed: SystemTime,
}

impl Held {
    fn bucket(&self) -> u64 {
        self.changed.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / BUCKET_SECONDS
    }
}

/// The sum of everything, by age.
#[derive(Debug, Default)]
pub(crate) struct Census {
    total: u64,
    buckets: BTreeMap<u64, u64>,
}

/// Output that changed before the end of this age has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cutoff(u64);

impl Cutoff {
    pub(crate) fn covers(self, held: &Held) -> bool {
        held.bucket() <= self.0
    }
}

impl Census {
    pub(crate) fn count(&mut self, held: &Held) {
        self.total += held.bytes;
        *self.buckets.entry(held.bucket()).or_default() += held.bytes;
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The age up to which output has to go so that `excess` bytes are freed.
    pub(crate) fn cutoff(&self, excess: u64) -> Option<Cutoff> {
        let mut freed = 0;
        self.buckets.iter().find_map(|(bucket, bytes)| {
            freed += bytes;
            (freed >= excess).then_some(Cutoff(*bucket))
        })
    }
}

impl LogStore {
    /// Bytes that came since this was asked last.
    pub(crate) fn take_added(&self) -> u64 {
        self.added.swap(0, Ordering::Relaxed)
    }

    /// The output in one part of the directory.
    pub(crate) async fn shard(self: &Arc<Self>, number: u16) -> io::Result<Vec<Held>> {
        let directory = self.root.join(format!("{number:02x}"));
        tokio::task::spawn_blocking(move || shard(&directory)).await.map_err(io::Error::other)?
    }

    /// Jobs that have something in one part of the directory.
    pub(crate) async fn shard_jobs(self: &Arc<Self>, number: u16) -> io::Result<Vec<JobId>> {
        let directory = self.root.join(format!("{number:02x}"));
        tokio::task::spawn_blocking(move || names(&directory)).await.map_err(io::Error::other)?
    }

    /// Jobs whose directory has not changed for longer than `age`, at most `most` of them.
    pub(crate) async fn old_jobs(self: &Arc<Self>, age: Duration, most: usize) -> io::Result<Vec<JobId>> {
        let root = self.root.clone();
        tokio::task::spawn_blocking(move || old_jobs(&root, age, most)).await.map_err(io::Error::other)?
    }
}

fn names(directory: &Path) -> io::Result<Vec<JobId>> {
    match fs::read_dir(directory) {
        Ok(entries) => {
            Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn shard(directory: &Path) -> io::Result<Vec<Held>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Some(job) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let mut held = Held { job, bytes: 0, changed: UNIX_EPOCH };
        // A file that vanishes meanwhile needs no space.
        let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        for file in files.filter_map(|file| Some((file.file_name(), file.metadata().ok()?))) {
            if !file.0.to_string_lossy().ends_with(".gone") {
                held.bytes += file.1.len();
                held.changed = held.changed.max(file.1.modified().unwrap_or(UNIX_EPOCH));
            }
        }
        if held.bytes > 0 {
            found.push(held);
        }
    }
    Ok(found)
}

fn old_jobs(root: &Path, age: Duration, most: usize) -> io::Result<Vec<JobId>> {
    let Some(before) = SystemTime::now().checked_sub(age) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for shard in fs::read_dir(root)?.flatten() {
        for entry in fs::read_dir(shard.path()).into_iter().flatten().flatten() {
            let Some(job) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let changed = entry.metadata().and_then(|metadata| metadata.modified());
            if changed.is_ok_and(|changed| changed < before) {
                found.push(job);
            }
            if found.len() == most {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_until_enough_is_free() {
        let job = JobId::from_random([1; 16]);
        let held = |minute: u64, bytes| Held {
            job,
            bytes,
            changed: UNIX_EPOCH + Duration::from_secs(minute * BUCKET_SECONDS),
        };
        let mut census = Census::default();
        for (minute, bytes) in [(3, 100), (1, 50), (2, 70)] {
            census.count(&held(minute, bytes));
        }
        assert_eq!(census.total(), 220);
        let covered = |excess| {
            let cutoff = census.cutoff(excess).unwrap();
            [1, 2, 3].map(|minute| cutoff.covers(&held(minute, 0)))
        };
        assert_eq!(covered(1), [true, false, false]);
        assert_eq!(covered(51), [true, true, false]);
        assert_eq!(covered(220), [true, true, true]);
        assert_eq!(census.cutoff(221), None);
    }
}
