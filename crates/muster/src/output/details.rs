//! Everything about one job, one field a line.

use jiff::Timestamp;
use muster_client::status_name;
use muster_protocol::Job;

use super::human::command;
use super::quantities::{age, printable, resources, span, time};
use super::screen::Screen;
use super::style;

const LABEL_WIDTH: usize = 12;

/// The fields that are set, in the order in which people ask for them.
pub(crate) fn job_details(job: &Job, now: Timestamp, screen: Screen) -> String {
    let mut lines = Vec::new();
    let mut add = |label: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{:<LABEL_WIDTH$}{value}", format!("{label}:")));
        }
    };
    add("id", printable(&job.id));
    add("name", job.name.as_deref().map(printable).unwrap_or_default());
    add("status", style::paint(status_name(job.status), style::of_status(job.status), screen.colour));
    add("reason", job.reason.as_deref().map(printable).unwrap_or_default());
    add("exit", exit(job));
    add("command", command(job));
    add("directory", job.working_dir.as_deref().map(printable).unwrap_or_default());
    add("queue", job.queue_name.as_deref().map(printable).unwrap_or_default());
    add("priority", if job.priority == 0 { String::new() } else { job.priority.to_string() });
    add("needs", job.resources.as_ref().map(resources).unwrap_or_default());
    add("tags", printable(&job.tags.join(", ")));
    add("after", printable(&job.depends_on.join(", ")));
    add("attempts", format!("{} of {}", job.attempts, job.max_retries));
    add("worker", job.worker_id.as_deref().map(printable).unwrap_or_default());
    add("lease", if job.lease == 0 { String::new() } else { job.lease.to_string() });
    add("grace", job.grace_seconds.map(|seconds| format!("{seconds}s")).unwrap_or_default());
    add("gang", job.gang_id.as_deref().map(|id| gang(job, id)).unwrap_or_default());
    add("submitted", moment(job.created_at, now));
    add("started", job.started_at.map(|at| moment(at, now)).unwrap_or_default());
    add("ended", job.done_at.map(|at| ended(job, at, now)).unwrap_or_default());
    for warning in &job.warnings {
        add("warning", printable(warning));
    }
    lines.join("\n")
}

/// How the last attempt ended, unless the reason says so already.
fn exit(job: &Job) -> String {
    if job
        .reason
        .as_deref()
        .is_some_and(|reason| reason.starts_with("exit code") || reason.starts_with("signal"))
    {
        return String::new();
    }
    match (job.exit_code, job.signal) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), None) => format!("code {code}"),
        (None, None) => String::new(),
    }
}

fn gang(job: &Job, id: &str) -> String {
    format!("{}, task {} of {}", printable(id), job.gang_index + 1, job.gang_size)
}

fn moment(at: Timestamp, now: Timestamp) -> String {
    format!("{} UTC ({} ago)", time(at), age(at, now))
}

fn ended(job: &Job, at: Timestamp, now: Timestamp) -> String {
    let took = job.started_at.map(|started| format!(", ran {}", span(started, at))).unwrap_or_default();
    format!("{} UTC ({} ago{took})", time(at), age(at, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_set_is_shown() {
        let job: Job = serde_json::from_str(
            r#"{"id":"job-1","command":"exit 3","status":"failed","created_at":"2026-05-05T08:33:00Z",
                "started_at":"2026-05-05T08:33:01Z","done_at":"2026-05-05T08:33:03.5Z","max_retries":1,"attempts":1,
                "exit_code":3,"lease":1,"resources":{"cpus":2}}"#,
        )
        .unwrap();
        let screen = Screen { json: false, colour: false, width: Some(80) };
        let expected = "\
id:         job-1
status:     failed
exit:       code 3
command:    exit 3
needs:      2 cpus
attempts:   1 of 1
lease:      1
submitted:  2026-05-05 08:33:00 UTC (60s ago)
started:    2026-05-05 08:33:01 UTC (59s ago)
ended:      2026-05-05 08:33:03 UTC (57s ago, ran 2.5s)";
        assert_eq!(job_details(&job, "2026-05-05T08:34:00Z".parse().unwrap(), screen), expected);
    }
}
