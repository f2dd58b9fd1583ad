//! Webhooks and dead letters for people.

use comfy_table::Color;
use jiff::Timestamp;
use muster_protocol::{DeadLetter, Webhook};

use super::quantities::{age, printable};
use super::screen::Screen;
use super::table::{Column, Content, render};

const LABEL_WIDTH: usize = 14;

fn state(hook: &Webhook) -> (&'static str, Option<Color>) {
    match (hook.paused, hook.failures) {
        (true, _) => ("paused", Some(Color::DarkYellow)),
        (false, 0) => ("open", None),
        (false, _) => ("failing", Some(Color::DarkRed)),
    }
}

fn ago(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "-".to_owned(), |at| age(at, now))
}

/// The table of `muster webhook ls`.
pub(crate) fn webhooks(hooks: &[Webhook], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 8] = [
        Column::elastic("ID", 13),
        Column::fixed("STATE"),
        Column::right("DELIVERED"),
        Column::right("LAG"),
        Column::right("DEAD"),
        Column::right("LAST"),
        Column::elastic("EVENTS", 8),
        Column::elastic("URL", 12),
    ];
    let row = |hook: &Webhook| -> Vec<Content> {
        let (state, colour) = state(hook);
        vec![
            (printable(&hook.id), None),
            (state.to_owned(), colour),
            (hook.delivered.to_string(), None),
            (hook.lag.to_string(), None),
            (hook.dead_letters.to_string(), (hook.dead_letters > 0).then_some(Color::DarkRed)),
            (ago(hook.last_success_at, now), None),
            (printable(&hook.events.join(",")), None),
            (printable(&hook.url), None),
        ]
    };
    render(&COLUMNS, &hooks.iter().map(row).collect::<Vec<_>>(), screen)
}

/// Everything about a webhook, one field a line.
pub(crate) fn webhook_details(hook: &Webhook, now: Timestamp, screen: Screen) -> String {
    let mut lines = Vec::new();
    let mut add = |label: &str, value: String| {
        if !value.is_empty() {
            lines.push(format!("{:<LABEL_WIDTH$}{value}", format!("{label}:")));
        }
    };
    add("id", printable(&hook.id));
    add("url", printable(&hook.url));
    add("secret", hook.secret.as_deref().map(printable).unwrap_or_default());
    add("state", state(hook).0.to_owned());
    add("events", printable(&hook.events.join(", ")));
    add("queue", hook.queue_name.as_deref().map(printable).unwrap_or_default());
    add("job name", hook.job_name.as_deref().map(printable).unwrap_or_default());
    add("created", screen.zone.time(hook.created_at));
    add("delivered", hook.delivered.to_string());
    add("position", format!("event {}, {} behind the newest", hook.cursor, hook.lag));
    add("last success", hook.last_success_at.map(|at| format!("{} ago", age(at, now))).unwrap_or_default());
    let error = hook.last_error.as_deref().map(printable);
    let at = hook.last_error_at.map(|at| format!(" ({} ago)", age(at, now))).unwrap_or_default();
    add("last error", error.map(|error| format!("{error}{at}")).unwrap_or_default());
    add("failures", if hook.failures > 0 { format!("{} in a row", hook.failures) } else { String::new() });
    add("next attempt", hook.next_attempt_at.map(|at| screen.zone.time(at)).unwrap_or_default());
    add("dead letters", if hook.dead_letters > 0 { hook.dead_letters.to_string() } else { String::new() });
    lines.join("\n")
}

/// The table of `muster webhook dead-letters`. The ids are whole, since they are what is typed next.
pub(crate) fn dead_letters(letters: &[DeadLetter], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 6] = [
        Column::fixed("ID"),
        Column::fixed("EVENT"),
        Column::elastic("JOB", 12),
        Column::right("ATTEMPTS"),
        Column::right("SINCE"),
        Column::elastic("ERROR", 12),
    ];
    let row = |letter: &DeadLetter| -> Vec<Content> {
        let error = printable(&letter.error);
        vec![
            (printable(&letter.id), None),
            (printable(&letter.kind), None),
            (letter.job_id.as_deref().map_or_else(|| "-".to_owned(), printable), None),
            (letter.attempts.to_string(), None),
            (age(letter.at, now), None),
            (if letter.retrying { format!("to be sent again; {error}") } else { error }, None),
        ]
    };
    render(&COLUMNS, &letters.iter().map(row).collect::<Vec<_>>(), screen)
}
