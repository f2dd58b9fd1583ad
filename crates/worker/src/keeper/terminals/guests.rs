//! The guests of attempts: programs that people run beside those of a job.
//!
//! Guarantees: a guest is signalled only while it is unreaped; once the leader of its attempt is reaped no guest is let in,
//! and those that are there have been told to die.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::libc;

use super::super::message::Key;
use super::super::process_tree::ProcessTree;
use super::super::signals;
use super::super::table::{Life, Table};
use crate::job_user::JobUser;

/// A guest that takes longer to die hangs in the kernel.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The guests of all attempts, by number; unreaped as long as they are here.
#[derive(Debug, Default)]
pub(in super::super) struct Guests {
    by_attempt: HashMap<Key, Vec<u32>>,
}

/// How many guests there are, to be asked without the lock.
#[derive(Debug, Default)]
pub(in super::super) struct GuestCount(AtomicUsize);

impl Guests {
    /// Tells those of an attempt to die that has ended.
    pub(in super::super) fn end(&self, key: &Key) {
        self.by_attempt.get(key).into_iter().flatten().for_each(|pid| signals::kill(*pid));
    }

    fn has(&self, key: &Key, pid: u32) -> bool {
        self.by_attempt.get(key).is_some_and(|guests| guests.contains(&pid))
    }

    fn remove(&mut self, key: &Key, pid: u32) {
        if let Some(guests) = self.by_attempt.get_mut(key) {
            guests.retain(|guest| *guest != pid);
            if guests.is_empty() {
                self.by_attempt.remove(key);
            }
        }
    }
}

impl Table {
    /// The first process of an attempt, as long as it is unreaped.
    pub(super) fn leader(&self, key: &Key) -> Option<u32> {
        match self.lock().jobs.get(key)?.life {
            Life::Running { pid, .. } => Some(pid),
            Life::Queued(_) | Life::Starting | Life::Ended(_) => None,
        }
    }

    /// The user that the attempt runs as, where that is not the keeper's.
    pub(super) fn user(&self, key: &Key) -> Option<Box<JobUser>> {
        self.lock().jobs.get(key)?.user.clone()
    }

    /// Whether the attempt runs in a container.
    pub(super) fn is_contained(&self, key: &Key) -> bool {
        self.lock().jobs.get(key).is_some_and(|entry| entry.is_contained)
    }

    /// Takes a guest in, unless the attempt has just ended.
    pub(super) fn admit_guest(&self, key: &Key, leader: u32, pid: u32) -> bool {
        let mut state = self.lock();
        let running = state
            .jobs
            .get(key)
            .is_some_and(|entry| matches!(entry.life, Life::Running { pid, .. } if pid == leader));
        if running {
            state.guests.by_attempt.entry(key.clone()).or_default().push(pid);
            self.guest_count.0.fetch_add(1, Ordering::Relaxed);
        }
        running
    }

    /// Signals the group of a guest, if it is unreaped.
    pub(super) fn signal_guest(&self, key: &Key, pid: u32, signal: i32) {
        if self.lock().guests.has(key, pid) {
            signals::resume(pid);
            signals::to_group(pid, signal);
        }
    }

    /// Kills a guest and everything that it has started.
    pub(super) fn kill_guest(&self, key: &Key, pid: u32) {
        let state = self.lock();
        if state.guests.has(key, pid) {
            let below = ProcessTree::read().descendants(pid.cast_signed());
            signals::kill(pid);
            for process in below {
                process.signal(libc::SIGKILL);
            }
        }
    }

    /// Reaps a guest and forgets it, in one step.
    pub(super) fn dismiss_guest<T>(&self, key: &Key, pid: u32, reap: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        let reaped = reap();
        state.guests.remove(key, pid);
        self.guest_count.0.fetch_sub(1, Ordering::Relaxed);
        reaped
    }

    /// Waits until the guests of an attempt are gone that were told to die.
    pub(in super::super) fn await_guests(&self, key: &Key) {
        // The leader was reaped under the lock: whoever was let in before that is counted.
        if self.guest_count.0.load(Ordering::Relaxed) == 0 {
            return;
        }
        let begun = Instant::now();
        while self.lock().guests.by_attempt.contains_key(key) {
            if begun.elapsed() > PATIENCE {
                return eprintln!("keeper: a program that was run beside {key} does not die");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
