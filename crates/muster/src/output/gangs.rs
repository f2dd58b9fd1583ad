//! Gangs for people: the list, the tasks of one, and its rounds.

use std::collections::BTreeMap;

use comfy_table::Color;
use jiff::Timestamp;
use muster_client::{gang_state_name, status_name};
use muster_protocol::{Event, GangPolicy, GangState, GangSummary, Job, LaunchMode};
use serde::Serialize;

use super::human::{command, id};
use super::quantities::{age, bytes, printable, resources, span};
use super::screen::Screen;
use super::style;
use super::table::{Column, Content, render};
use crate::gang::{Round, reason, rounds, state};

const LABEL_WIDTH: usize = 12;

/// A gang for programs: what its tasks come to, and the tasks.
#[derive(Debug, Serialize)]
pub(crate) struct GangDocument<'a> {
    id: &'a str,
    state: GangState,
    size: usize,
    rounds: u32,
    preemption_epoch: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    tasks: &'a [Job],
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<&'a [Event]>,
}

impl<'a> GangDocument<'a> {
    pub(crate) fn new(id: &'a str, tasks: &'a [Job], events: &'a [Event]) -> Self {
        Self {
            id,
            state: state(tasks),
            size: tasks.len(),
            rounds: largest(tasks, |task| task.reservation_epoch),
            preemption_epoch: largest(tasks, |task| task.preemption_epoch),
            reason: reason(tasks, events),
            tasks,
            events: None,
        }
    }

    /// With all that has happened.
    pub(crate) fn with_events(self, events: &'a [Event]) -> Self {
        Self { events: Some(events), ..self }
    }
}

fn largest(tasks: &[Job], number: impl Fn(&Job) -> u32) -> u32 {
    tasks.iter().map(number).max().unwrap_or(0)
}

fn colour(state: GangState) -> Option<Color> {
    match state {
        GangState::Done => Some(Color::DarkGreen),
        GangState::Failed => Some(Color::DarkRed),
        GangState::Cancelled | GangState::Draining => Some(Color::DarkYellow),
        GangState::Running => Some(Color::DarkCyan),
        GangState::Waiting | GangState::Starting => None,
    }
}

fn painted(state: GangState, screen: Screen) -> String {
    style::paint(gang_state_name(state), colour(state), screen.colour)
}

/// The table of `muster gangs`.
pub(crate) fn gang_list(gangs: &[GangSummary], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 8] = [
        Column::fixed("ID"),
        Column::elastic("NAME", 6),
        Column::fixed("STATE"),
        Column::right("SIZE"),
        Column::right("RUNNING"),
        Column::right("ROUNDS"),
        Column::right("AGE"),
        Column::elastic("REASON OR COMMAND", 12),
    ];
    let row = |gang: &GangSummary| -> Vec<Content> {
        let running = gang.tasks.get("running").copied().unwrap_or(0);
        let remark = gang.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or(&gang.command);
        vec![
            (id(&gang.id, screen), None),
            (gang.name.as_deref().map_or_else(|| "-".to_owned(), printable), None),
            (gang_state_name(gang.state).to_owned(), colour(gang.state)),
            (gang.size.to_string(), None),
            (running.to_string(), None),
            (gang.rounds.to_string(), None),
            (age(gang.created_at, now), None),
            (printable(remark), None),
        ]
    };
    render(&COLUMNS, &gangs.iter().map(row).collect::<Vec<_>>(), screen)
}

/// How a gang ended, in one line.
pub(crate) fn gang_ended(id: &str, tasks: &[Job], events: &[Event], screen: Screen) -> String {
    let state = state(tasks);
    // A cancel without a message has nothing to add.
    let why = reason(tasks, events).filter(|why| why != gang_state_name(state));
    let why = why.map(|why| format!(" ({})", printable(&why))).unwrap_or_default();
    format!("{} {}{why}", printable(id), painted(state, screen))
}

/// What `muster show` says about a gang: what it is, its tasks, and its rounds.
pub(crate) fn gang_details(
    gang: &str,
    tasks: &[Job],
    events: &[Event],
    now: Timestamp,
    screen: Screen,
) -> String {
    let found = rounds(events);
    let mut parts = vec![heading(gang, tasks, events, now, screen), task_table(tasks, now, screen)];
    if !found.is_empty() {
        parts.push(round_table(&found, state(tasks), now, screen));
    }
    parts.join("\n\n")
}

fn heading(gang: &str, tasks: &[Job], events: &[Event], now: Timestamp, screen: Screen) -> String {
    let mut lines = Vec::new();
    let mut add = |label: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{:<LABEL_WIDTH$}{value}", format!("{label}:")));
        }
    };
    add("id", printable(gang));
    let Some(first) = tasks.first() else { return lines.join("\n") };
    add("pipeline", first.pipeline_id.as_deref().map(printable).unwrap_or_default());
    add("name", first.name.as_deref().map(printable).unwrap_or_default());
    add("state", painted(state(tasks), screen));
    add("reason", reason(tasks, events).as_deref().map(printable).unwrap_or_default());
    add("held", first.held.as_deref().map(printable).unwrap_or_default());
    add("tasks", format!("{} ({})", tasks.len(), counts(tasks)));
    add("at least", first.gang_min.map(|least| least.to_string()).unwrap_or_default());
    add("rounds", largest(tasks, |task| task.reservation_epoch).to_string());
    add("epoch", largest(tasks, |task| task.preemption_epoch).to_string());
    add("command", command(first));
    add("directory", first.working_dir.as_deref().map(printable).unwrap_or_default());
    add("queue", first.queue_name.as_deref().map(printable).unwrap_or_default());
    add("priority", if first.priority == 0 { String::new() } else { first.priority.to_string() });
    add(
        "needs",
        first.resources.as_ref().map(|needs| format!("{} each", resources(needs))).unwrap_or_default(),
    );
    add("tags", printable(&first.tags.join(", ")));
    let shared = first.tasks_per_worker.filter(|most| *most > 1);
    add("per worker", shared.map(|most| format!("up to {most} tasks")).unwrap_or_default());
    add(
        "policy",
        first
            .gang_policy
            .filter(|it| *it == GangPolicy::KeepDone)
            .map(|_| "keep_done".to_owned())
            .unwrap_or_default(),
    );
    add(
        "launch",
        first
            .launch
            .filter(|it| *it == LaunchMode::PerRank)
            .map(|_| "per_rank".to_owned())
            .unwrap_or_default(),
    );
    add("after", printable(&first.depends_on.join(", ")));
    add("submitted", format!("{} ({} ago)", screen.zone.time(first.created_at), age(first.created_at, now)));
    let ended = tasks.iter().map(|task| task.done_at).collect::<Option<Vec<_>>>();
    let ended = ended.and_then(|times| times.into_iter().max());
    add(
        "ended",
        ended.map(|at| format!("{} ({} ago)", screen.zone.time(at), age(at, now))).unwrap_or_default(),
    );
    lines.join("\n")
}

/// `3 running, 1 done`.
fn counts(tasks: &[Job]) -> String {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for task in tasks {
        *counts.entry(task.status).or_default() += 1;
    }
    let words = counts.iter().map(|(status, count)| format!("{count} {}", status_name(*status)));
    words.collect::<Vec<_>>().join(", ")
}

fn task_table(tasks: &[Job], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 7] = [
        Column::right("RANK"),
        Column::fixed("TASK"),
        Column::fixed("STATUS"),
        Column::elastic("WORKER", 6),
        Column::right("ATTEMPT"),
        Column::elastic("CHECKPOINT", 10),
        Column::elastic("END", 10),
    ];
    let row = |task: &Job| -> Vec<Content> {
        vec![
            (task.gang_index.to_string(), None),
            (id(&task.id, screen), None),
            (status_name(task.status).to_owned(), style::of_status(task.status)),
            (task.worker_id.as_deref().map_or_else(|| "-".to_owned(), printable), None),
            (format!("{}/{}", task.attempts, task.max_retries), None),
            (checkpoint(task, now), None),
            (end(task), None),
        ]
    };
    render(&COLUMNS, &tasks.iter().map(row).collect::<Vec<_>>(), screen)
}

fn checkpoint(task: &Job, now: Timestamp) -> String {
    let when = task.checkpoint_at.map(|at| format!(", {} ago", age(at, now))).unwrap_or_default();
    task.checkpoint_bytes.map_or_else(|| "-".to_owned(), |size| format!("{}{when}", bytes(size)))
}

/// How the last process of the task ended, and why the task did.
fn end(task: &Job) -> String {
    let exit = match (task.signal, task.exit_code) {
        (Some(signal), _) => Some(format!("signal {signal}")),
        (None, Some(code)) => Some(format!("exit code {code}")),
        (None, None) => None,
    };
    let reason = task.reason.as_deref().map(printable);
    match (exit, reason) {
        (Some(exit), Some(reason)) if reason.starts_with(&exit) => reason,
        (Some(exit), Some(reason)) => format!("{exit}; {reason}"),
        (exit, reason) => exit.or(reason).unwrap_or_else(|| "-".to_owned()),
    }
}

fn round_table(rounds: &[Round], state: GangState, now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 6] = [
        Column::right("ROUND"),
        Column::fixed("PLACED"),
        Column::right("TASKS"),
        Column::right("RAN"),
        Column::right("STOPPED IN"),
        Column::elastic("ENDED BY", 12),
    ];
    let row = |round: &Round| -> Vec<Content> {
        let ran = round.started_at.map(|started| span(started, round.ended_at.unwrap_or(now)));
        let stopped = round.ended_at.zip(round.gone_at).filter(|(ended, gone)| gone > ended);
        let end = round.end.as_deref().map_or_else(|| gang_state_name(state).to_owned(), printable);
        vec![
            (round.number.to_string(), None),
            (screen.zone.bare(round.placed_at), None),
            (format!("{}/{}", round.claimed, round.tasks), None),
            (ran.unwrap_or_else(|| "-".to_owned()), None),
            (stopped.map_or_else(|| "-".to_owned(), |(ended, gone)| span(ended, gone)), None),
            (end, None),
        ]
    };
    render(&COLUMNS, &rounds.iter().map(row).collect::<Vec<_>>(), screen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-05-05T08:01:00Z";

    fn screen() -> Screen {
        Screen { json: false, colour: false, width: Some(110), zone: crate::zone::Zone::UTC }
    }

    fn task(index: u32, more: &str) -> Job {
        let text = format!(
            r#"{{"id":"job-{index}","command":"torchrun train.py","created_at":"2026-05-05T08:00:00Z","max_retries":3,
                "gang_id":"gang-1","gang_size":2,"gang_index":{index},"reservation_epoch":2,"preemption_epoch":1,
                "gang_state":"running","resources":{{"gpus":8}},"tasks_per_worker":2,{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn event(id: u32, second: u32, kind: &str, task: u32, data: &str) -> Event {
        let text = format!(
            r#"{{"id":{id},"at":"2026-05-05T08:00:{second:02}Z","type":"{kind}","job_id":"job-{task}","data":{data}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_gang_is_drawn_with_its_tasks_and_rounds() {
        let why = r#"{"epoch":1,"reason":"rank 1 of the gang failed: exit code 7"}"#;
        let events = [
            event(1, 1, "reserved", 0, r#"{"round":1,"size":2}"#),
            event(2, 1, "reserved", 1, r#"{"round":1,"size":2}"#),
            event(3, 1, "claimed", 0, "{}"),
            event(4, 2, "claimed", 1, "{}"),
            event(5, 10, "stop_requested", 0, why),
            event(6, 10, "drained", 1, r#"{"epoch":1,"exit_code":7}"#),
            event(7, 12, "drained", 0, r#"{"epoch":1,"exit_code":0}"#),
            event(8, 13, "reserved", 0, r#"{"round":2,"size":2}"#),
            event(9, 13, "reserved", 1, r#"{"round":2,"size":2}"#),
            event(10, 13, "claimed", 0, "{}"),
            event(11, 14, "claimed", 1, "{}"),
        ];
        let tasks = [
            task(
                0,
                r#""status":"running","attempts":1,"worker_id":"w1","checkpoint_bytes":12000,"checkpoint_at":"2026-05-05T08:00:11Z""#,
            ),
            task(1, r#""status":"running","attempts":2,"worker_id":"w2","exit_code":7"#),
        ];
        let text = gang_details("gang-1", &tasks, &events, NOW.parse().unwrap(), screen());
        let expected = "\
id:         gang-1
state:      running
tasks:      2 (2 running)
rounds:     2
epoch:      1
command:    torchrun train.py
needs:      8 gpus each
per worker: up to 2 tasks
submitted:  2026-05-05 08:00:00 UTC (60s ago)

RANK  TASK   STATUS   WORKER  ATTEMPT  CHECKPOINT      END
   0  job-0  running  w1          1/3  11.7K, 49s ago  -
   1  job-1  running  w2          2/3  -               exit code 7

ROUND  PLACED               TASKS    RAN  STOPPED IN  ENDED BY
    1  2026-05-05 08:00:01    2/2   8.0s        2.0s  rank 1 of the gang failed: exit code 7
    2  2026-05-05 08:00:13    2/2  46.0s           -  running";
        assert_eq!(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"), expected, "\n{text}");
    }

    #[test]
    fn the_list_says_where_each_gang_stands() {
        let gangs: Vec<GangSummary> = serde_json::from_str(
            r#"[{"id":"gang-3f0c1a2b-0000-4000-8000-000000000001","state":"draining","size":4,"command":"x","name":"train","priority":0,
                 "rounds":3,"preemption_epoch":2,"created_at":"2026-05-05T08:00:00Z","reason":"rank 1 of the gang failed: exit code 7",
                 "tasks":{"preempting":3,"running":1}}]"#,
        )
        .unwrap();
        let expected = "\
ID             NAME   STATE     SIZE  RUNNING  ROUNDS  AGE  REASON OR COMMAND
gang-3f0c1a2b  train  draining     4        1       3  60s  rank 1 of the gang failed: exit code 7";
        assert_eq!(gang_list(&gangs, NOW.parse().unwrap(), screen()), expected);
    }

    #[test]
    fn the_end_is_one_line_and_a_document() {
        let tasks = [
            task(0, r#""status":"done","attempts":1"#),
            task(1, r#""status":"failed","attempts":3,"exit_code":7,"reason":"exit code 7""#),
        ]
        .map(|task| Job { gang_state: Some(muster_protocol::GangState::Failed), ..task });
        assert_eq!(gang_ended("gang-1", &tasks, &[], screen()), "gang-1 failed (rank 1: exit code 7)");
        let document = serde_json::to_value(GangDocument::new("gang-1", &tasks, &[])).unwrap();
        assert_eq!((&document["state"], &document["rounds"]), (&"failed".into(), &2.into()));
        assert_eq!(document["tasks"][1]["exit_code"], 7);
    }
}
