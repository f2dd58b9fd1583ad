//! The page: a table for each trigger, and a diagram of the main paths, both made of the changes that were seen.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::Status;

use crate::explore::{EDIT, Edge, Edges, LAPSE, PLACE, REFUND, Role, SUBMIT};
use crate::names::{State, TRIGGERS};

const HEAD: &str = "\
# The state machine of jobs

Generated from `muster_domain::lifecycle` by its test, which walks through all states that can be reached and tries
every trigger in each of them; `make docs` writes it anew.

How to read the tables:

- A trigger that is not listed for a state is refused there and changes nothing. A trigger that only repeats what
  was applied before is answered as before and is not listed either.
- The words in parentheses say more about a state: why a job is `preempting`, or how far a task is prepared. `preempted`
  as a next state keeps the reason of the stop. \"Unchanged\" speaks of the state; a heartbeat, for example, is kept.
- Several next states mean that the job's own terms decide: a pause before the next attempt leads to `delayed`, a hold
  to `held`. A job that loses three workers in a row is held.
- The event is what the log says about the job. A dash means that nothing is written. \"Attempt refunded\": the attempt
  does not count.
- Dependencies are shown under the rule `all_success`.
";

const SINGLES: &str = "
## Jobs outside gangs

The main paths:
";

const GANGS: &str = "
## Tasks of gangs

What happens to one task is decided upon for all tasks of its gang. In the tables, *named* is the task that the trigger
is about, *other* is any other task of the gang, and *any* is both. A drained task waits in `preempted` until no process
of the gang can be alive; then the verdict falls on all tasks at once. A task that did not cause the stop gets its attempt
back. A task that ends well waits in `finished` for the others, unless the gang keeps what is done.

The main paths:
";

const LEFT: &str = ", attempts left";
const NONE_LEFT: &str = ", no attempt left";

/// The triggers that the diagrams show.
const MAIN: [&str; 15] = [
    "Dependency ended",
    "Due",
    "Hold",
    "Release",
    "Claim",
    "Prepared",
    "Report",
    "Silence",
    "Overrun",
    "Expire",
    "Cancel",
    "Preempt",
    "Retry",
    PLACE,
    LAPSE,
];

pub(crate) fn page(singles: &Edges, gangs: &Edges) -> String {
    let single_paths = diagram(singles, single_label);
    let gang_paths = diagram(gangs, |edge| edge.trigger.to_lowercase());
    let (single_tables, gang_tables) = (tables(singles, false), tables(gangs, true));
    [HEAD, SINGLES, &single_paths, &single_tables, GANGS, &gang_paths, &gang_tables].concat()
}

/// A report by its kind, where that decides.
fn single_label(edge: &Edge) -> String {
    let kind = edge.words.split('`').nth(1);
    match (edge.trigger, edge.from, kind) {
        ("Report", Some(State { status: Status::Running, .. }), Some(kind)) => format!("report {kind}"),
        _ => edge.trigger.to_lowercase(),
    }
}

/// States without their notes, and what leads from one to the other.
fn diagram(edges: &Edges, label: impl Fn(&Edge) -> String) -> String {
    let mut paths: BTreeMap<(Option<Status>, Status), BTreeSet<String>> = BTreeMap::new();
    for edge in edges {
        let from = edge.from.map(|from| from.status);
        let shown = from.is_none() || MAIN.contains(&edge.trigger);
        if shown && from != Some(edge.to.status) {
            paths.entry((from, edge.to.status)).or_default().insert(label(edge));
        }
    }
    let mut text = String::from("\n```mermaid\nstateDiagram-v2\n");
    for ((from, to), labels) in paths {
        let from = from.map_or("[*]", Status::as_str);
        let labels: Vec<String> = labels.into_iter().collect();
        text.push_str(&format!("    {from} --> {to}: {}\n", labels.join(" / ")));
    }
    for status in Status::ALL.into_iter().filter(|status| status.is_terminal()) {
        text.push_str(&format!("    {status} --> [*]\n"));
    }
    text + "```\n"
}

fn tables(edges: &Edges, gangs: bool) -> String {
    let mut notes: BTreeMap<&str, BTreeSet<State>> = BTreeMap::new();
    for state in edges.iter().flat_map(|edge| edge.from.into_iter().chain([edge.to])) {
        notes.entry(state.name).or_default().insert(state);
    }
    let mut text = String::new();
    let titles = [SUBMIT, EDIT, PLACE, LAPSE];
    for title in titles.iter().chain(TRIGGERS) {
        let rows = rows(edges.iter().filter(|edge| edge.trigger == *title));
        if rows.is_empty() {
            continue;
        }
        let (task, line) = if gangs { ("| Task ", "|---") } else { ("", "") };
        text.push_str(&format!("\n### {title}\n\n{task}| State | What happens | Next state | Event |\n"));
        text.push_str(&format!("{line}|---|---|---|---|\n"));
        for (row, words) in rows {
            let task = if gangs { format!("| {} ", roles(&row.roles)) } else { String::new() };
            let from = states(row.from.iter().copied().flatten(), &notes);
            let words = shortened(&words);
            let events: Vec<String> = row.events.iter().map(|event| event_words(event)).collect();
            let (from, words, events) = (dashed(from), words.join("; "), dashed(events.join(", ")));
            text.push_str(&format!("{task}| {from} | {words} | {} | {events} |\n", next(&row.to, &notes)));
        }
    }
    text
}

fn event_words(event: &str) -> String {
    if event == REFUND { event.to_owned() } else { format!("`{event}`") }
}

/// Cases in which attempts decide are told apart only where they lead to different rows.
fn shortened(words: &BTreeSet<String>) -> Vec<String> {
    let short = |case: &String| {
        let plain = case.strip_suffix(LEFT).or_else(|| case.strip_suffix(NONE_LEFT)).unwrap_or(case);
        let both = [LEFT, NONE_LEFT].iter().all(|note| words.contains(&format!("{plain}{note}")));
        if both { plain.to_owned() } else { case.clone() }
    };
    words.iter().map(short).collect::<BTreeSet<_>>().into_iter().collect()
}

fn dashed(text: String) -> String {
    if text.is_empty() { "–".to_owned() } else { text }
}

/// What a trigger leads to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Unchanged,
    /// Without its note where that stays.
    State(State),
}

impl Next {
    fn of(edge: &Edge) -> Self {
        match edge.from {
            Some(from) if from == edge.to => Self::Unchanged,
            Some(from) if from.note == edge.to.note && edge.to.status == Status::Preempted => {
                Self::State(State { note: "", ..edge.to })
            }
            _ => Self::State(edge.to),
        }
    }
}

fn next(to: &BTreeSet<Next>, notes: &BTreeMap<&str, BTreeSet<State>>) -> String {
    let state = |next: &Next| match next {
        Next::Unchanged => None,
        Next::State(state) => Some(*state),
    };
    let mut words = states(to.iter().filter_map(state), notes);
    if to.contains(&Next::Unchanged) {
        words.push_str(if words.is_empty() { "unchanged" } else { ", unchanged" });
    }
    words
}

/// States that behave alike.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    from: BTreeSet<Option<State>>,
    roles: BTreeSet<Role>,
    to: BTreeSet<Next>,
    events: Vec<&'static str>,
}

type Outcome<'a> = BTreeSet<(Next, &'a [&'static str])>;
type ByAttempts<'a> = BTreeMap<Option<bool>, Outcome<'a>>;

/// A row of a table: trigger, state, next states and events.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Fact<'a> {
    words: String,
    from: Option<State>,
    to: BTreeSet<Next>,
    events: &'a [&'static str],
}

/// The changes by one trigger, and the cases that lead to each.
fn rows<'a>(edges: impl Iterator<Item = &'a Edge>) -> BTreeMap<Row, BTreeSet<String>> {
    let mut outcomes: BTreeMap<(&str, Role, Option<State>), ByAttempts<'_>> = BTreeMap::new();
    for edge in edges {
        let by_attempts = outcomes.entry((&edge.words, edge.role, edge.from)).or_default();
        by_attempts.entry(edge.last_attempt).or_default().insert((Next::of(edge), &edge.events));
    }
    let mut facts: BTreeMap<Fact<'_>, BTreeSet<Role>> = BTreeMap::new();
    for ((words, role, from), by_attempts) in outcomes {
        for (words, outcome) in told_apart(words, by_attempts) {
            let mut next: BTreeMap<&[&'static str], BTreeSet<Next>> = BTreeMap::new();
            for (to, events) in outcome {
                next.entry(events).or_default().insert(to);
            }
            for (events, to) in next {
                facts.entry(Fact { words: words.clone(), from, to, events }).or_default().insert(role);
            }
        }
    }
    let mut alike: BTreeMap<_, BTreeSet<Option<State>>> = BTreeMap::new();
    for (Fact { words, from, to, events }, roles) in facts {
        alike.entry((words, roles, to, events)).or_default().insert(from);
    }
    let mut rows: BTreeMap<Row, BTreeSet<String>> = BTreeMap::new();
    for ((words, roles, to, events), from) in alike {
        rows.entry(Row { from, roles, to, events: events.to_vec() }).or_default().insert(words);
    }
    rows
}

/// Attempts are spoken of only where they decide.
fn told_apart<'a>(words: &str, by_attempts: ByAttempts<'a>) -> Vec<(String, Outcome<'a>)> {
    let (left, none) = (by_attempts.get(&Some(false)), by_attempts.get(&Some(true)));
    let decides = left.is_some() && none.is_some() && left != none;
    let told = |(last, outcome): (Option<bool>, Outcome<'a>)| {
        let words = match last.filter(|_| decides) {
            None => words.to_owned(),
            Some(false) => format!("{words}{LEFT}"),
            Some(true) => format!("{words}{NONE_LEFT}"),
        };
        (words, outcome)
    };
    if decides {
        return by_attempts.into_iter().map(told).collect();
    }
    vec![(words.to_owned(), by_attempts.into_values().flatten().collect())]
}

fn roles(roles: &BTreeSet<Role>) -> &'static str {
    match (roles.contains(&Role::Named), roles.contains(&Role::Other)) {
        (true, true) => "any",
        (true, false) => "named",
        (false, _) => "other",
    }
}

/// States in words; their notes are left out where all states of that name are meant.
fn states(set: impl IntoIterator<Item = State>, all: &BTreeMap<&str, BTreeSet<State>>) -> String {
    let mut by_name: BTreeMap<Status, BTreeSet<State>> = BTreeMap::new();
    for state in set {
        by_name.entry(state.status).or_default().insert(state);
    }
    let name = |states: BTreeSet<State>| {
        let name = states.first().map_or("", |state| state.name);
        let notes: Vec<&str> =
            states.iter().map(|state| state.note).filter(|note| !note.is_empty()).collect();
        if notes.is_empty() || all.get(name) == Some(&states) {
            format!("`{name}`")
        } else if notes.len() < states.len() {
            format!("`{name}`, `{name}` ({})", notes.join("; "))
        } else {
            format!("`{name}` ({})", notes.join("; "))
        }
    };
    by_name.into_values().map(name).collect::<Vec<_>>().join(", ")
}
