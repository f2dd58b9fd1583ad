//! Deadlines: timeouts, what follows an order to stop, the fence, and the end of a keeper that nobody needs.
//!
//! All of them are times of one clock that only goes forward; what the wall clock says has no part in it.

use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use super::artifact_room::artifact_directory;
use super::cgroups;
use super::clock::{boottime_ns, ms};
use super::guard::Guarded;
use super::job_directory::remove_empty_directories;
use super::memory_watch;
use super::message::{Key, StopCause};
use super::outputs::remove_empty;
use super::signals;
use super::socket::{socket_path, terminals_path};
use super::stopping::StopWith;
use super::table::{Ending, Entry, Fence, Life, State, Table};
use crate::attempt_files::checkpoint_directory;

/// The condition variable's clock stands still while the machine sleeps, so deadlines are looked at
/// this often although each has its own wake-up. So is the guard, and what has ended without anybody waiting for it.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Between two kills when the keeper ends, and how many there are at most.
const KILL_ROUND: Duration = Duration::from_millis(20);
const KILL_ROUNDS: u32 = 250;

/// Runs until the keeper may end, then removes its socket.
pub(super) fn watch(table: &Arc<Table>, directory: &Path, guarded: &Guarded) {
    let mut state = table.lock();
    loop {
        let now = boottime_ns();
        table.stragglers.collect();
        if state.ending == Ending::NotYet && guarded.is_alone() {
            eprintln!("keeper: the guard was killed; another keeper takes over when nothing runs here");
            state.ending = Ending::WhenIdle;
        }
        if state.ending == Ending::Now {
            break;
        }
        if signals::terminate_requested() && state.agent.is_none() {
            stop_everything(&mut state);
        }
        memory_watch::enforce(&mut state);
        enforce_timeouts(&mut state, now);
        enforce_fence(&mut state, now);
        carry_on_stops(&mut state, now);
        if (state.agent.is_none() && may_end(&state, now))
            || (state.ending == Ending::WhenIdle && is_idle(&state))
        {
            break;
        }
        if !state.outbox.is_empty() {
            table.outbox.notify_one();
        }
        let wait = next_deadline(&state, now).unwrap_or(LONGEST_WAIT);
        state.timer_due_ns = now.saturating_add(wait.as_nanos() as u64);
        state = table.timer.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
    }
    end_processes(table, state);
    cgroups::remove_recorded(directory);
    remove_empty(directory);
    remove_empty_directories(&checkpoint_directory(directory));
    remove_empty_directories(&artifact_directory(directory));
    // Nothing is left to do about a socket that cannot be removed; the next keeper replaces it.
    let _ = std::fs::remove_file(terminals_path(directory));
    let _ = std::fs::remove_file(socket_path(directory));
}

/// Kills until nothing is left. A slot may be making a process right now, so once is not enough.
fn end_processes<'a>(table: &'a Table, mut state: MutexGuard<'a, State>) {
    state.ending = Ending::Now;
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
pub(super) fn polite_at(fence: Fence, grace_ms: u64) -> u64 {
    fence.deadline_ns.saturating_sub(ms(grace_ms.min(fence.ttl_ms / 3)))
}

fn enforce_fence(state: &mut State, now: u64) {
    let Some(fence) = state.fence else { return };
    for (key, grace_ms) in live_jobs(state) {
        let fence = fence.of(state.jobs.get(&key).and_then(|entry| entry.lease_ms));
        if now >= polite_at(fence, grace_ms) {
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
    let is_over = |fence: Fence, entry: &Entry| now >= fence.of(entry.lease_ms).deadline_ns;
    let leases_over = state.fence.is_none_or(|fence| state.jobs.values().all(|entry| is_over(fence, entry)));
    idle && !state.has_processes() && (state.jobs.is_empty() || leases_over)
}

/// Whether nothing was started that the agent has not heard the end of.
fn is_idle(state: &State) -> bool {
    state.jobs.values().all(|entry| matches!(entry.life, Life::Queued(_)))
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
                    consider(polite_at(fence.of(entry.lease_ms), entry.grace_ms));
                }
            }
        }
    }
    if memory_watch::is_needed(state) {
        consider(now.saturating_add(memory_watch::ROUND.as_nanos() as u64));
    }
    if state.agent.is_none() {
        consider(state.agent_gone_at_ns.saturating_add(ms(state.linger_ms)).max(now + ms(100)));
    }
    earliest.map(|at| Duration::from_nanos(at.saturating_sub(now)).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::super::launch::{self, Surroundings};
    use super::super::message::{AttemptPaths, Files, StartSpec, StopManner, ToKeeper};
    use super::super::outputs::Handles;
    use super::*;

    fn spec(key: &Key) -> StartSpec {
        StartSpec {
            key: key.clone(),
            argv: Vec::new(),
            env: Vec::new(),
            unset: Vec::new(),
            secrets: Vec::new(),
            limits: super::super::Limits::default(),
            container: None,
            hostfile: None,
            cwd: "/".into(),
            stdin: None,
            grace_ms: 60_000,
            lease_ms: None,
            stop_signal: Some(2),
            timeout_ms: Some(3_600_000),
            manner: StopManner::default(),
            has_checkpoint: false,
            terminal: None,
            paths: AttemptPaths::default(),
            user: None,
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

        let pid = listening("trap 'exit 21' INT; echo up; while :; do sleep 1; done");
        let before = boottime_ns();
        table.started(&key, pid, Files::default(), super::super::table::AttemptPlace::default());
        // The agent that ordered it is gone.
        table.lock().agent = None;
        let mut state = table.lock();
        enforce_timeouts(&mut state, before + ms(3_599_000));
        assert!(state.jobs[&key].stop.is_none());
        assert!(next_deadline(&state, before).is_some());
        enforce_timeouts(&mut state, boottime_ns() + ms(3_600_000));
        assert_eq!(state.jobs[&key].stop.as_ref().unwrap().cause, StopCause::Timeout);
        drop(state);
        let ended = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid as i32), None).unwrap();
        assert!(matches!(ended, nix::sys::wait::WaitStatus::Exited(_, 21)), "{ended:?}");
    }

    #[test]
    fn each_job_is_stopped_before_its_own_lease_ends() {
        let table = Table::default();
        let key = |lease| Key { job_id: "job".into(), lease };
        table.lock().agent = Some(1);
        let start = |lease: u64, lease_ms: Option<u64>| {
            ToKeeper::Start(Box::new(StartSpec { lease_ms, grace_ms: 15_000, ..spec(&key(lease)) }))
        };
        // Renewed at 0; the shortest lease lasts for 30 s, less 2 s for safety.
        let fence = ToKeeper::Fence { deadline_ns: ms(28_000), ttl_ms: 30_000 };
        table.apply(1, vec![start(1, None), start(2, Some(30_000)), start(3, Some(180_000)), fence]);
        let mut state = table.lock();
        let mut lives_at = |at_ms: u64| {
            enforce_fence(&mut state, ms(at_ms));
            [1, 2, 3].map(|lease| !matches!(state.jobs[&key(lease)].life, Life::Ended(_)))
        };
        assert_eq!(lives_at(17_999), [true; 3]);
        assert_eq!(lives_at(18_000), [false, false, true], "a third of the lease is left for the grace");
        assert_eq!(lives_at(162_999), [false, false, true]);
        assert_eq!(lives_at(163_000), [false; 3], "15 s of grace end 2 s before the lease");
    }

    /// A shell that has set its traps, started as jobs are: a shell cannot trap what was ignored when it started,
    /// and whoever runs the tests may ignore signals.
    fn listening(script: &str) -> u32 {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let stdout = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
        // What a shell says about those that die is not to break a pipe.
        let stderr = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        let handles = Handles { stdout, stderr };
        let mut spec = spec(&Key { job_id: "job".into(), lease: 1 });
        spec.argv = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        let (base_env, result) = (std::env::vars().collect::<Vec<_>>(), Path::new("/dev/null"));
        let around = Surroundings {
            base_env: &base_env,
            handles,
            result,
            artifacts: Path::new(""),
            hostfile: None,
            secrets: &[],
            mark: None,
            group: None,
            terminal: None,
            no_new_privileges: true,
            user: None,
            view: None,
        };
        let pid = launch::spawn(&spec, &around).unwrap();
        let mut line = [0; 3];
        reader.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"up\n");
        pid
    }
}
