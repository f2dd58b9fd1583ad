//! Events: as the history of one job, and as a stream of everything.

use muster_protocol::{Event, Resources, Usage};
use serde_json::Value;

use super::human::id;
use super::quantities::{bytes, memory, printable, seconds_span, span};
use super::screen::Screen;
use super::style;
use super::usage::cpu_seconds;

const KIND_WIDTH: usize = 16;
/// Room for a short id and its gap; whole ids of piped output go beyond it.
const JOB_WIDTH: usize = 12;

/// What has happened to one job, with the time since its beginning.
pub(crate) fn timeline(events: &[Event], screen: Screen) -> String {
    let Some(first) = events.first() else { return String::new() };
    let lines: Vec<String> = events
        .iter()
        .map(|event| {
            let since = format!("+{}", span(first.at, event.at));
            let clock = screen.zone.clock(event.at);
            let line = format!("{clock}  {since:>9}  {}  {}", kind(event, screen), details(event));
            clip(line.trim_end(), screen)
        })
        .collect();
    lines.join("\n")
}

/// One event of the stream.
pub(crate) fn event_line(event: &Event, screen: Screen) -> String {
    let job = event.job_id.as_deref().map_or_else(|| "-".to_owned(), |job| id(job, screen));
    let at = screen.zone.bare(event.at);
    let line = format!("{at}  {job:<JOB_WIDTH$}  {}  {}", kind(event, screen), details(event));
    clip(line.trim_end(), screen)
}

fn kind(event: &Event, screen: Screen) -> String {
    let name = printable(&event.kind);
    style::paint(&format!("{name:<KIND_WIDTH$}"), style::of_event(&event.kind), screen.colour)
}

/// What the event says beyond its kind, in words; whatever has none is shown as it is.
fn details(event: &Event) -> String {
    let text = |key: &str| event.data.get(key).and_then(Value::as_str).map(printable);
    let number = |key: &str| event.data.get(key).filter(|value| value.is_number()).map(ToString::to_string);
    let attempt = number("attempt").map(|number| format!("attempt {number}"));
    let exit = exit(event).or_else(|| text("message"));
    let parts: Vec<Option<String>> = match event.kind.as_str() {
        "submitted" if event.data.get("blocked") == Some(&Value::Bool(true)) => {
            vec![Some("waits for others".to_owned())]
        }
        "submitted" | "prepared" => vec![],
        "claimed" => {
            vec![attempt, event.worker_id.as_deref().map(|worker| format!("on {}", printable(worker)))]
        }
        "reserved" => {
            let on = event.worker_id.clone().or_else(|| text("worker"));
            vec![
                number("round").map(|round| format!("round {round}")),
                on.map(|worker| format!("on {}", printable(&worker))),
            ]
        }
        "drained" => {
            let ran = event
                .data
                .get("ran_seconds")
                .and_then(Value::as_f64)
                .map(|ran| format!("after {}", seconds_span(ran)));
            let forced = event.data.get("forced") == Some(&Value::Bool(true));
            vec![
                exit,
                ran,
                forced.then(|| "presumed, nobody said so".to_owned()),
                text("rule").map(|rule| format!("({rule})")),
            ]
        }
        "started" => vec![number("round").map(|round| format!("round {round}, with all others"))],
        "unreserved" => vec![text("reason")],
        "checkpoint_saved" => vec![event.data.get("bytes").and_then(Value::as_u64).map(bytes)],
        "terminal_opened" => vec![text("kind")],
        "image_pulling" => vec![text("image")],
        "image_pulled" => {
            vec![text("image"), pull_cost(event), text("digest").map(|digest| format!("({digest})"))]
        }
        "requeued" => vec![Some(attempt_end(event))],
        "done" | "finished" => vec![
            event
                .data
                .get("ran_seconds")
                .and_then(Value::as_f64)
                .map(|seconds| format!("ran {}", seconds_span(seconds))),
        ],
        "failed" | "cancelled" | "stop_requested" => {
            vec![attempt.map(|attempt| attempt + ":"), text("reason").or(exit)]
        }
        _ => vec![Some(as_it_is(event))],
    };
    // The worker of a claim is named already.
    let by = event.by.as_ref().filter(|_| event.kind != "claimed");
    let by = by.map(|by| format!("by {}", printable(by)));
    let parts = parts.into_iter().flatten().filter(|part| !part.is_empty());
    parts.chain(used(event)).chain(by).collect::<Vec<_>>().join(" ")
}

/// What the attempt used that ended, of what it requested: `(0.2s of CPU time, 98.1M of 512M memory)`.
fn used(event: &Event) -> Option<String> {
    let usage: Usage = serde_json::from_value(event.data.get("usage")?.clone()).ok()?;
    let requested =
        event.data.get("requested").and_then(|of| serde_json::from_value::<Resources>(of.clone()).ok());
    let limit = requested.map_or(0, |requested| requested.memory_mb);
    let cpu = cpu_seconds(&usage).map(|seconds| format!("{} of CPU time", seconds_span(seconds)));
    let peak = usage.peak_memory_bytes.map(|peak| match limit {
        0 => format!("{} memory", bytes(peak)),
        limit => format!("{} of {} memory", bytes(peak), memory(limit)),
    });
    let parts: Vec<String> = cpu.into_iter().chain(peak).collect();
    (!parts.is_empty()).then(|| format!("({})", parts.join(", ")))
}

/// What a pull took: `72.1M in 3.0s`.
fn pull_cost(event: &Event) -> Option<String> {
    let size = event.data.get("bytes").and_then(Value::as_u64).filter(|size| *size > 0).map(bytes);
    let took = event.data.get("seconds").and_then(Value::as_f64).map(seconds_span);
    Some(format!("{}in {}", size.map(|size| format!("{size} ")).unwrap_or_default(), took?))
}

/// The pull of an image, as it begins and as it has ended.
pub(crate) fn pull_line(event: &Event) -> Option<String> {
    let image = printable(event.data.get("image").and_then(Value::as_str)?);
    match event.kind.as_str() {
        "image_pulling" => Some(format!("pulling {image}")),
        "image_pulled" => Some(format!("pulled {image}, {}", pull_cost(event)?)),
        _ => None,
    }
}

/// How an attempt ended that was not the last: `attempt 1 failed (exit code 4)`.
pub(crate) fn attempt_end(event: &Event) -> String {
    let attempt =
        event.data.get("attempt").map_or_else(|| "it".to_owned(), |number| format!("attempt {number}"));
    match event.data.get("cause").and_then(Value::as_str) {
        Some("worker_lost") => format!("{attempt} lost its worker"),
        Some("released") => format!("{attempt} was handed back unfinished"),
        Some("gang") => {
            let why =
                ["reason", "message"].iter().find_map(|key| event.data.get(*key)).and_then(Value::as_str);
            why.map_or_else(|| "its gang starts again".to_owned(), printable)
        }
        Some("preempted") => format!("{attempt} made room"),
        Some("oom") => {
            let message = event.data.get("message").and_then(Value::as_str).map(printable);
            format!("{attempt} ran {}", message.unwrap_or_else(|| "out of memory".to_owned()))
        }
        _ => {
            let message = event.data.get("message").and_then(Value::as_str).map(printable);
            let why = exit(event).or(message).map(|why| format!(" ({why})")).unwrap_or_default();
            format!("{attempt} failed{why}")
        }
    }
}

fn exit(event: &Event) -> Option<String> {
    let number = |key: &str| event.data.get(key).and_then(Value::as_i64);
    match (number("signal"), number("exit_code")) {
        (Some(signal), _) => Some(format!("signal {signal}")),
        (None, Some(code)) => Some(format!("exit code {code}")),
        (None, None) => None,
    }
}

/// Every key with its value.
fn as_it_is(event: &Event) -> String {
    let mut words: Vec<String> = Vec::new();
    if let Some(worker) = &event.worker_id {
        words.push(format!("worker={}", printable(worker)));
    }
    for (key, value) in &event.data {
        flatten(&printable(key), value, &mut words);
    }
    words.join(" ")
}

fn flatten(key: &str, value: &Value, words: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (name, inner) in fields {
                flatten(&format!("{key}.{}", printable(name)), inner, words);
            }
        }
        Value::String(text) if text.contains(' ') => words.push(format!("{key}=\"{}\"", printable(text))),
        Value::String(text) => words.push(format!("{key}={}", printable(text))),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => words.push(format!("{key}={value}")),
    }
}

/// Cuts a line at the edge of the screen; colours stay whole because only the end is cut, after them.
fn clip(line: &str, screen: Screen) -> String {
    let Some(width) = screen.width.map(usize::from) else { return line.to_owned() };
    let mut seen = 0;
    let mut in_escape = false;
    let mut cut = None;
    for (position, letter) in line.char_indices() {
        match letter {
            '\u{1b}' => in_escape = true,
            'm' if in_escape => in_escape = false,
            _ if in_escape => {}
            _ => {
                seen += 1;
                if seen == width {
                    cut = Some(position);
                }
            }
        }
    }
    match cut {
        Some(position) if seen > width => format!("{}…", &line[..position]),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Event> {
        serde_json::from_str(
            r#"[{"id":1,"at":"2026-05-05T08:33:00Z","type":"submitted","job_id":"job-1","data":{"blocked":true}},
                {"id":2,"at":"2026-05-05T08:33:00.012Z","type":"claimed","job_id":"job-1","worker_id":"w1","by":"worker w1",
                 "data":{"attempt":1,"lease":1}},
                {"id":3,"at":"2026-05-05T08:33:02Z","type":"failed","job_id":"job-1",
                 "data":{"attempt":1,"exit_code":3,"reason":"exit code 3"}},
                {"id":5,"at":"2026-05-05T08:33:02Z","type":"retry_requested","by":"ann (token ci)"},
                {"id":4,"at":"2026-05-05T08:33:02Z","type":"moved","worker_id":"w1","data":{"to":{"a":"b c"},"n":1}}]"#,
        )
        .unwrap()
    }

    fn screen(width: Option<u16>) -> Screen {
        Screen { json: false, colour: false, width, zone: crate::zone::Zone::UTC }
    }

    #[test]
    fn the_history_shows_times_since_the_first_event() {
        let expected = "\
08:33:00.000    +0.000s  submitted         waits for others
08:33:00.012    +0.012s  claimed           attempt 1 on w1
08:33:02.000      +2.0s  failed            attempt 1: exit code 3
08:33:02.000      +2.0s  retry_requested   by ann (token ci)
08:33:02.000      +2.0s  moved             worker=w1 n=1 to.a=\"b c\"";
        assert_eq!(timeline(&events(), screen(None)), expected);
    }

    #[test]
    fn the_end_of_an_attempt_says_what_it_used_of_what_it_requested() {
        let event: Event = serde_json::from_str(
            r#"{"id":1,"at":"2026-05-05T08:33:00Z","type":"done","data":{"ran_seconds":2,"requested":{"memory_mb":512},
                "usage":{"cpu_user_ms":150,"cpu_system_ms":50,"peak_memory_bytes":1048576}}}"#,
        )
        .unwrap();
        assert_eq!(details(&event), "ran 2.0s (0.200s of CPU time, 1.0M of 512M memory)");
    }

    #[test]
    fn every_way_to_be_queued_again_has_its_words() {
        let end = |data: &str| {
            let text = format!(r#"{{"id":1,"at":"2026-05-05T08:33:00Z","type":"requeued","data":{data}}}"#);
            attempt_end(&serde_json::from_str(&text).unwrap())
        };
        assert_eq!(end(r#"{"attempt":1,"cause":"failed","exit_code":4}"#), "attempt 1 failed (exit code 4)");
        assert_eq!(
            end(r#"{"attempt":1,"cause":"failed","message":"no such file"}"#),
            "attempt 1 failed (no such file)"
        );
        assert_eq!(end(r#"{"attempt":2,"cause":"worker_lost"}"#), "attempt 2 lost its worker");
        assert_eq!(end(r#"{"attempt":2,"cause":"released"}"#), "attempt 2 was handed back unfinished");
        assert_eq!(end("{}"), "it failed");
    }

    #[test]
    fn long_lines_are_cut_at_the_edge_with_and_without_colours() {
        for colour in [false, true] {
            let text = timeline(&events(), Screen { colour, ..screen(Some(45)) });
            let last = text.lines().nth(2).unwrap();
            let visible = last.replace("\u{1b}[31m", "").replace("\u{1b}[0m", "");
            assert_eq!(visible.chars().count(), 45, "{last}");
            assert!(visible.ends_with('…'));
        }
    }

    #[test]
    fn a_line_of_the_stream_names_the_job() {
        let expected = "2026-05-05 08:33:00  job-1         claimed           attempt 1 on w1";
        assert_eq!(event_line(&events()[1], screen(None)), expected);
    }
}
