//! What was submitted, and the shape of what it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::container::{CONTAINERS, Container};
use crate::ids::{GangId, JobId, QueueName};
use crate::inputs::Inputs;
use crate::output_path::OutputFiles;
use crate::resources::{Requirement, Resources};
use crate::retry::RetryPolicy;
use crate::rule::{IfUnmet, Rule};
use crate::secrets::SecretUse;
use crate::terminal::TerminalSize;
use crate::time::{Span, Timestamp};
use crate::topology::Topology;

/// How the process is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// A line for `sh -c`.
    #[serde(rename = "sh")]
    Shell(String),
    /// A program and its arguments, run as they are.
    #[serde(rename = "argv")]
    Argv(Vec<String>),
}

impl Program {
    /// One line for people; arguments that need it are quoted for a shell.
    pub fn to_line(&self) -> String {
        match self {
            Self::Shell(line) => line.clone(),
            Self::Argv(words) => words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" "),
        }
    }
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Membership in a gang: everything but the index is the same for all its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GangMembership {
    pub id: GangId,
    pub size: u32,
    pub index: u32,
    /// The fewest tasks that a round may start with; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u32>,
    /// The most tasks on one worker.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub per_worker: u32,
    /// Tasks that are done stay done when the others start again. Otherwise the gang fails then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_done: bool,
    /// Where its tasks are to be, by the labels of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
const fn is_one(value: &u32) -> bool {
    *value == 1
}

/// What one process of a job stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchMode {
    #[default]
    PerNode,
    PerRank,
}

/// How the process learns about its place among others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    #[serde(default)]
    pub mode: LaunchMode,
    /// Export the variables that Slurm sets.
    #[serde(default)]
    pub slurm_env: bool,
}

/// Which processes get the polite signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignalScope {
    Leader,
    Group,
    Descendants,
    All,
}

/// What becomes of a running job when its worker reaches no scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnDisconnect {
    /// It is stopped soon, so that it can soon start elsewhere.
    #[serde(rename = "stop")]
    Stop,
    /// It goes on for so long, and does not start elsewhere before.
    #[serde(rename = "keep")]
    Keep(Span),
}

/// What was submitted. It never changes, so it is shared rather than copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a wish of its own")]
pub struct JobSpec {
    #[serde(rename = "p")]
    pub program: Program,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// `None` when the submitter said nothing, which the wire shows differently from an empty object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Tags required of the worker.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// The worker is to run nothing else meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Higher is more important.
    #[serde(default)]
    pub priority: i32,
    /// Attempts in all, the first one included.
    pub max_attempts: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<JobId>,
    /// The rule of each dependency, in the order of `depends_on`; empty when all must succeed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_unmet: Option<IfUnmet>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<Unique>,
    /// Time between the polite signal and the kill; the scheduler's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace: Option<Span>,
    /// The signal that asks the process to stop; SIGTERM when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<i32>,
    /// How long one attempt may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Not to be started earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Pointless afterwards: the job fails when it has not ended by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// At most so many jobs of one key run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    #[serde(default, skip_serializing_if = "is_default_retry")]
    pub retry: RetryPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gang: Option<GangMembership>,
    /// Those of `depends_on` that stand for a whole gang, which is named here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gangs: BTreeMap<JobId, GangId>,
    #[serde(default, skip_serializing_if = "is_default_launch")]
    pub launch: Launch,
    /// Exit code 0 after a preemption notice means that the work is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exit0_finishes: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal_scope: Option<SignalScope>,
    /// Only its owner and operators see it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Who submitted it: proven where callers have accounts, else as they said themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Who submitted it, as the scheduler has proven; only such a name may become a user of a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proven_user: Option<String>,
    /// Never stopped in favour of others; such work does not borrow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
    /// The scheduler's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disconnect: Option<OnDisconnect>,
    /// Files that its output is written to as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<OutputFiles>>,
    /// What it gets of secrets: names, never values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
    /// It runs in a container, and never on the host.
    #[serde(default, rename = "ct", skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<Container>>,
    /// What it finds when it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Box<Inputs>>,
    /// It runs in a terminal, of this size at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<TerminalSize>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_default_launch(launch: &Launch) -> bool {
    *launch == Launch::default()
}

fn is_default_retry(retry: &RetryPolicy) -> bool {
    *retry == RetryPolicy::default()
}

impl JobSpec {
    /// A shell job with every default; tests and callers set what they are about.
    pub fn shell(line: impl Into<String>) -> Self {
        Self {
            program: Program::Shell(line.into()),
            name: None,
            env: BTreeMap::new(),
            working_dir: None,
            resources: None,
            tags: BTreeSet::new(),
            exclusive: false,
            queue: None,
            priority: 0,
            max_attempts: crate::limits::DEFAULT_MAX_ATTEMPTS,
            depends_on: Vec::new(),
            rules: Vec::new(),
            if_unmet: None,
            unique: None,
            grace: None,
            stop_signal: None,
            timeout: None,
            not_before: None,
            deadline: None,
            concurrency: None,
            retry: RetryPolicy::default(),
            idempotency_key: None,
            gang: None,
            gangs: BTreeMap::new(),
            launch: Launch::default(),
            exit0_finishes: false,
            signal_scope: None,
            private: false,
            user: None,
            proven_user: None,
            fixed: false,
            on_disconnect: None,
            output: None,
            secrets: Vec::new(),
            container: None,
            inputs: None,
            pty: None,
        }
    }

    pub fn requirement(&self) -> Requirement {
        let mut tags = self.tags.clone();
        if self.container.is_some() {
            tags.insert(CONTAINERS.to_owned());
        }
        Requirement { resources: self.resources.clone().unwrap_or_default(), tags, exclusive: self.exclusive }
    }

    /// The rule of the dependency at this place.
    pub fn rule(&self, place: usize) -> Rule {
        self.rules.get(place).copied().unwrap_or_default()
    }

    pub fn shape(&self) -> Shape {
        Shape {
            requirement: self.requirement(),
            queue: self.queue.clone(),
            concurrency: self.concurrency.clone(),
            // Only queues count by user, or lend.
            user: self.queue.as_ref().and(self.user.clone()),
            fixed: self.fixed && self.queue.is_some(),
        }
    }
}

/// A key that at most one unfinished job has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unique {
    pub key: String,
    /// A newcomer takes the place of one that still waits; otherwise the one that is there is returned.
    #[serde(default)]
    pub replace: bool,
}

/// A key that jobs share, and how many of them may run at once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Concurrency {
    pub key: String,
    pub limit: u32,
}

/// All that decides whether and where a job may start: jobs of one shape differ only in priority and age.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    #[serde(flatten)]
    pub requirement: Requirement,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
    /// The submitter of a job in a queue, which may bound what each of them runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fixed: bool,
}

/// Names a [`Shape`]. The store keeps the shape under this name and moves a newcomer to the next free
/// name on a collision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShapeId(pub i64);

impl ShapeId {
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    pub fn of(shape: &Shape) -> Self {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        shape.hash(&mut hasher);
        Self(hasher.finish() as i64)
    }
}

/// FNV-1a: the id is stored, so it must not depend on the process that computes it.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_people_quotes_what_a_shell_would_split() {
        let argv = |words: &[&str]| Program::Argv(words.iter().map(|w| (*w).to_owned()).collect()).to_line();
        assert_eq!(argv(&["echo", "a b"]), "echo 'a b'");
        assert_eq!(argv(&["echo", "it's", ""]), r"echo 'it'\''s' ''");
        assert_eq!(argv(&["ls", "-l", "/tmp"]), "ls -l /tmp");
    }

    #[test]
    fn equal_requirements_have_one_shape_and_different_ones_do_not() {
        let mut a = JobSpec::shell("a");
        a.resources = Some(Resources { gpus: 1, ..Resources::default() });
        let b = JobSpec { program: Program::Shell("b".into()), ..a.clone() };
        assert_eq!(a.shape(), b.shape());
        assert_ne!(a.shape(), JobSpec::shell("a").shape());
        let alone = JobSpec { exclusive: true, ..a.clone() };
        assert_ne!(ShapeId::of(&a.shape()), ShapeId::of(&alone.shape()));
    }
}
