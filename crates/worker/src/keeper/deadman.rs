//! Deadlines: the kill after a grace period, the fence, and the end of a keeper that nobody needs.

use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::{boottime_ns, ms};
use super::message::{Key, StopCause};
use super::outputs::remove_empty;
use super::signals;
use super::socket::socket_path;
use super::table::{Life, State, Table};

/// The condition variable's clock stands still while the machine sleeps, so deadlines are looked at
/// this often although each has its own wake-up.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Between two kills when the keeper ends, and how many there are at most.
const KILL_ROUND: Duration = Duration::from_millis(20);
const KILL_ROUNDS: u32 = 250;

/// Runs until the keeper may end, then removes its socket.
pub(super) fn watch(table: &Arc<Table>, directory: &Path) {
    let mut state = table.lock();
    loop {
        let now = boottime_ns();
        if state.shutdown {
            break;
        }
        if signals::terminate_requested() && state.agent.is_none() {
            stop_everything(&mut state);
        }
        enforce_fence(&mut state, now);
        kill_overdue(&mut state, now);
        if state.agent.is_none() && may_end(&state, now) {
            break;
        }
        if !state.outbox.is_empty() {
            table.outbox.notify_one();
        }
        let wait = next_deadline(&state, now);
        state.timer_due_ns = wait.map_or(u64::MAX, |wait| now.saturating_add(wait.as_nanos() as u64));
        state = match wait {
            None => table.timer.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(wait) => table.timer.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
    end_processes(table, state);
    remove_empty(directory);
    // Nothing is left to do about a socket that cannot be removed; the next keeper replaces it.
    let _ = std::fs::remove_file(socket_path(directory));
}

/// Kills until nothing is left. A slot may be making a process right now, so once is not enough.
fn end_processes<'a>(table: &'a Table, mut state: MutexGuard<'a, State>) {
    state.shutdown = true;
    for _ in 0..KILL_ROUNDS {
        state.kill_all();
        if !state.has_processes() {
            return;
        }
        state = table.timer.wait_timeout(state, KILL_ROUND).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// A keeper without agent that is told to end stops its jobs the way an agent would.
fn stop_everything(state: &mut State) {
    for (key, grace_ms) in live_jobs(state) {
        state.stop(&key, grace_ms, StopCause::Shutdown);
    }
}

/// When the polite signal of a job must go out so that its grace ends at the fence. A grace longer than
/// a third of the lease would stop jobs at the first hiccup.
pub(super) fn polite_at(deadline_ns: u64, ttl_ms: u64, grace_ms: u64) -> u64 {
    deadline_ns.saturating_sub(ms(grace_ms.min(ttl_ms / 3)))
}

fn enforce_fence(state: &mut State, now: u64) {
    let Some(fence) = state.fence else { return };
    for (key, grace_ms) in live_jobs(state) {
        if now >= polite_at(fence.deadline_ns, fence.ttl_ms, grace_ms) {
            let left_ms = fence.deadline_ns.saturating_sub(now) / 1_000_000;
            state.stop(&key, left_ms, StopCause::Fence);
        }
    }
}

fn live_jobs(state: &State) -> Vec<(Key, u64)> {
    let live = state.jobs.iter().filter(|(_, entry)| !matches!(entry.life, Life::Ended(_)));
    live.map(|(key, entry)| (key.clone(), entry.grace_ms)).collect()
}

fn kill_overdue(state: &mut State, now: u64) {
    for entry in state.jobs.values_mut() {
        if let (Life::Running { pid }, Some(stop)) = (&entry.life, &mut entry.stop)
            && !stop.killed
            && now >= stop.kill_at_ns
        {
            signals::kill(*pid);
            stop.killed = true;
        }
    }
}

/// Ends that no agent has heard of are worth keeping only as long as the leases live.
fn may_end(state: &State, now: u64) -> bool {
    let idle = now >= state.agent_gone_at_ns.saturating_add(ms(state.linger_ms));
    let leases_over = state.fence.is_none_or(|fence| now >= fence.deadline_ns);
    idle && !state.has_processes() && (state.jobs.is_empty() || leases_over)
}

/// How long nothing can become due; `None` when only a message can change that.
fn next_deadline(state: &State, now: u64) -> Option<Duration> {
    let mut earliest = None::<u64>;
    let mut consider = |at: u64| earliest = Some(earliest.map_or(at, |known| known.min(at)));
    for entry in state.jobs.values() {
        match (&entry.life, entry.stop) {
            (Life::Ended(_), _) => {}
            (_, Some(stop)) if !stop.killed => consider(stop.kill_at_ns),
            (_, Some(_)) => {}
            (_, None) => {
                if let Some(fence) = state.fence {
                    consider(polite_at(fence.deadline_ns, fence.ttl_ms, entry.grace_ms));
                }
            }
        }
    }
    if state.agent.is_none() {
        consider(state.agent_gone_at_ns.saturating_add(ms(state.linger_ms)).max(now + ms(100)));
    }
    earliest.map(|at| Duration::from_nanos(at.saturating_sub(now)).min(LONGEST_WAIT))
}
