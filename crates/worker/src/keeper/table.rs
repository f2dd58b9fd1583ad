//! What the keeper knows of its jobs, behind one lock.
//!
//! Guarantees: a key is started at most once; a signal is sent only while the process is unreaped, so it
//! never reaches a stranger; an end is remembered until the agent says that it is done with it; nothing
//! is started without an agent, nor past the fence.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_protocol::SignalScope;
use nix::sys::stat::Mode;

use super::cgroups::{self, CpuBook, Isolation, IsolationForm, Way};
use super::clock::{boottime_ns, ms};
use super::deadman::polite_at;
use super::guard::FenceMirror;
use super::job_directory::JobDirectories;
use super::message::{
    Adopted, AttemptPaths, End, Files, FromKeeper, Key, OutOfMemory, Outcome, Phase, StartSpec, StopManner,
    StopSpec, ToKeeper,
};
use super::private_tmp::PrivateTmp;
use super::stopping::{Stop, StopWith, Words};
use super::stragglers::{Origin, Stragglers};
use super::terminals::{GuestCount, Guests, Screens};
use super::{memory_watch, notice_file, signals};
use crate::attempt_files::AttemptFiles;
use crate::job_user::{JobUser, acting_as};

/// The one lock, the three things that threads wait for, and what has locks of its own: the directories of jobs and
/// what jobs leave behind.
#[derive(Debug, Default)]
pub(super) struct Table {
    state: Mutex<State>,
    /// There may be a job to start.
    pub(super) work: Condvar,
    /// There is something to tell the agent, or the connection is over.
    pub(super) outbox: Condvar,
    /// A deadline may have moved.
    pub(super) timer: Condvar,
    pub(super) directories: JobDirectories,
    pub(super) stragglers: Stragglers,
    pub(super) screens: Screens,
    pub(super) guest_count: GuestCount,
    pub(super) cpus: Arc<CpuBook>,
}

/// The job table itself.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) queue: VecDeque<Key>,
    pub(super) jobs: HashMap<Key, Entry>,
    /// How many jobs that may have a process have a lease of each length.
    leases: BTreeMap<Option<u64>, u32>,
    pub(super) outbox: Vec<FromKeeper>,
    /// How many messages at the front of the outbox were held back before.
    held_back: usize,
    /// The number of the current connection; `None` while there is no agent.
    pub(super) agent: Option<u64>,
    /// The current agent has said hello; before that there is nothing that it would understand.
    pub(super) greeted: bool,
    pub(super) agent_gone_at_ns: u64,
    pub(super) connections: u64,
    pub(super) base_env: Arc<Vec<(String, String)>>,
    pub(super) slots: u32,
    pub(super) threads: u32,
    pub(super) idle_threads: u32,
    /// Numbers the slots; no number is used twice.
    pub(super) threads_made: u32,
    pub(super) fence: Option<Fence>,
    /// Where the guard sees the fence.
    pub(super) mirror: FenceMirror,
    /// Where attempts get their groups, if they get any.
    pub(super) isolation: Option<Arc<Isolation>>,
    /// No program can give a job more rights than it starts with.
    pub(super) no_new_privileges: bool,
    /// By what right attempts have a `/tmp` of their own, if they have.
    pub(super) private_tmp: Option<PrivateTmp>,
    /// Where the groups are written down.
    pub(super) directory: PathBuf,
    /// Names the files of attempts.
    files: AttemptFiles,
    /// Programs that people run beside those of jobs.
    pub(super) guests: Guests,
    pub(super) linger_ms: u64,
    pub(super) ending: Ending,
    /// When the deadlines are looked at next; only what is due earlier needs a wake-up.
    pub(super) timer_due_ns: u64,
    pub(super) timer_stale: bool,
}

/// Whether the keeper is about to end. Nothing starts once it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ending {
    #[default]
    NotYet,
    /// When nothing runs any more.
    WhenIdle,
    Now,
}

/// The time beyond which no job may live.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fence {
    pub(super) deadline_ns: u64,
    pub(super) ttl_ms: u64,
}

impl Fence {
    /// The fence of a job with a lease of its own: every lease was renewed when the shortest one was.
    pub(super) fn of(self, lease_ms: Option<u64>) -> Self {
        let Some(own) = lease_ms else { return self };
        let deadline_ns = self.deadline_ns.saturating_add(ms(own)).saturating_sub(ms(self.ttl_ms));
        Self { deadline_ns, ttl_ms: own }
    }
}

/// One job.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) note: String,
    pub(super) grace_ms: u64,
    pub(super) lease_ms: Option<u64>,
    stop_signal: Option<i32>,
    timeout_ms: Option<u64>,
    pub(super) memory_limit: Option<u64>,
    /// It was killed for what it held; groups tell that themselves.
    pub(super) out_of_memory: Option<OutOfMemory>,
    pub(super) is_contained: bool,
    /// How its first process went into its group, as long as that is unreaped.
    pub(super) way: Option<Way>,
    pub(super) has_own_tmp: bool,
    manner: StopManner,
    paths: AttemptPaths,
    /// Whose the files of the attempt are, where that is not the keeper's user.
    pub(super) user: Option<Box<JobUser>>,
    pub(super) stop: Option<Stop>,
    pub(super) files: Files,
    pub(super) life: Life,
}

/// Where the first process of an attempt was put: those that join it go there too.
#[derive(Debug, Default)]
pub(super) struct AttemptPlace {
    pub(super) way: Option<Way>,
    /// It has a `/tmp` of its own.
    pub(super) has_own_tmp: bool,
}

/// The life of a job here.
#[derive(Debug)]
pub(super) enum Life {
    Queued(Box<StartSpec>),
    /// A slot has taken it and there is no process yet.
    Starting,
    Running {
        pid: u32,
        /// When it has lived as long as it may.
        until_ns: Option<u64>,
    },
    Ended(Box<End>),
}

impl Table {
    /// Of the keeper of a data directory.
    pub(super) fn new(directory: &Path) -> Self {
        let (stragglers, files) = (Stragglers::new(directory), AttemptFiles::new(directory));
        let state = Mutex::new(State { files, directory: directory.to_owned(), ..State::default() });
        Self { state, stragglers, ..Self::default() }
    }

    /// A panic of another thread leaves the table whole: every change is made by one of its methods.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acts on what the agent of a connection says; a replaced agent is no longer heard.
    pub(super) fn apply(&self, connection: u64, messages: Vec<ToKeeper>) {
        let mut state = self.lock();
        if state.agent != Some(connection) {
            return;
        }
        for message in messages {
            state.apply(message);
        }
        self.wake(&mut state);
    }

    /// Wakes whoever may have something to do after a change.
    pub(super) fn wake(&self, state: &mut State) {
        for _ in 0..state.queue.len().min(state.idle_threads as usize) {
            self.work.notify_one();
        }
        if !state.outbox.is_empty() {
            self.outbox.notify_one();
        }
        if std::mem::take(&mut state.timer_stale) {
            self.timer.notify_one();
        }
    }

    /// Records that a slot has made a process of a job.
    pub(super) fn started(&self, key: &Key, pid: u32, files: Files, place: AttemptPlace) {
        let mut state = self.lock();
        let now_ns = boottime_ns();
        let timer_due_ns = state.timer_due_ns;
        let Some(entry) = state.jobs.get_mut(key) else { return };
        let until_ns = entry.timeout_ms.map(|timeout| now_ns.saturating_add(ms(timeout)));
        entry.life = Life::Running { pid, until_ns };
        entry.files = files.clone();
        (entry.way, entry.has_own_tmp) = (place.way, place.has_own_tmp);
        if let Some(stop) = &mut entry.stop {
            // The order came while the process was being made.
            stop.ask(pid, now_ns);
            stop.enforce(pid, now_ns);
        }
        let stop_due_ns = entry.stop.as_ref().and_then(Stop::due_ns);
        let is_watched = entry.memory_limit.is_some() && state.isolation.is_none();
        let watch_ns = is_watched.then(|| now_ns + memory_watch::ROUND.as_nanos() as u64);
        if until_ns.into_iter().chain(stop_due_ns).chain(watch_ns).any(|due| due < timer_due_ns) {
            self.timer.notify_one();
        }
        state.outbox.push(FromKeeper::Started { key: key.clone(), pid, files });
        self.outbox.notify_one();
    }

    /// Ends what is left of the group of a process that has ended, and reaps it, in one step: from here
    /// on nobody can signal its number. Also says whether the agent has heard of the start.
    pub(super) fn reap<T>(&self, key: &Key, pid: u32, reap: impl FnOnce() -> T) -> (T, bool) {
        let mut state = self.lock();
        if !self.stragglers.are_none() {
            signals::kill(pid);
        }
        state.guests.end(key);
        let reaped = reap();
        if let Some(entry) = state.jobs.get_mut(key) {
            entry.life = Life::Starting;
            entry.way = None;
        }
        // A start that nobody has read yet says nothing beside the end.
        let unread =
            |message: &FromKeeper| matches!(message, FromKeeper::Started { key: other, .. } if other == key);
        let unread = state.outbox.iter().rposition(unread);
        if let Some(index) = unread {
            state.outbox.remove(index);
        }
        (reaped, unread.is_none())
    }

    /// Whether a job was told to stop.
    pub(super) fn is_stopping(&self, key: &Key) -> bool {
        self.lock().jobs.get(key).is_some_and(|entry| entry.stop.is_some())
    }

    /// Which processes of a job, in terms of who was told to stop, may go on although its leader has ended.
    pub(super) fn spared_after_the_leader(&self, key: &Key) -> Option<SignalScope> {
        let state = self.lock();
        let stop = state.jobs.get(key)?.stop.as_ref()?;
        (state.ending != Ending::Now && stop.spares_the_others(boottime_ns())).then_some(stop.scope)
    }

    /// The processes that were started for other attempts.
    pub(super) fn other_leaders(&self, origin: &Origin) -> Vec<i32> {
        let state = self.lock();
        let running = state.jobs.values().filter_map(|entry| match entry.life {
            Life::Running { pid, .. } => i32::try_from(pid).ok(),
            Life::Queued(_) | Life::Starting | Life::Ended(_) => None,
        });
        running.filter(|leader| *leader != origin.leader).collect()
    }

    /// Whether there is another attempt of the same job here that may have a process.
    pub(super) fn has_other_attempt(&self, key: &Key) -> bool {
        let is_other = |(other, entry): (&Key, &Entry)| {
            other.job_id == key.job_id && other != key && !matches!(entry.life, Life::Ended(_))
        };
        self.lock().jobs.iter().any(is_other)
    }

    /// Records the end of a job that a slot had taken.
    pub(super) fn ended(&self, key: &Key, mut end: End) {
        let mut state = self.lock();
        if let Some(entry) = state.jobs.get(key) {
            end.told(entry.stop.as_ref());
            end.out_of_memory = end.out_of_memory.or(entry.out_of_memory);
        }
        state.end(key, end);
        self.outbox.notify_one();
        if state.agent.is_none() || state.ending != Ending::NotYet {
            self.timer.notify_one();
        }
    }
}

impl State {
    fn apply(&mut self, message: ToKeeper) {
        match message {
            ToKeeper::Hello { slots, env, linger_ms, umask, isolation, no_new_privileges } => {
                self.no_new_privileges = no_new_privileges;
                // Jobs inherit it. Files of the keeper itself name their mode.
                umask.map(Mode::from_bits_truncate).map(nix::sys::stat::umask);
                self.slots = slots.max(1);
                self.base_env = Arc::new(env);
                self.linger_ms = linger_ms;
                (self.greeted, self.held_back) = (true, 0);
                self.isolate(isolation);
                self.outbox = vec![FromKeeper::Welcome {
                    pid: std::process::id(),
                    jobs: self.adopted(),
                    names_files: true,
                    hands_secrets: true,
                    isolation: self.isolation.as_ref().map_or(IsolationForm::None, |own| own.form),
                    runs_containers: true,
                    gives_stdin: true,
                    gives_contained_stdin: true,
                    gives_terminals: true,
                    changes_users: true,
                    private_tmp: self.private_tmp.is_some(),
                    cpu_bind: self.isolation.as_ref().is_some_and(|own| own.cpu_bind),
                }];
            }
            ToKeeper::Start(spec) => self.enqueue(spec),
            ToKeeper::Stop(order) => {
                let StopSpec { key, grace_ms, cause, signal, scope, words } = *order;
                let words = words.unwrap_or_else(|| Words::of(cause));
                self.stop(&key, StopWith { grace_ms, cause, signal, scope, words });
            }
            ToKeeper::Withdraw { key } => self.withdraw(&key, None),
            ToKeeper::Fence { deadline_ns, ttl_ms } => {
                self.fence = Some(Fence { deadline_ns, ttl_ms });
                self.show_fence();
                self.timer_stale |= deadline_ns < self.timer_due_ns;
            }
            ToKeeper::Forget { keys } => {
                for key in keys {
                    if let Slot::Occupied(entry) = self.jobs.entry(key)
                        && matches!(entry.get().life, Life::Ended(_))
                    {
                        entry.remove();
                    }
                }
            }
            ToKeeper::Shutdown => {
                self.ending = Ending::Now;
                self.timer_stale = true;
            }
        }
    }

    /// Takes over how attempts are isolated. The places of the groups stay as they are for the life of the keeper.
    fn isolate(&mut self, wanted: Isolation) {
        self.private_tmp = wanted.private_tmp;
        let wanted = wanted.of_keeper(std::process::id());
        let differs = |own: &Arc<Isolation>| own.form != wanted.form || own.trees != wanted.trees;
        if wanted.form == IsolationForm::None || self.isolation.as_ref().is_some_and(differs) {
            return;
        }
        match cgroups::record(&self.directory, &wanted) {
            Ok(()) => self.isolation = Some(Arc::new(wanted)),
            Err(error) => eprintln!("keeper: the control groups cannot be written down: {error}"),
        }
    }

    fn enqueue(&mut self, mut spec: Box<StartSpec>) {
        let key = spec.key.clone();
        self.files.address(&mut spec);
        if let Slot::Vacant(vacant) = self.jobs.entry(key.clone()) {
            let (grace_ms, lease_ms) = (spec.grace_ms, spec.lease_ms);
            vacant.insert(Entry {
                note: spec.note.clone(),
                grace_ms,
                lease_ms,
                stop_signal: spec.stop_signal,
                timeout_ms: spec.timeout_ms,
                // A container is held to its limit by its engine; its runner is no part of it.
                memory_limit: spec.limits.memory_bytes.filter(|_| spec.container.is_none()),
                out_of_memory: None,
                is_contained: spec.container.is_some(),
                way: None,
                has_own_tmp: false,
                manner: spec.manner,
                paths: spec.paths.clone(),
                user: spec.user.clone(),
                stop: None,
                files: Files::default(),
                life: Life::Queued(spec),
            });
            self.queue.push_back(key);
            let due = self.fence.map(|fence| polite_at(fence.of(lease_ms), grace_ms));
            self.timer_stale |= due.is_some_and(|due| due < self.timer_due_ns);
        }
    }

    /// Tells the job and sends the polite signal, once; a later order can only bring the kill forward.
    pub(super) fn stop(&mut self, key: &Key, how: StopWith) {
        let now_ns = boottime_ns();
        let Some(entry) = self.jobs.get_mut(key) else { return };
        let tell = match (&entry.life, &mut entry.stop) {
            (Life::Ended(_), _) => return,
            (Life::Queued(_), _) => return self.withdraw(key, Some(how)),
            (Life::Starting | Life::Running { .. }, Some(stop)) => stop.renew(how, now_ns),
            (Life::Starting | Life::Running { .. }, none) => {
                *none = Some(Stop::new(how, entry.stop_signal, entry.manner, now_ns));
                true
            }
        };
        let Some(stop) = &mut entry.stop else { return };
        // A job without a moment left has no use for a notice.
        if tell && stop.kill_at_ns > now_ns {
            let left = Duration::from_nanos(stop.kill_at_ns - now_ns);
            let write = || notice_file::write(&entry.paths.notice, key, &stop.words, left);
            if let Err(error) = acting_as(entry.user.as_deref(), write) {
                eprintln!("keeper: the notice for {key} cannot be written: {error}");
            }
        }
        if let (Life::Running { pid, .. }, false) = (&entry.life, stop.asked) {
            stop.ask(*pid, now_ns);
        }
        self.timer_stale |= stop.due_ns().is_some_and(|due| due < self.timer_due_ns);
    }

    pub(super) fn withdraw(&mut self, key: &Key, stopped: Option<StopWith>) {
        if let Some(entry) = self.jobs.get_mut(key)
            && matches!(entry.life, Life::Queued(_))
        {
            entry.stop = stopped.map(|how| Stop::new(how, None, StopManner::default(), 0));
            let mut end = End::of(Outcome::Withdrawn);
            end.told(entry.stop.as_ref());
            self.queue.retain(|queued| queued != key);
            self.end(key, end);
        }
    }

    fn end(&mut self, key: &Key, end: End) {
        let Some(entry) = self.jobs.get_mut(key) else { return };
        let before = std::mem::replace(&mut entry.life, Life::Ended(Box::new(end.clone())));
        if matches!(before, Life::Starting | Life::Running { .. }) {
            self.leases.entry(entry.lease_ms).and_modify(|live| *live -= 1);
            self.leases.retain(|_, live| *live > 0);
        }
        self.outbox.push(FromKeeper::Ended { key: key.clone(), end });
        self.show_fence();
    }

    /// Lets the guard see when the first of the jobs that may have a process must be gone; one that is gone is none of its
    /// concern.
    fn show_fence(&self) {
        let Some(fence) = self.fence else { return };
        let first = self.leases.keys().map(|lease_ms| fence.of(*lease_ms).deadline_ns).min();
        self.mirror.show(first.unwrap_or(u64::MAX));
    }

    fn adopted(&self) -> Vec<Adopted> {
        let phase = |entry: &Entry| match &entry.life {
            Life::Queued(_) => Phase::Queued,
            Life::Starting | Life::Running { .. } => Phase::Running(entry.files.clone()),
            Life::Ended(end) => Phase::Ended(End::clone(end)),
        };
        let adopt = |(key, entry): (&Key, &Entry)| Adopted {
            key: key.clone(),
            phase: phase(entry),
            note: entry.note.clone(),
        };
        self.jobs.iter().map(adopt).collect()
    }

    /// Takes what is to be said now. While jobs queue up, a start is held back once: most of those jobs end
    /// before the next frame leaves, and nobody needs to hear of their start.
    pub(super) fn take_outbox(&mut self, saturated: bool) -> Vec<FromKeeper> {
        let all = std::mem::take(&mut self.outbox);
        if !saturated {
            self.held_back = 0;
            return all;
        }
        let (mut now, before) = (Vec::with_capacity(all.len()), self.held_back);
        for (index, message) in all.into_iter().enumerate() {
            if matches!(message, FromKeeper::Started { .. }) && index >= before {
                self.outbox.push(message);
            } else {
                now.push(message);
            }
        }
        self.held_back = self.outbox.len();
        now
    }

    /// Takes the next job for a slot, if one may start now.
    pub(super) fn next_start(&mut self, now_ns: u64) -> Option<Box<StartSpec>> {
        let fenced = self.fence.is_some_and(|fence| now_ns >= fence.deadline_ns);
        if self.agent.is_none() || fenced || self.ending != Ending::NotYet {
            return None;
        }
        let key = self.queue.pop_front()?;
        let entry = self.jobs.get_mut(&key)?;
        match std::mem::replace(&mut entry.life, Life::Starting) {
            Life::Queued(spec) => {
                *self.leases.entry(spec.lease_ms).or_default() += 1;
                self.show_fence();
                Some(spec)
            }
            other => {
                entry.life = other;
                None
            }
        }
    }

    /// Whether any job may have a process.
    pub(super) fn has_processes(&self) -> bool {
        self.jobs.values().any(|entry| matches!(entry.life, Life::Starting | Life::Running { .. }))
    }

    /// Kills every process group; used when the keeper itself is about to end.
    pub(super) fn kill_all(&self) {
        for entry in self.jobs.values() {
            if let Life::Running { pid, .. } = entry.life {
                signals::kill(pid);
            }
        }
    }
}

/// How long something took, in whole microseconds.
pub(super) fn elapsed_us(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::super::message::StopCause;
    use super::*;

    fn key(lease: u64) -> Key {
        Key { job_id: "job".into(), lease }
    }

    fn spec(lease: u64) -> StartSpec {
        let (argv, env) = (vec!["true".to_owned()], Vec::new());
        StartSpec {
            key: key(lease),
            argv,
            env,
            unset: Vec::new(),
            secrets: Vec::new(),
            limits: super::super::Limits::default(),
            container: None,
            hostfile: None,
            cwd: "/".into(),
            stdin: None,
            grace_ms: 1_000,
            lease_ms: None,
            stop_signal: None,
            timeout_ms: None,
            manner: StopManner::default(),
            has_checkpoint: false,
            terminal: None,
            paths: AttemptPaths::default(),
            user: None,
            note: lease.to_string(),
        }
    }

    /// A table with an agent and these jobs queued.
    fn table(leases: impl Iterator<Item = u64>) -> Table {
        let table = Table::default();
        table.lock().agent = Some(1);
        table.apply(1, leases.map(|lease| ToKeeper::Start(Box::new(spec(lease)))).collect());
        table
    }

    fn ends(state: &State) -> Vec<(u64, Option<StopCause>)> {
        let ends = state.outbox.iter().filter_map(|message| match message {
            FromKeeper::Ended { key, end } => Some((key.lease, end.cause)),
            _ => None,
        });
        ends.collect()
    }

    #[test]
    fn a_key_is_started_once() {
        let table = table([1, 1].into_iter());
        let mut state = table.lock();
        assert!(state.next_start(0).is_some());
        assert!(state.next_start(0).is_none());
        state.enqueue(Box::new(spec(1)));
        assert!(state.next_start(0).is_none(), "also not while it runs");
    }

    /// A job that only waits has nothing that the guard would have to end.
    #[test]
    fn the_guard_sees_the_leases_of_jobs_that_may_have_a_process() {
        let number: &'static AtomicU64 = Box::leak(Box::default());
        let shown = || number.load(Ordering::Relaxed) / ms(1_000);
        let table = table(std::iter::empty());
        let mut state = table.lock();
        state.mirror = FenceMirror::of(number);
        state.apply(ToKeeper::Fence { deadline_ns: ms(100_000), ttl_ms: 30_000 });
        let start = |lease, lease_ms| Box::new(StartSpec { lease_ms: Some(lease_ms), ..spec(lease) });
        state.enqueue(start(1, 180_000));
        assert!(state.next_start(0).is_some());
        assert_eq!(shown(), 250);
        state.enqueue(start(2, 30_000));
        assert_eq!(shown(), 250, "it has no process");
        assert!(state.next_start(0).is_some());
        assert_eq!(shown(), 100);
        state.end(&key(2), End::of(Outcome::Withdrawn));
        assert_eq!(shown(), 250);
        state.end(&key(1), End::of(Outcome::Withdrawn));
        assert_eq!(number.load(Ordering::Relaxed), u64::MAX);
    }

    #[test]
    fn nothing_starts_past_the_fence_or_without_an_agent() {
        let table = table(1..=1);
        table.apply(1, vec![ToKeeper::Fence { deadline_ns: 100, ttl_ms: 30_000 }]);
        let mut state = table.lock();
        assert!(state.next_start(100).is_none());
        state.agent = None;
        assert!(state.next_start(99).is_none());
        state.agent = Some(1);
        assert!(state.next_start(99).is_some());
    }

    #[test]
    fn a_replaced_agent_is_not_heard() {
        let table = table(1..=1);
        table.lock().agent = Some(2);
        table.apply(1, vec![ToKeeper::Withdraw { key: key(1) }]);
        assert_eq!(table.lock().queue.len(), 1);
    }

    #[test]
    fn what_has_not_started_can_be_taken_back_and_what_has_cannot() {
        let table = table(1..=2);
        assert_eq!(table.lock().next_start(0).map(|spec| spec.key.lease), Some(1));
        table.apply(1, vec![ToKeeper::Withdraw { key: key(1) }, ToKeeper::Withdraw { key: key(2) }]);
        assert_eq!(ends(&table.lock()), [(2, None)]);
        table.apply(1, vec![ToKeeper::Forget { keys: vec![key(1), key(2)] }]);
        let state = table.lock();
        assert!(
            state.jobs.contains_key(&key(1)) && !state.jobs.contains_key(&key(2)),
            "only ends are forgotten"
        );
    }

    #[test]
    fn a_stop_of_a_queued_job_is_its_end() {
        let table = table(1..=1);
        let (grace_ms, cause) = (0, StopCause::Order);
        let stop = StopSpec { key: key(1), grace_ms, cause, signal: None, scope: None, words: None };
        table.apply(1, vec![ToKeeper::Stop(Box::new(stop))]);
        assert_eq!(ends(&table.lock()), [(1, Some(StopCause::Order))]);
        assert!(table.lock().queue.is_empty());
    }

    #[test]
    fn a_start_is_held_back_once_while_jobs_queue_up() {
        let mut state = State::default();
        let started = |lease| FromKeeper::Started { key: key(lease), pid: 1, files: Files::default() };
        state.outbox = vec![started(1)];
        assert!(state.take_outbox(true).is_empty());
        state.outbox.push(started(2));
        assert!(
            matches!(state.take_outbox(true).as_slice(), [FromKeeper::Started { key, .. }] if key.lease == 1)
        );
        assert_eq!(state.take_outbox(false).len(), 1);
    }
}
