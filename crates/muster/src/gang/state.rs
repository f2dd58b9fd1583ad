//! Where a gang stands and how it ended, from its tasks and what happened to them.

use muster_protocol::{Event, GangState, Job, JobStatus};

use crate::exit;

/// The state of the whole, as the scheduler says it with every task; a gang of which nothing is known waits.
pub(crate) fn state(tasks: &[Job]) -> GangState {
    tasks.iter().find_map(|task| task.gang_state).unwrap_or(GangState::Waiting)
}

/// Whether nothing of it will ever run again, unless somebody asks for it.
pub(crate) fn is_final(state: GangState) -> bool {
    match state {
        GangState::Done | GangState::Failed | GangState::Cancelled => true,
        GangState::Waiting | GangState::Starting | GangState::Running | GangState::Draining => false,
    }
}

/// The task that made the gang fail: the one that failed for itself, else the first whose process was gone
/// in the last stop, else any that failed.
fn first_failed<'a>(tasks: &'a [Job], events: &[Event]) -> Option<&'a Job> {
    let of = |event: &Event| {
        let id = event.job_id.as_deref()?;
        tasks.iter().find(|task| task.id == id && task.status == JobStatus::Failed)
    };
    let own = |event: &&Event| {
        event.kind == "failed" && (event.data.contains_key("exit_code") || event.data.contains_key("signal"))
    };
    let epoch = |event: &Event| event.data.get("epoch").and_then(serde_json::Value::as_u64);
    let last = events.iter().filter(|event| event.kind == "stop_requested").filter_map(epoch).max();
    let gone = |event: &&Event| event.kind == "drained" && epoch(event) == last;
    let by_itself = events.iter().rev().filter(own).find_map(of);
    by_itself
        .or_else(|| events.iter().filter(gone).find_map(of))
        .or_else(|| tasks.iter().find(|task| task.status == JobStatus::Failed))
}

/// What `run` and `wait` exit with for a gang that ended.
pub(crate) fn exit_code(tasks: &[Job], events: &[Event]) -> u8 {
    match state(tasks) {
        GangState::Done => exit::OK,
        GangState::Cancelled => exit::CANCELLED,
        GangState::Failed => first_failed(tasks, events).map_or(exit::NO_EXIT_CODE, exit::of_job),
        GangState::Waiting | GangState::Starting | GangState::Running | GangState::Draining => exit::FAILURE,
    }
}

/// Why the gang failed, was cancelled or is being stopped, in one line.
pub(crate) fn reason(tasks: &[Job], events: &[Event]) -> Option<String> {
    let task = match state(tasks) {
        GangState::Done => return None,
        GangState::Failed => first_failed(tasks, events)?,
        _ => tasks.iter().find(|task| task.reason.is_some())?,
    };
    let text = task.reason.as_deref()?;
    // Words that speak of a task say which one; others are made to.
    let speaks = state(tasks) != GangState::Failed || text.starts_with("rank ");
    Some(if speaks { text.to_owned() } else { format!("rank {}: {text}", task.gang_index) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a gang that stands as this task does.
    fn task(index: u32, status: &str, more: &str) -> Job {
        let state = match status {
            "blocked" | "pending" => "waiting",
            "reserved" => "starting",
            "preempting" | "preempted" => "draining",
            other => other,
        };
        let text = format!(
            r#"{{"id":"job-{index}","command":"x","status":"{status}","created_at":"2026-05-05T08:00:00Z","max_retries":1,"attempts":1,"gang_id":"gang-1","gang_size":3,"gang_index":{index},"gang_state":"{state}"{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn tasks(statuses: &[&str]) -> Vec<Job> {
        statuses.iter().enumerate().map(|(index, status)| task(index as u32, status, "")).collect()
    }

    fn events(lines: &[(&str, u32, &str)]) -> Vec<Event> {
        let one = |(id, (kind, task, data)): (usize, &(&str, u32, &str))| {
            let text = format!(
                r#"{{"id":{id},"at":"2026-05-05T08:00:00Z","type":"{kind}","job_id":"job-{task}","data":{data}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        lines.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_state_is_what_the_scheduler_says() {
        assert_eq!(state(&[]), GangState::Waiting);
        let spared =
            vec![task(0, "done", ""), task(1, "cancelled", r#","reason":"its gang ran without it""#)];
        assert_eq!(state(&spared), GangState::Done);
        assert_eq!(exit_code(&spared, &[]), 0);
    }

    #[test]
    fn the_code_is_that_of_the_task_that_failed_first() {
        let ended = vec![
            task(0, "failed", r#","signal":15,"reason":"rank 2 of the gang failed: exit code 7""#),
            task(1, "failed", r#","exit_code":1,"reason":"rank 2 of the gang failed: exit code 7""#),
            task(2, "failed", r#","exit_code":7,"reason":"exit code 7""#),
        ];
        let own = events(&[
            ("stop_requested", 0, r#"{"epoch":1}"#),
            ("drained", 0, r#"{"epoch":1,"signal":15}"#),
            ("drained", 2, r#"{"epoch":1,"exit_code":7}"#),
            ("failed", 0, "{}"),
            ("failed", 2, r#"{"exit_code":7}"#),
        ]);
        assert_eq!(exit_code(&ended, &own), 7);
        assert_eq!(reason(&ended, &own).as_deref(), Some("rank 2: exit code 7"));
        let by_order = events(&[
            ("drained", 0, r#"{"epoch":1,"signal":15}"#),
            ("stop_requested", 0, r#"{"epoch":2}"#),
            ("drained", 1, r#"{"epoch":2,"exit_code":1}"#),
            ("drained", 0, r#"{"epoch":2,"signal":15}"#),
        ]);
        assert_eq!(exit_code(&ended, &by_order), 1);
        assert_eq!(exit_code(&ended, &[]), 143);
        assert_eq!(exit_code(&tasks(&["failed", "done"]), &[]), 125);
        assert_eq!(exit_code(&tasks(&["cancelled", "done"]), &[]), 130);
    }
}
