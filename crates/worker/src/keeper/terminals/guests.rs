//! The guests of attempts: programs that people run beside those of a job.
//!
//! Guarantees: a guest is signalled only while it is unreaped; once the leader of its attempt is reaped no guest is let in,
//! and those that are there have been told to die; an attempt ends after its guests, those included whose process is just
//! being made, so that none is made inside of the group of the next attempt.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::libc;

use super::super::cgroups::Way;
use super::super::message::Key;
use super::super::process_tree::ProcessTree;
use super::super::signals;
use super::super::table::{Life, Table};
use crate::job_user::JobUser;

/// A guest that takes longer to die hangs in the kernel.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The guests of all attempts.
#[derive(Debug, Default)]
pub(in super::super) struct Guests {
    by_attempt: HashMap<Key, Party>,
}

/// The guests of one attempt.
#[derive(Debug, Default)]
struct Party {
    /// By number; unreaped as long as they are here.
    present: Vec<u32>,
    /// How many are about to get a process.
    expected: u32,
}

/// What a guest is let in to.
#[derive(Debug)]
pub(super) struct Host {
    /// The first process of the attempt.
    pub(super) leader: u32,
    /// How that went into its group, where attempts have groups.
    pub(super) way: Option<Way>,
    pub(super) has_own_tmp: bool,
    /// It stands for a container.
    pub(super) is_contained: bool,
    /// The user that the attempt runs as, where that is not the keeper's.
    pub(super) user: Option<Box<JobUser>>,
}

/// How many guests there are, to be asked without the lock.
#[derive(Debug, Default)]
pub(in super::super) struct GuestCount(AtomicUsize);

impl Guests {
    /// Tells those of an attempt to die that has ended.
    pub(in super::super) fn end(&self, key: &Key) {
        self.of(key).iter().for_each(|pid| signals::kill(*pid));
    }

    /// Those of an attempt that have a process.
    pub(in super::super) fn of(&self, key: &Key) -> &[u32] {
        self.by_attempt.get(key).map_or(&[], |party| &party.present)
    }

    fn has(&self, key: &Key, pid: u32) -> bool {
        self.of(key).contains(&pid)
    }

    fn change(&mut self, key: &Key, change: impl FnOnce(&mut Party)) {
        let party = self.by_attempt.entry(key.clone()).or_default();
        change(party);
        if party.present.is_empty() && party.expected == 0 {
            self.by_attempt.remove(key);
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

    /// Announces a guest whose process is about to be made; nobody when the attempt has no process.
    pub(super) fn expect_guest(&self, key: &Key) -> Option<Host> {
        let mut state = self.lock();
        let entry = state.jobs.get(key)?;
        let Life::Running { pid: leader, .. } = entry.life else { return None };
        let host = Host {
            leader,
            is_contained: entry.is_contained,
            way: entry.way.clone(),
            has_own_tmp: entry.has_own_tmp,
            user: entry.user.clone(),
        };
        state.guests.change(key, |party| party.expected += 1);
        self.guest_count.0.fetch_add(1, Ordering::Relaxed);
        Some(host)
    }

    /// Takes a guest in that was expected, unless the attempt has just ended.
    pub(super) fn admit_guest(&self, key: &Key, leader: u32, pid: u32) -> bool {
        let mut state = self.lock();
        let running = state
            .jobs
            .get(key)
            .is_some_and(|entry| matches!(entry.life, Life::Running { pid, .. } if pid == leader));
        if running {
            state.guests.change(key, |party| party.present.push(pid));
        }
        running
    }

    /// Forgets that a guest was expected: it was taken in, or it is gone.
    pub(super) fn unexpect_guest(&self, key: &Key, came: bool) {
        self.lock().guests.change(key, |party| party.expected -= 1);
        if !came {
            self.guest_count.0.fetch_sub(1, Ordering::Relaxed);
        }
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
        state.guests.change(key, |party| party.present.retain(|guest| *guest != pid));
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
