//! Walks through all states that jobs and gangs can reach, by the real transition functions, with every trigger
//! in every state, and notes each change.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use muster_domain::lifecycle::{first_phase, lapse, reserve};
use muster_domain::retry::{Backoff, RetryPolicy};
use muster_domain::{
    Caller, Change, Edit, Effects, EventKind, GangId, GangMembership, Hold, IfUnmet, Job, JobId, JobSpec,
    Needs, Place, Span, Status, Timestamp, Trigger, WorkerId, edit, gang_transition, transition,
};

use crate::cases::{cases, impatient};
use crate::names::{State, TRIGGERS, key, trigger_name};

const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000);
const STEP: Span = Span::from_secs(24 * 60 * 60);
pub(crate) const SUBMIT: &str = "Submit";
pub(crate) const EDIT: &str = "Edit";
pub(crate) const REFUND: &str = "attempt refunded";
const EDITED: &str = "priority, resources, attempts or timeout change";
pub(crate) const PLACE: &str = "Placement";
pub(crate) const LAPSE: &str = "Lapse";

/// Which task of a gang a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// The one that the trigger names, or a job outside gangs.
    Named,
    Other,
}

/// One change of one job.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) trigger: &'static str,
    pub(crate) words: String,
    pub(crate) role: Role,
    /// Whether the job that the trigger names is in its last attempt; `None` when it is in none.
    pub(crate) last_attempt: Option<bool>,
    /// `None` before the submission.
    pub(crate) from: Option<State>,
    pub(crate) to: State,
    /// What is written to the log, in order; then [`REFUND`], where the attempt does not count.
    pub(crate) events: Vec<&'static str>,
}

pub(crate) type Edges = BTreeSet<Edge>;

fn last_attempt(job: &Job) -> Option<bool> {
    // A stop in a gang has settled who pays for it.
    let counts = match job.status() {
        Status::Running => true,
        Status::Preempting => job.spec.gang.is_none(),
        _ => false,
    };
    counts.then_some(job.attempts >= job.spec.max_attempts)
}

/// A retry and the release of a job that lost its workers give all attempts back, which is no refund.
fn with_refund(before: &Job, after: &Job, mut events: Vec<&'static str>) -> Vec<&'static str> {
    let anew = events.iter().any(|event| matches!(*event, "retry_requested" | "released"));
    if after.attempts < before.attempts && !anew {
        events.push(REFUND);
    }
    events
}

fn specs() -> Vec<JobSpec> {
    let spec = |max_attempts| JobSpec {
        max_attempts,
        timeout: Some(Span::from_millis(1)),
        deadline: Some(NOW),
        ..JobSpec::shell("x")
    };
    let pause = Backoff { initial: Span::from_secs(1), ..Backoff::default() };
    let retry = RetryPolicy { backoff: pause, ..RetryPolicy::default() };
    let far = NOW + Span::from_secs(u32::MAX);
    vec![
        spec(4),
        spec(1),
        JobSpec { retry, ..spec(4) },
        JobSpec { not_before: Some(NOW + Span::from_secs(1)), ..spec(4) },
        JobSpec { not_before: Some(far), ..spec(4) },
    ]
}

fn submitted(spec: &JobSpec, hold: Option<Hold>, needs: Needs, index: u8) -> Job {
    let phase = first_phase(spec, hold.as_ref(), needs, None, NOW);
    let mut job = Job::new(JobId::from_random([index; 16]), Arc::new(spec.clone()), phase, NOW);
    job.hold = hold;
    job
}

/// Every change of jobs outside gangs.
pub(crate) fn singles() -> Edges {
    let mut edges = Edges::new();
    for spec in specs() {
        let mut first = Vec::new();
        for hold in [None, Some(Hold::Asked { message: None })] {
            for (needs, words) in [
                (0, "it waits for no dependency"),
                (1, "a dependency is not done"),
                (2, "a dependency is not done"),
            ] {
                let needs = if needs == 0 { Needs::default() } else { Needs::all_success(needs) };
                let job = submitted(&spec, hold.clone(), needs, 1);
                edges.insert(first_edge(words, &job));
                first.push(job);
            }
        }
        walk_single(first, &mut edges);
    }
    for (if_unmet, words) in [(IfUnmet::Run, "run"), (IfUnmet::Fail, "fail"), (IfUnmet::Cancel, "cancel")] {
        let spec = JobSpec { if_unmet: Some(if_unmet), ..JobSpec::shell("x") };
        let mut own = Edges::new();
        for unfinished in [1, 2] {
            let job = submitted(&spec, None, Needs::all_success(unfinished), 1);
            step_single(&job, NOW, &mut own);
        }
        let ends = |edge: &Edge| edge.trigger == TRIGGERS[0] && edge.words != "a dependency is done";
        for edge in own.into_iter().filter(ends) {
            edges.insert(Edge { words: format!("{}, `if_unmet` is `{words}`", edge.words), ..edge });
        }
    }
    edges
}

fn first_edge(words: &str, job: &Job) -> Edge {
    let (to, events) = (State::of(job), vec!["submitted"]);
    Edge {
        trigger: SUBMIT,
        words: words.to_owned(),
        role: Role::Named,
        last_attempt: None,
        from: None,
        to,
        events,
    }
}

fn walk_single(first: Vec<Job>, edges: &mut Edges) {
    let mut seen = BTreeSet::new();
    let mut open: VecDeque<(Job, Timestamp)> = first.into_iter().map(|job| (job, NOW)).collect();
    while let Some((job, at)) = open.pop_front() {
        if seen.insert(key(&job)) {
            let at = at + STEP;
            open.extend(step_single(&job, at, edges).into_iter().map(|next| (next, at)));
        }
    }
}

/// All that can follow; the changes are noted.
fn step_single(job: &Job, at: Timestamp, edges: &mut Edges) -> Vec<Job> {
    let mut following = Vec::new();
    let mut note = |trigger, words: &str, after: Job, events| {
        edges.insert(Edge {
            trigger,
            words: words.to_owned(),
            role: Role::Named,
            last_attempt: last_attempt(job),
            from: Some(State::of(job)),
            to: State::of(&after),
            events: with_refund(job, &after, events),
        });
        following.push(after);
    };
    for case in cases(job) {
        let mut after = job.clone();
        let events = match transition(&mut after, &case.trigger, at) {
            Ok(Change::Happened(kind)) => vec![kind.name()],
            Ok(Change::Touched | Change::Noted) => Vec::new(),
            Ok(Change::Repeated) | Err(_) => continue,
        };
        note(trigger_name(&case.trigger), &case.words, after, events);
    }
    let mut after = job.clone();
    let change = Edit { priority: Some(job.spec.priority + 1), ..Edit::default() };
    if edit(&mut after, &change).is_ok() {
        note(EDIT, EDITED, after, vec!["edited"]);
    }
    following
}

fn gang(keep_done: bool, min: Option<u32>, max_attempts: u32, unfinished: u32) -> Vec<Job> {
    let task = |index: u32| {
        let id = GangId::from_random([9; 16]);
        let membership = GangMembership { id, size: 2, index, min, per_worker: 1, keep_done, topology: None };
        let spec = JobSpec {
            max_attempts,
            timeout: Some(Span::from_millis(1)),
            deadline: Some(NOW),
            gang: Some(membership),
            ..JobSpec::shell("x")
        };
        let needs = if unfinished == 0 { Needs::default() } else { Needs::all_success(unfinished) };
        submitted(&spec, None, needs, index as u8 + 1)
    };
    (0..2).map(task).collect()
}

/// Every change of the tasks of gangs.
pub(crate) fn gangs() -> Edges {
    let mut edges = Edges::new();
    for keep_done in [false, true] {
        for min in [None, Some(1)] {
            for max_attempts in [2, 1] {
                let mut first = Vec::new();
                for (unfinished, words) in
                    [(0, "it waits for no dependency"), (1, "a dependency is not done")]
                {
                    let tasks = gang(keep_done, min, max_attempts, unfinished);
                    let edge = first_edge(words, &tasks[0]);
                    edges.insert(Edge { role: Role::Other, ..edge.clone() });
                    edges.insert(edge);
                    first.push(tasks);
                }
                walk_gang(first, &mut edges);
            }
        }
    }
    edges
}

fn walk_gang(first: Vec<Vec<Job>>, edges: &mut Edges) {
    let mut seen = BTreeSet::new();
    let mut open: VecDeque<(Vec<Job>, Timestamp)> = first.into_iter().map(|tasks| (tasks, NOW)).collect();
    while let Some((tasks, at)) = open.pop_front() {
        if seen.insert(tasks.iter().map(key).collect::<Vec<_>>()) {
            let at = at + STEP;
            open.extend(step_gang(&tasks, at, edges).into_iter().map(|next| (next, at)));
        }
    }
}

/// A worker is heard of all the while; a round starts with those who were heard of just now.
fn hear(task: &mut Job, at: Timestamp) {
    let caller = Caller { lease: Some(task.lease), worker: None };
    let _ = transition(task, &Trigger::Heartbeat { caller }, at);
}

fn step_gang(tasks: &[Job], at: Timestamp, edges: &mut Edges) -> Vec<Vec<Job>> {
    let mut following = Vec::new();
    for named in 0..tasks.len() {
        for case in cases(&tasks[named]) {
            let mut after = tasks.to_vec();
            let trigger = trigger_name(&case.trigger);
            let step = Step { trigger, words: &case.words, named: Some(named) };
            if matches!(case.trigger, Trigger::Prepared { .. }) {
                for task in &mut after {
                    hear(task, at);
                }
            }
            let effects = if case.trigger.concerns_gang() {
                match gang_transition(&mut after, tasks[named].id, &case.trigger, at) {
                    Ok(change) if change.change != Change::Repeated => change.effects,
                    Ok(_) | Err(_) => continue,
                }
            } else {
                match alone(&mut after, named, &case.trigger, at) {
                    Some(effects) => effects,
                    None => continue,
                }
            };
            step.note(tasks, &after, &effects, edges);
            following.push(after);
        }
    }
    for (words, placed) in [("all tasks are placed", 0..2), ("enough tasks are placed", 0..1)] {
        let mut after = tasks.to_vec();
        let places: Vec<Place> = tasks[placed].iter().filter(|task| !task.is_terminal()).map(place).collect();
        if !places.is_empty()
            && let Ok(effects) = reserve(&mut after, &places, at)
        {
            Step { trigger: PLACE, words, named: None }.note(tasks, &after, &effects, edges);
            following.push(after);
        }
    }
    let (after, effects) = edited(tasks);
    Step { trigger: EDIT, words: EDITED, named: None }.note(tasks, &after, &effects, edges);
    let mut after = tasks.to_vec();
    if let Ok(effects) = lapse(&mut after, impatient(), at) {
        Step { trigger: LAPSE, words: "a task was not claimed in time", named: None }
            .note(tasks, &after, &effects, edges);
        following.push(after);
    }
    following
}

/// What is decided upon for one task alone. All tasks have the same dependencies and hear of them together.
fn alone(tasks: &mut [Job], named: usize, trigger: &Trigger, at: Timestamp) -> Option<Effects> {
    let together = matches!(trigger, Trigger::DependencyEnded { .. } | Trigger::Revive { .. });
    let mut effects = Effects::new();
    for index in (0..tasks.len()).filter(|index| together || *index == named) {
        match transition(&mut tasks[index], trigger, at) {
            Ok(Change::Happened(kind)) => effects.push((tasks[index].id, kind)),
            Ok(Change::Repeated) | Err(_) if index == named => return None,
            Ok(Change::Touched | Change::Noted | Change::Repeated) | Err(_) => {}
        }
    }
    Some(effects)
}

/// All tasks of a gang are edited together; one that does not wait stays as it is.
fn edited(tasks: &[Job]) -> (Vec<Job>, Effects) {
    let mut after = tasks.to_vec();
    let mut effects = Effects::new();
    for task in &mut after {
        let change = Edit { priority: Some(task.spec.priority + 1), ..Edit::default() };
        if let Ok(what) = edit(task, &change) {
            effects.push((task.id, EventKind::Edited { what }));
        }
    }
    (after, effects)
}

fn place(task: &Job) -> Place {
    let worker = WorkerId::new(format!("w{}", task.lease.0));
    Place { task: task.id, worker, host: "h".into(), port: None, address: "h".into(), devices: None }
}

/// What was done to a gang; without a name where it is done to all tasks.
struct Step<'a> {
    trigger: &'static str,
    words: &'a str,
    named: Option<usize>,
}

impl Step<'_> {
    /// Notes what became of each task: of the named one in any case, of the others where they changed. A task
    /// may have several events in one step.
    fn note(&self, before: &[Job], after: &[Job], effects: &Effects, edges: &mut Edges) {
        for (index, (old, new)) in before.iter().zip(after).enumerate() {
            let role = if self.named.is_none_or(|named| named == index) { Role::Named } else { Role::Other };
            let events: Vec<&'static str> =
                effects.iter().filter(|(id, _)| *id == old.id).map(|(_, kind)| kind.name()).collect();
            let (from, to) = (State::of(old), State::of(new));
            if events.is_empty() && from == to && self.named != Some(index) {
                continue;
            }
            let events = with_refund(old, new, events);
            let last_attempt = self.named.and_then(|named| last_attempt(&before[named]));
            let (trigger, words) = (self.trigger, self.words.to_owned());
            let edge = Edge { trigger, words, role, last_attempt, from: Some(from), to, events };
            if self.named.is_none() {
                edges.insert(Edge { role: Role::Other, ..edge.clone() });
            }
            edges.insert(edge);
        }
    }
}
