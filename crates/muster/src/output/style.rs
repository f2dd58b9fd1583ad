//! Colours, and the one table that says which state has which.

use comfy_table::Color;
use muster_protocol::JobStatus;

/// The colour of a state; none for what needs no attention.
pub(super) fn of_status(status: JobStatus) -> Option<Color> {
    match status {
        JobStatus::Done | JobStatus::Finished => Some(Color::DarkGreen),
        JobStatus::Failed => Some(Color::DarkRed),
        JobStatus::Cancelled | JobStatus::Preempted | JobStatus::Preempting => Some(Color::DarkYellow),
        JobStatus::Running => Some(Color::DarkCyan),
        JobStatus::Pending | JobStatus::Blocked | JobStatus::Reserved => None,
    }
}

/// The colour of an event, by what it means for the job.
pub(super) fn of_event(kind: &str) -> Option<Color> {
    match kind {
        "done" | "finished" => Some(Color::DarkGreen),
        "failed" | "worker_offline" => Some(Color::DarkRed),
        "cancelled" | "requeued" | "stop_requested" | "drained" | "unreserved" => Some(Color::DarkYellow),
        "claimed" | "started" => Some(Color::DarkCyan),
        _ => None,
    }
}

/// Text in a colour, when colours are wanted.
pub(super) fn paint(text: &str, color: Option<Color>, wanted: bool) -> String {
    let code = match color {
        Some(Color::DarkGreen) => "32",
        Some(Color::DarkRed) => "31",
        Some(Color::DarkYellow) => "33",
        Some(Color::DarkCyan) => "36",
        Some(Color::DarkGrey) => "90",
        _ => return text.to_owned(),
    };
    if wanted { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}
