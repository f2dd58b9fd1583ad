//! The jobs that the worker holds a lease on, from the claim until the scheduler has answered for the end.
//!
//! Guarantee: the fence never lies beyond the shortest lease of a job that may have a process.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use muster_protocol::LeaseRef;
use tokio::time::Instant;

use crate::attempt_room::AttemptRoom;
use crate::keeper::{End, Files, Key};
use crate::launch::Note;

/// Where a held job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// What it needs before its start is being brought; the executor does not know it.
    Preparing,
    /// A task of a gang that is ready and waits for the word to start; the executor does not know it.
    Prepared,
    /// With the executor, not started.
    Queued,
    Running,
    /// Ended; its artifacts are on the way to the scheduler.
    Keeping(Box<End>),
    /// Ended; its checkpoint is on the way to the scheduler.
    Saving(Box<End>),
    /// Ended; its output is on the way.
    Flushing(Box<End>),
    /// Ended; the report is waiting or on the way.
    Reporting,
}

impl Stage {
    fn is_live(&self) -> bool {
        matches!(self, Self::Preparing | Self::Prepared | Self::Queued | Self::Running)
    }
}

/// One job.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) note: Note,
    pub(super) stage: Stage,
    /// When the request was sent that last renewed the lease; unknown for an adopted job.
    renewed_ns: Option<u64>,
    /// The lease is lost; the process is being stopped.
    pub(super) lost: bool,
    pub(super) files: Option<Files>,
    /// The file that goes when the report is answered; empty where there is none.
    pub(super) result: String,
    /// The same for the checkpoint that the job left.
    pub(super) checkpoint: String,
    /// What goes with the attempt.
    pub(super) room: Option<AttemptRoom>,
}

impl Held {
    /// The scheduler has what the job left for its dependants and for itself, or does not want it.
    pub(super) fn remove_files(&self) {
        for path in [&self.result, &self.checkpoint] {
            if !path.is_empty() {
                // What cannot be removed is removed with the other leftovers.
                let _ = std::fs::remove_file(path);
            }
        }
        if let Some(room) = &self.room {
            room.clone().remove_soon();
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct HeldJobs {
    jobs: HashMap<Key, Held>,
    /// Without a process and unknown to the executor.
    unstarted: usize,
    queued: usize,
    running: usize,
    /// Queued jobs in the order they came; entries of jobs that moved on are skipped.
    waiting: VecDeque<(Key, Instant)>,
}

impl HeldJobs {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Jobs that have or will have a process.
    pub(super) fn live(&self) -> usize {
        self.unstarted + self.queued + self.running
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.jobs.contains_key(key)
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Held> {
        self.jobs.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Held> {
        self.jobs.get_mut(key)
    }

    /// Takes a job up in a given stage.
    pub(super) fn insert(&mut self, key: Key, note: Note, stage: Stage, renewed_ns: Option<u64>) {
        if self.jobs.contains_key(&key) {
            return;
        }
        if stage == Stage::Queued {
            self.waiting.push_back((key.clone(), Instant::now()));
        }
        self.count(&stage, 1);
        let (result, checkpoint) = (String::new(), String::new());
        let (lost, files, room) = (false, None, None);
        self.jobs.insert(key, Held { note, stage, renewed_ns, lost, files, result, checkpoint, room });
    }

    /// Moves a job on and returns the stage that it leaves.
    pub(super) fn advance(&mut self, key: &Key, stage: Stage) -> Option<Stage> {
        if !self.jobs.contains_key(key) {
            return None;
        }
        if stage == Stage::Queued {
            self.waiting.push_back((key.clone(), Instant::now()));
        }
        self.count(&stage, 1);
        let before = std::mem::replace(&mut self.jobs.get_mut(key)?.stage, stage);
        self.count(&before, -1);
        Some(before)
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Held> {
        let held = self.jobs.remove(key)?;
        self.count(&held.stage, -1);
        Some(held)
    }

    fn count(&mut self, stage: &Stage, change: isize) {
        let counter = match stage {
            Stage::Preparing | Stage::Prepared => &mut self.unstarted,
            Stage::Queued => &mut self.queued,
            Stage::Running => &mut self.running,
            Stage::Keeping(_) | Stage::Saving(_) | Stage::Flushing(_) | Stage::Reporting => return,
        };
        *counter = counter.saturating_add_signed(change);
    }

    /// A heartbeat or claim that was sent at this time has renewed the lease.
    pub(super) fn renew(&mut self, key: &Key, sent_ns: u64) {
        if let Some(held) = self.jobs.get_mut(key) {
            held.renewed_ns = held.renewed_ns.max(Some(sent_ns));
        }
    }

    /// What a heartbeat must name: the leases that are closest to their end, at most so many.
    pub(super) fn leases(&self, most: usize) -> Vec<LeaseRef> {
        let mut renewable: Vec<_> = self.jobs.iter().filter(|(_, held)| !held.lost).collect();
        if renewable.len() > most {
            renewable.sort_unstable_by_key(|(_, held)| held.renewed_ns);
            renewable.truncate(most);
        }
        renewable
            .iter()
            .map(|(key, _)| LeaseRef { job_id: key.job_id.to_string(), lease: key.lease })
            .collect()
    }

    /// The keys of all jobs that have or will have a process.
    pub(super) fn live_keys(&self) -> Vec<Key> {
        self.jobs.iter().filter(|(_, held)| held.stage.is_live()).map(|(key, _)| key.clone()).collect()
    }

    /// The keys of all jobs that the executor has or should have.
    pub(super) fn keeper_keys(&self) -> Vec<Key> {
        let known = |held: &Held| matches!(held.stage, Stage::Queued | Stage::Running);
        self.jobs.iter().filter(|(_, held)| known(held)).map(|(key, _)| key.clone()).collect()
    }

    /// The keys of all jobs that are being prepared or wait for the others of their gang.
    pub(super) fn unstarted_keys(&self) -> Vec<Key> {
        let unstarted = |held: &Held| matches!(held.stage, Stage::Preparing | Stage::Prepared);
        self.jobs.iter().filter(|(_, held)| unstarted(held)).map(|(key, _)| key.clone()).collect()
    }

    /// The tasks that are ready for their start, in one order.
    pub(super) fn prepared(&self) -> Vec<LeaseRef> {
        let prepared = self.jobs.iter().filter(|(_, held)| held.stage == Stage::Prepared && !held.lost);
        let mut found: Vec<LeaseRef> =
            prepared.map(|(key, _)| LeaseRef { job_id: key.job_id.to_string(), lease: key.lease }).collect();
        found.sort_unstable_by(|one, other| (&one.job_id, one.lease).cmp(&(&other.job_id, other.lease)));
        found
    }

    /// Whether the lease of a job was renewed so lately that its process may start.
    pub(super) fn is_fresh(&self, key: &Key, lease: Duration, now_ns: u64) -> bool {
        let renewed = self.jobs.get(key).and_then(|held| held.renewed_ns);
        renewed.is_some_and(|at| now_ns < at.saturating_add(lease.as_nanos() as u64))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.jobs.keys()
    }

    /// Whether artifacts or a checkpoint are on their way to the scheduler.
    pub(super) fn is_saving(&self) -> bool {
        self.jobs.values().any(|held| matches!(held.stage, Stage::Keeping(_) | Stage::Saving(_)))
    }

    /// The keys of all jobs that wait for a slot.
    pub(super) fn queued_keys(&self) -> Vec<Key> {
        let queued = self.jobs.iter().filter(|(_, held)| held.stage == Stage::Queued);
        queued.map(|(key, _)| key.clone()).collect()
    }

    /// Until when the oldest leases last. `None` when there is nothing to fence, or when the age of a
    /// lease is not known and the fence must stay where it is.
    pub(super) fn fence_ns(&self, lease: Duration) -> Option<u64> {
        let mut live = self.jobs.values().filter(|held| held.stage.is_live() && !held.lost).peekable();
        live.peek()?;
        let oldest = live.map(|held| held.renewed_ns).min()??;
        Some(oldest.saturating_add(u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// Since when the job that has waited longest for a slot waits.
    pub(super) fn waiting_since(&mut self) -> Option<Instant> {
        while let Some((key, since)) = self.waiting.front() {
            if self.jobs.get(key).is_some_and(|held| held.stage == Stage::Queued) {
                return Some(*since);
            }
            self.waiting.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_nanos(100);

    fn key(lease: u64) -> Key {
        Key { job_id: "job".into(), lease }
    }

    fn note() -> Note {
        Note {
            attempt: 1,
            grace_ms: 0,
            demo: false,
            output: None,
            once: false,
            room: false,
            wanted: None,
            user: None,
        }
    }

    #[test]
    fn the_fence_follows_the_oldest_lease_of_a_live_job() {
        let mut held = HeldJobs::default();
        assert_eq!(held.fence_ns(LEASE), None);
        held.insert(key(1), note(), Stage::Queued, Some(1_000));
        held.insert(key(2), note(), Stage::Running, Some(2_000));
        assert_eq!(held.fence_ns(LEASE), Some(1_100));
        held.renew(&key(1), 3_000);
        assert_eq!(held.fence_ns(LEASE), Some(2_100));
        held.renew(&key(1), 500);
        held.advance(&key(2), Stage::Reporting);
        assert_eq!(held.fence_ns(LEASE), Some(3_100), "a late answer does not shorten a lease");
    }

    #[test]
    fn an_adopted_job_keeps_the_fence_where_it_is_until_it_is_renewed() {
        let mut held = HeldJobs::default();
        held.insert(key(1), note(), Stage::Running, None);
        held.insert(key(2), note(), Stage::Running, Some(5));
        assert_eq!(held.fence_ns(LEASE), None);
        held.renew(&key(1), 7);
        assert_eq!(held.fence_ns(LEASE), Some(105));
    }

    #[test]
    fn the_oldest_leases_are_renewed_first() {
        let mut held = HeldJobs::default();
        for (lease, renewed) in [(1, Some(30)), (2, Some(10)), (3, None), (4, Some(20))] {
            held.insert(key(lease), note(), Stage::Running, renewed);
        }
        let leases: Vec<u64> = held.leases(2).iter().map(|named| named.lease).collect();
        assert_eq!(leases, [3, 2]);
        assert_eq!(held.leases(10).len(), 4);
    }

    #[test]
    fn stages_are_counted() {
        let mut held = HeldJobs::default();
        held.insert(key(1), note(), Stage::Queued, None);
        held.insert(key(2), note(), Stage::Queued, None);
        assert_eq!((held.queued(), held.live()), (2, 2));
        held.advance(&key(1), Stage::Running);
        assert_eq!((held.queued(), held.live()), (1, 2));
        assert!(held.waiting_since().is_some());
        held.advance(&key(2), Stage::Reporting);
        assert!(held.waiting_since().is_none());
        held.remove(&key(1));
        assert_eq!((held.queued(), held.live(), held.len()), (0, 0, 1));
    }
}
