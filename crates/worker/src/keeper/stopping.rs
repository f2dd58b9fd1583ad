//! How a job is told to stop: a notice in a file, the polite signal, SIGTERM when that was another, the kill.
//!
//! Guarantees: the notice is there before the signal; a process is never killed by a polite signal that it does
//! not catch while somebody else in the job does; everything is over at the deadline, which can only come nearer.

use muster_protocol::SignalScope;
use nix::libc;
use serde::{Deserialize, Serialize};

use super::clock::ms;
use super::message::{End, StopCause, StopManner};
use super::process_tree::{Process, ProcessTree};
use super::signals::{self, TERMINATE, USER1};

/// A job that ignores its own signal gets SIGTERM this long before the kill, ...
const KILL_WAIT_NS: u64 = 5_000_000_000;
/// ... or this part of its grace, if that is less.
const KILL_WAIT_PART: u64 = 3;

/// What a job is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Words {
    pub reason: String,
    /// It will be started again.
    pub comes_back: bool,
    /// The number of the stop that the scheduler ordered; 0 where it ordered none.
    pub epoch: u32,
}

impl Words {
    /// What is said where the keeper itself, or the worker, decides. Whether a job that took too long is started
    /// again only the scheduler knows.
    pub(super) fn of(cause: StopCause) -> Self {
        let (reason, comes_back) = match cause {
            StopCause::Order => ("the scheduler ordered it", false),
            StopCause::Shutdown => ("the worker is shutting down", true),
            StopCause::LeaseLost => ("the lease is lost", false),
            StopCause::Fence => ("the worker was cut off from the scheduler", true),
            StopCause::Timeout => ("timeout", false),
        };
        Self { reason: reason.to_owned(), comes_back, epoch: 0 }
    }
}

/// An order to stop a job, whoever gave it.
#[derive(Debug, Clone)]
pub(super) struct StopWith {
    pub(super) grace_ms: u64,
    pub(super) cause: StopCause,
    /// The job's own when absent.
    pub(super) signal: Option<i32>,
    /// The job's own when absent.
    pub(super) scope: Option<SignalScope>,
    pub(super) words: Words,
}

impl StopWith {
    /// A stop as the job itself wants it.
    pub(super) fn plain(grace_ms: u64, cause: StopCause) -> Self {
        Self { grace_ms, cause, signal: None, scope: None, words: Words::of(cause) }
    }
}

/// A stop under way.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) cause: StopCause,
    pub(super) words: Words,
    pub(super) kill_at_ns: u64,
    pub(super) killed: bool,
    pub(super) scope: SignalScope,
    signal: Option<i32>,
    pub(super) asked: bool,
    /// When the whole group gets SIGTERM; absent when it has had it, or before anybody was asked.
    terminate_at_ns: Option<u64>,
}

impl End {
    /// Notes by what a stop the end came, if by any.
    pub(super) fn told(&mut self, stop: Option<&Stop>) {
        self.cause = stop.map(|stop| stop.cause);
        self.epoch = stop.map_or(0, |stop| stop.words.epoch);
        self.comes_back = stop.is_some_and(|stop| stop.words.comes_back);
    }
}

impl Stop {
    /// Nobody is asked yet: there may be no process.
    pub(super) fn new(how: StopWith, own_signal: Option<i32>, manner: StopManner, now_ns: u64) -> Self {
        let preferred = manner.prefers_usr1.then_some(USER1);
        Self {
            cause: how.cause,
            words: how.words,
            kill_at_ns: now_ns.saturating_add(ms(how.grace_ms)),
            killed: false,
            scope: how.scope.unwrap_or(manner.scope),
            signal: how.signal.or(own_signal).or(preferred),
            asked: false,
            terminate_at_ns: None,
        }
    }

    /// Another order: the kill can only come nearer, and what the scheduler says counts most. Returns whether the
    /// job must be told something else than before.
    pub(super) fn renew(&mut self, how: StopWith, now_ns: u64) -> bool {
        self.kill_at_ns = self.kill_at_ns.min(now_ns.saturating_add(ms(how.grace_ms)));
        if let Some(at) = self.terminate_at_ns {
            self.terminate_at_ns = Some(at.min(self.terminate_at(now_ns)));
        }
        let news = how.cause == StopCause::Order && how.words != self.words;
        if news {
            self.words = how.words;
        }
        news
    }

    /// Sends the polite signal.
    pub(super) fn ask(&mut self, leader: u32, now_ns: u64) {
        self.asked = true;
        if ask(leader, self.signal.unwrap_or(TERMINATE), self.scope) == Asked::NotAll {
            self.terminate_at_ns = Some(self.terminate_at(now_ns));
        }
    }

    fn terminate_at(&self, now_ns: u64) -> u64 {
        let left = self.kill_at_ns.saturating_sub(now_ns);
        self.kill_at_ns.saturating_sub(KILL_WAIT_NS.min(left / KILL_WAIT_PART))
    }

    /// When something is to be done next.
    pub(super) fn due_ns(&self) -> Option<u64> {
        (!self.killed).then(|| self.terminate_at_ns.map_or(self.kill_at_ns, |at| at.min(self.kill_at_ns)))
    }

    /// Does what is due to a process that still runs.
    pub(super) fn enforce(&mut self, leader: u32, now_ns: u64) {
        if !self.killed && now_ns >= self.kill_at_ns {
            self.killed = true;
            kill(leader, self.scope);
        } else if !self.killed && self.terminate_at_ns.is_some_and(|at| now_ns >= at) {
            self.terminate_at_ns = None;
            signals::to_group(leader, TERMINATE);
        }
    }

    /// Whether those that were asked too may go on after the leader: they have the same time.
    pub(super) fn spares_the_others(&self, now_ns: u64) -> bool {
        self.scope != SignalScope::Leader && !self.killed && now_ns < self.kill_at_ns
    }
}

/// Whether everybody has had the signal that comes last before the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    All,
    NotAll,
}

fn ask(leader: u32, wanted: i32, scope: SignalScope) -> Asked {
    signals::resume(leader);
    if wanted == TERMINATE && scope == SignalScope::Group {
        signals::to_group(leader, TERMINATE);
        return Asked::All;
    }
    let tree = ProcessTree::read();
    let asked = addressees(&tree, leader, scope);
    if asked.is_empty() {
        signals::to_group(leader, TERMINATE);
        return Asked::All;
    }
    let group: Vec<i32> = members(&tree, leader).iter().map(|process| process.pid).collect();
    for outsider in asked.iter().filter(|process| !group.contains(&process.pid)) {
        outsider.signal(libc::SIGCONT);
    }
    let chosen = choose(&tree, &asked, wanted, |process| process.catches(wanted));
    let only_terminated = chosen.iter().all(|(_, signal)| *signal == TERMINATE);
    let everybody = only_terminated && chosen.len() == asked.len() && scope != SignalScope::Descendants;
    for (process, signal) in chosen {
        process.signal(signal);
    }
    if everybody { Asked::All } else { Asked::NotAll }
}

/// Who gets which signal. Those that catch the wanted one get it. Those that would die of it and wait for one that
/// catches it, as a shell does for the program in front, are left alone; all others get SIGTERM.
fn choose(
    tree: &ProcessTree,
    asked: &[Process],
    wanted: i32,
    catches: impl Fn(&Process) -> bool,
) -> Vec<(Process, i32)> {
    if wanted == TERMINATE || !signals::kills_when_uncaught(wanted) {
        return asked.iter().map(|process| (*process, wanted)).collect();
    }
    let (listening, deaf): (Vec<Process>, Vec<Process>) = asked.iter().partition(|process| catches(process));
    let waiting: Vec<i32> = listening.iter().flat_map(|process| tree.ancestors(process.pid)).collect();
    let others = deaf.into_iter().filter(|process| !waiting.contains(&process.pid));
    let others: Vec<_> = others.map(|process| (process, TERMINATE)).collect();
    listening.into_iter().map(|process| (process, wanted)).chain(others).collect()
}

fn members(tree: &ProcessTree, leader: u32) -> Vec<Process> {
    i32::try_from(leader).map(|leader| tree.group(leader)).unwrap_or_default()
}

/// The processes that a scope means. Where the leader has started nothing, it is meant itself: somebody must hear it.
fn addressees(tree: &ProcessTree, leader: u32, scope: SignalScope) -> Vec<Process> {
    let Ok(pid) = i32::try_from(leader) else { return Vec::new() };
    let itself = tree.find(pid).into_iter();
    match scope {
        SignalScope::Leader => itself.collect(),
        SignalScope::Group => tree.group(pid),
        SignalScope::Descendants => {
            let started = tree.descendants(pid);
            if started.is_empty() { itself.collect() } else { started }
        }
        SignalScope::All => {
            let mut all = tree.group(pid);
            all.extend(itself.filter(|process| !all.contains(process)).collect::<Vec<_>>());
            let outside: Vec<_> =
                tree.descendants(pid).into_iter().filter(|process| !all.contains(process)).collect();
            all.extend(outside);
            all
        }
    }
}

/// The group as a whole; and what has left the group, where that was told to stop too. The rest follows when the
/// leader has ended.
fn kill(leader: u32, scope: SignalScope) {
    if matches!(scope, SignalScope::Descendants | SignalScope::All) {
        let tree = ProcessTree::read();
        let started = i32::try_from(leader).map(|leader| tree.descendants(leader)).unwrap_or_default();
        signals::kill(leader);
        for process in started {
            process.signal(libc::SIGKILL);
        }
    } else {
        signals::kill(leader);
    }
}

#[cfg(test)]
#[path = "stopping_tests.rs"]
mod tests;
