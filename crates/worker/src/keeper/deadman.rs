//! Deadlines: timeouts, what follows an order to stop, the fence, and the end of a keeper that nobody needs.
//!
//! All of them are times of one clock that only goes forward; what the wall clock says has no part in it.

use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::{boottime_ns, ms};
use super::job_directory::remove_empty_directories;
use super::message::{Key, StopCause};
use super::outputs::remove_empty;
use super::signals;
use super::socket::socket_path;
use super::stopping::StopWith;
use super::table::{Life, State, Table};
use crate::attempt_files::checkpoint_directory;

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
        enforce_timeouts(&mut state, now);
        enforce_fence(&mut state, now);
        carry_on_stops(&mut state, now);
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
    remove_empty_directories(&checkpoint_directory(directory));
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
        state.stop(&key, StopWith::plain(grace_ms, StopCause::Shutdown));
    }
}

/// A process that ended by itself is left alone, however late its end was noticed.
fn enforce_timeouts(state: &mut State, now: u64) {
    let over = state.jobs.iter().filter(|(_, entry)| match entry.life {
        Life::Running { until_ns: Some(until), .. } => entry.stop.is_none() && now >= until,
        Life::Queued(_) | Life::Starting | Life::Running { .. } | Life::Ended(_) => false,
    });
    let over: Vec<_> = over.map(|(key, entry)| (key.clone(), entry.grace_ms)).collect();
    for (key, grace_ms) in over {
        state.stop(&key, StopWith::plain(grace_ms, StopCause::Timeout));
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
            let grace_ms = fence.deadline_ns.saturating_sub(now) / 1_000_000;
            state.stop(&key, StopWith::plain(grace_ms, StopCause::Fence));
        }
    }
}

fn live_jobs(state: &State) -> Vec<(Key, u64)> {
    let live = state.jobs.iter().filter(|(_, entry)| !matches!(entry.life, Life::Ended(_)));
    live.map(|(key, entry)| (key.clone(), entry.grace_ms)).collect()
}

fn carry_on_stops(state: &mut State, now: u64) {
    for entry in state.jobs.values_mut() {
        if let (Life::Running { pid, .. }, Some(stop)) = (&entry.life, &mut entry.stop) {
            stop.enforce(*pid, now);
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
        match (&entry.life, &entry.stop) {
            (Life::Ended(_), _) => {}
            (_, Some(stop)) => stop.due_ns().into_iter().for_each(&mut consider),
            (life, None) => {
                if let Life::Running { until_ns: Some(until), .. } = life {
                    consider(*until);
                }
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command, Stdio};

    use super::super::message::{AttemptPaths, Files, StartSpec, StopManner, ToKeeper};
    use super::*;

    fn spec(key: &Key) -> StartSpec {
        StartSpec {
            key: key.clone(),
            argv: Vec::new(),
            env: Vec::new(),
            unset: Vec::new(),
            hostfile: None,
            cwd: "/".into(),
            grace_ms: 60_000,
            stop_signal: Some(2),
            timeout_ms: Some(3_600_000),
            manner: StopManner::default(),
            paths: AttemptPaths::default(),
            note: String::new(),
        }
    }

    #[test]
    fn a_timeout_counts_from_the_start_of_the_process_and_uses_the_signal_of_the_job() {
        let table = Table::default();
        let key = Key { job_id: "job".into(), lease: 1 };
        table.lock().agent = Some(1);
        table.apply(1, vec![ToKeeper::Start(Box::new(spec(&key)))]);
        let mut state = table.lock();
        enforce_timeouts(&mut state, u64::MAX);
        assert!(state.jobs[&key].stop.is_none(), "a queued job has not begun to count");
        state.next_start(0).unwrap();
        drop(state);

        let mut child = listening("trap 'exit 21' INT; echo up; while :; do sleep 1; done");
        let before = boottime_ns();
        table.started(&key, child.id(), Files::default());
        // The agent that ordered it is gone.
        table.lock().agent = None;
        let mut state = table.lock();
        enforce_timeouts(&mut state, before + ms(3_599_000));
        assert!(state.jobs[&key].stop.is_none());
        assert!(next_deadline(&state, before).is_some());
        enforce_timeouts(&mut state, boottime_ns() + ms(3_600_000));
        assert_eq!(state.jobs[&key].stop.as_ref().unwrap().cause, StopCause::Timeout);
        drop(state);
        assert_eq!(child.wait().unwrap().code(), Some(21));
    }

    /// A shell in a group of its own that has set its traps.
    fn listening(script: &str) -> Child {
        let mut child =
            Command::new("sh").args(["-c", script]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        child
    }
}
