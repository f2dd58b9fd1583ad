//! Fields that are objects themselves: back-off, the causes of another attempt, keys, what a step needs. And the
//! words of the fields that know a few.

use muster_protocol::{
    Concurrency, DependencyRule, IfUnmet, LaunchMode, OnConflict, OnPreemptExit0, OpenMode, Retry, SecretUse,
    SecretWish, SignalScope, Unique,
};

use crate::mistake::{Mistakes, Position};
use crate::node::{Content, Node};
use crate::values;

pub(crate) const RULES: [(&str, DependencyRule); 7] = [
    ("all_success", DependencyRule::AllSuccess),
    ("all_done", DependencyRule::AllDone),
    ("all_failed", DependencyRule::AllFailed),
    ("one_failed", DependencyRule::OneFailed),
    ("one_success", DependencyRule::OneSuccess),
    ("none_failed", DependencyRule::NoneFailed),
    ("always", DependencyRule::Always),
];
pub(crate) const IF_UNMET: [(&str, IfUnmet); 3] =
    [("fail", IfUnmet::Fail), ("cancel", IfUnmet::Cancel), ("run", IfUnmet::Run)];
pub(crate) const LAUNCH: [(&str, LaunchMode); 2] =
    [("per_node", LaunchMode::PerNode), ("per_rank", LaunchMode::PerRank)];
pub(crate) const ON_PREEMPT_EXIT0: [(&str, OnPreemptExit0); 2] =
    [("requeue", OnPreemptExit0::Requeue), ("success", OnPreemptExit0::Success)];
pub(crate) const OPEN_MODES: [(&str, OpenMode); 2] =
    [("append", OpenMode::Append), ("truncate", OpenMode::Truncate)];
pub(crate) const SIGNAL_SCOPES: [(&str, SignalScope); 4] = [
    ("leader", SignalScope::Leader),
    ("group", SignalScope::Group),
    ("descendants", SignalScope::Descendants),
    ("all", SignalScope::All),
];
const ON_CONFLICT: [(&str, OnConflict); 2] =
    [("existing", OnConflict::Existing), ("replace", OnConflict::Replace)];

/// `{initial: 10s, factor: 2, max: 5m, jitter: 0.1}`, or the initial delay alone.
pub(crate) fn backoff(node: &Node, mistakes: &mut Mistakes) -> Option<Retry> {
    if matches!(node.content, Content::Scalar(_)) && !node.is_null() {
        let initial = values::duration(node, "backoff", mistakes)?;
        return Some(Retry { initial_seconds: Some(initial), ..Retry::default() });
    }
    let mut retry = Retry::default();
    for entry in values::mapping(node, "backoff", mistakes)? {
        let value = &entry.value;
        match entry.key.as_str() {
            "initial" => retry.initial_seconds = values::duration(value, "initial", mistakes),
            "factor" => retry.factor = values::number(value, "factor", (1.0, 1000.0), mistakes),
            "max" => retry.max_seconds = values::duration(value, "max", mistakes),
            "jitter" => retry.jitter = values::number(value, "jitter", (0.0, 1.0), mistakes),
            other => {
                mistakes.unknown_key(entry.at, other, "backoff", &["initial", "factor", "max", "jitter"]);
            }
        }
    }
    if retry.initial_seconds.is_none() {
        mistakes.add(node.at, "backoff needs the initial delay, such as {initial: 10s}");
    }
    Some(retry)
}

/// `{exit_codes: [2], signals: [SIGKILL], lost: true, timeout: false, oom: true}`.
pub(crate) fn retry_on(node: &Node, mistakes: &mut Mistakes) -> Option<Retry> {
    let mut retry = Retry::default();
    for entry in values::mapping(node, "retry_on", mistakes)? {
        let value = &entry.value;
        match entry.key.as_str() {
            "exit_codes" => retry.exit_codes = exit_codes(value, "exit_codes", mistakes),
            "signals" => {
                let read = |item: &Node, mistakes: &mut Mistakes| {
                    values::signal(item, "an element of signals", mistakes)
                };
                retry.signals = values::list_of(value, "signals", mistakes, read);
            }
            "lost" => retry.lost = values::boolean(value, "lost", mistakes),
            "timeout" => retry.timeout = values::boolean(value, "timeout", mistakes),
            "oom" => retry.oom = values::boolean(value, "oom", mistakes),
            other => {
                let known = ["exit_codes", "signals", "lost", "timeout", "oom"];
                mistakes.unknown_key(entry.at, other, "retry_on", &known);
            }
        }
    }
    Some(retry)
}

/// `x2`, or `x2:64G` with the most.
pub(crate) fn oom_memory(node: &Node, mistakes: &mut Mistakes) -> Option<Retry> {
    let text = values::text(node, "oom_memory", mistakes)?;
    let Some((factor, most)) = crate::amounts::memory_growth(&text) else {
        mistakes.add(
            node.at,
            format!("oom_memory must be a factor such as x2, or x2:64G with the most, not {text:?}"),
        );
        return None;
    };
    Some(Retry { oom_memory_factor: Some(factor), oom_memory_max_mb: most, ..Retry::default() })
}

pub(crate) fn exit_codes(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<Vec<i32>> {
    let each = format!("an element of {field}");
    values::list_of(node, field, mistakes, |item, mistakes| values::whole(item, &each, (1, 255), mistakes))
}

/// `{key: db, limit: 2}`, or the key alone for one at a time.
pub(crate) fn concurrency(node: &Node, mistakes: &mut Mistakes) -> Option<Concurrency> {
    if matches!(node.content, Content::Scalar(_)) {
        let key = values::name(node, "concurrency", mistakes)?;
        return Some(Concurrency { key, limit: 1 });
    }
    let (mut key, mut limit) = (None, Some(1));
    for entry in values::mapping(node, "concurrency", mistakes)? {
        match entry.key.as_str() {
            "key" => key = Some(values::name(&entry.value, "key", mistakes)?),
            "limit" => limit = values::whole(&entry.value, "limit", (1, u32::MAX), mistakes),
            other => mistakes.unknown_key(entry.at, other, "concurrency", &["key", "limit"]),
        }
    }
    let key = required(key, node.at, "concurrency needs a key, such as {key: database, limit: 2}", mistakes)?;
    Some(Concurrency { key, limit: limit? })
}

/// `{key: x, on_conflict: existing}`, or the key alone.
pub(crate) fn unique(node: &Node, mistakes: &mut Mistakes) -> Option<Unique> {
    if matches!(node.content, Content::Scalar(_)) {
        let key = values::name(node, "unique", mistakes)?;
        return Some(Unique { key, on_conflict: OnConflict::Existing });
    }
    let (mut key, mut on_conflict) = (None, Some(OnConflict::Existing));
    for entry in values::mapping(node, "unique", mistakes)? {
        match entry.key.as_str() {
            "key" => key = Some(values::name(&entry.value, "key", mistakes)?),
            "on_conflict" => on_conflict = values::word(&entry.value, "on_conflict", &ON_CONFLICT, mistakes),
            other => mistakes.unknown_key(entry.at, other, "unique", &["key", "on_conflict"]),
        }
    }
    let key = required(key, node.at, "unique needs a key, such as {key: nightly}", mistakes)?;
    Some(Unique { key, on_conflict: on_conflict? })
}

/// Names of secrets, or mappings that say how each is handed over.
pub(crate) fn secrets(node: &Node, mistakes: &mut Mistakes) -> Option<Vec<SecretWish>> {
    values::list_of(node, "secrets", mistakes, secret)
}

fn secret(node: &Node, mistakes: &mut Mistakes) -> Option<SecretWish> {
    let Content::Mapping(entries) = &node.content else {
        return values::name(node, "an element of secrets", mistakes).map(SecretWish::Name);
    };
    let (mut name, mut file, mut variable) = (None, Some(false), None);
    for entry in entries {
        match entry.key.as_str() {
            "name" => name = Some(values::name(&entry.value, "name", mistakes)?),
            "file" => file = values::boolean(&entry.value, "file", mistakes),
            "as" => variable = Some(values::name(&entry.value, "as", mistakes)?),
            other => {
                mistakes.unknown_key(entry.at, other, "an element of secrets", &["name", "file", "as"]);
            }
        }
    }
    let message = "an element of secrets must have a name, such as {name: db, file: true}";
    let name = required(name, node.at, message, mistakes)?;
    Some(SecretWish::Use(SecretUse { name, file: file?, variable }))
}

fn required<T>(value: Option<T>, at: Position, message: &str, mistakes: &mut Mistakes) -> Option<T> {
    if value.is_none() {
        mistakes.add(at, message);
    }
    value
}

/// One step that another needs, as written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenNeed {
    pub(crate) at: Position,
    pub(crate) step: String,
    pub(crate) rule: Option<DependencyRule>,
}

/// A name, a mapping with a rule, or a list of both.
pub(crate) fn needs(node: &Node, mistakes: &mut Mistakes) -> Vec<WrittenNeed> {
    match &node.content {
        Content::List(items) => items.iter().filter_map(|item| need(item, mistakes)).collect(),
        Content::Scalar(scalar) if scalar.is_null() => Vec::new(),
        Content::Scalar(_) | Content::Mapping(_) => need(node, mistakes).into_iter().collect(),
    }
}

fn need(node: &Node, mistakes: &mut Mistakes) -> Option<WrittenNeed> {
    let Content::Mapping(entries) = &node.content else {
        let step = values::name(node, "an element of needs", mistakes)?;
        return Some(WrittenNeed { at: node.at, step, rule: None });
    };
    let (mut step, mut rule) = (None, None);
    for entry in entries {
        match entry.key.as_str() {
            "step" => step = Some((entry.value.at, values::name(&entry.value, "step", mistakes)?)),
            "rule" => rule = Some(values::word(&entry.value, "rule", &RULES, mistakes)?),
            other => mistakes.unknown_key(entry.at, other, "an element of needs", &["step", "rule"]),
        }
    }
    let message = "an element of needs must name a step, such as {step: extract, rule: all_done}";
    let (at, step) = required(step, node.at, message, mistakes)?;
    Some(WrittenNeed { at, step, rule })
}
