//! Lists for people: jobs, workers, reasons, results.

use jiff::Timestamp;
use muster_client::status_name;
use muster_protocol::{Job, JobStatus, Why, Worker, WorkerStatus};

use super::quantities::{age, cores, memory, printable};
use super::screen::Screen;
use super::style;
use super::table::{Column, Content, render};
use super::worker_details::{gpus_used, tags_and_labels};
use crate::exit;
use crate::watch::short;
use crate::zone::Zone;

/// The id as it is shown: short where people look, whole where programs read.
pub(super) fn id(id: &str, screen: Screen) -> String {
    let shown = printable(id);
    let known = ["job-", "set-", "gang-"].iter().any(|kind| shown.starts_with(kind));
    if screen.width.is_none() || !known {
        return shown;
    }
    short(&shown).to_owned()
}

/// The command as a person would type it.
pub(crate) fn command(job: &Job) -> String {
    if job.argv.is_empty() {
        return printable(&job.command);
    }
    let words: Vec<String> = job.argv.iter().map(|word| quote(word)).collect();
    printable(&words.join(" "))
}

fn quote(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The state of a job for people: one that is held or delayed is pending only for programs, and a task of a gang
/// is blocked only for them.
pub(crate) fn state(job: &Job, now: Timestamp) -> &'static str {
    let waits =
        job.status == JobStatus::Pending || (job.status == JobStatus::Blocked && job.gang_id.is_some());
    if waits && job.held.is_some() {
        return "held";
    }
    if waits && job.not_before.is_some_and(|at| at > now) {
        return "delayed";
    }
    status_name(job.status)
}

/// Why a worker gets no work, and what to do about it; nothing for others.
pub(crate) fn quarantine(worker: &Worker, zone: Zone) -> Option<String> {
    let quarantine = worker.quarantine.as_ref()?;
    let name = printable(&worker.id);
    if quarantine.revoked {
        return Some(format!(
            "the key of {name} was revoked {}: it gets no work until it joins again, with a new token of \
             `muster join-token create`",
            zone.time(quarantine.since)
        ));
    }
    let evidence = printable(&quarantine.evidence.join("; "));
    Some(format!(
        "{name} is in quarantine until {} ({evidence}); `muster worker release {name}` ends it",
        zone.time(quarantine.probe_at)
    ))
}

/// The table of `muster workers`.
pub(crate) fn workers(workers: &[Worker], now: Timestamp, screen: Screen) -> String {
    const COLUMNS: [Column; 9] = [
        Column::elastic("ID", 8),
        Column::fixed("STATUS"),
        Column::right("JOBS"),
        Column::right("CPUS"),
        Column::right("MEMORY"),
        Column::right("GPUS"),
        Column::right("VRAM"),
        Column::right("SEEN"),
        Column::elastic("TAGS", 4),
    ];
    let rows: Vec<Vec<Content>> = workers.iter().map(|worker| worker_row(worker, now)).collect();
    render(&COLUMNS, &rows, screen)
}

fn worker_row(worker: &Worker, now: Timestamp) -> Vec<Content> {
    let (have, used) = (&worker.resources, &worker.used);
    let (gpus, vram_mb) = gpus_used(worker);
    let (status, color) = match (worker.status, &worker.quarantine) {
        (WorkerStatus::Active, None) => ("active", None),
        (WorkerStatus::Active, Some(_)) => ("quarantine", Some(comfy_table::Color::DarkYellow)),
        (WorkerStatus::Offline, _) => ("offline", Some(comfy_table::Color::DarkRed)),
    };
    let of = |used: String, have: String, there: bool| {
        if there { format!("{used}/{have}") } else { "-".to_owned() }
    };
    let slots = worker
        .slots
        .map_or_else(|| worker.running.to_string(), |slots| format!("{}/{slots}", worker.running));
    vec![
        (printable(&worker.id), None),
        (status.to_owned(), color),
        (slots, None),
        (of(cores(used.cpus), cores(have.cpus), have.cpus > 0.0), None),
        (of(memory(used.memory_mb), memory(have.memory_mb), have.memory_mb > 0), None),
        (of(gpus.to_string(), have.gpus.to_string(), have.gpus > 0), None),
        (of(memory(vram_mb), memory(have.vram_mb), have.vram_mb > 0), None),
        (age(worker.last_heartbeat, now), None),
        (tags_and_labels(worker), None),
    ]
}

/// What `muster why` says.
pub(crate) fn why(why: &Why, screen: Screen) -> String {
    let status = style::paint(status_name(why.status), style::of_status(why.status), screen.colour);
    let mut text = format!("{} is {status}", printable(&why.id));
    for (title, lines) in why_parts(why, screen.zone) {
        if !title.is_empty() {
            text.push('\n');
            text.push_str(title);
        }
        for line in lines {
            text.push('\n');
            text.push_str(&item(&line, screen));
        }
    }
    text
}

/// What is said about a job, part by part: the title, which the first part does not have, and the lines.
pub(crate) fn why_parts(why: &Why, zone: Zone) -> Vec<(&'static str, Vec<String>)> {
    let said = |message: &str| zone.in_text(&printable(message));
    let mut reasons: Vec<String> = why.reasons.iter().map(|reason| said(&reason.message)).collect();
    // Kept room is a reason, and says when.
    reasons.extend(why.start.as_ref().filter(|start| !start.kept).map(|start| {
        let by = if start.by_history { "time limits and earlier runs" } else { "time limits" };
        format!("could start about {}, by the {by} of what runs", zone.minute(start.at))
    }));
    reasons.extend(
        why.expected_seconds
            .map(|seconds| format!("expected to run for {}", super::details::expected(seconds))),
    );
    let mut classes: Vec<String> = why.classes.iter().map(|class| said(&class.message)).collect();
    if why.more_classes > 0 {
        classes.push(format!("{} workers of {} more kinds", why.more_workers, why.more_classes));
    }
    let help = why.suggestions.iter().map(|one| said(&one.message)).collect();
    let parts = [("", reasons), ("workers", classes), ("what would help", help)];
    parts.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
}

/// One item of a list, its further lines below its first word.
pub(super) fn item(text: &str, screen: Screen) -> String {
    let room = screen.width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(4));
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let current = lines.last().map_or(0, |line| line.chars().count());
        if current > 0 && current + 1 + word.chars().count() > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    format!("  - {}", lines.join("\n    "))
}

/// How a job ended, in one line.
pub(crate) fn ended(job: &Job, screen: Screen) -> String {
    let status = style::paint(status_name(job.status), style::of_status(job.status), screen.colour);
    let why = match (job.exit_code, job.signal, job.reason.as_deref()) {
        (_, _, Some(reason)) if exit::ran_out_of_time(job) => format!(" ({})", printable(reason)),
        (_, Some(signal), _) => format!(" (signal {signal})"),
        (Some(code), None, _) if code != 0 => format!(" (exit code {code})"),
        (_, None, Some(reason)) => format!(" ({})", printable(reason)),
        (_, None, None) => String::new(),
    };
    format!("{} {status}{why}", printable(&job.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: Option<u16>) -> Screen {
        Screen { json: false, colour: false, width, zone: crate::zone::Zone::UTC }
    }

    #[test]
    fn words_are_quoted_only_where_the_shell_needs_it() {
        assert_eq!([quote("a.b=c"), quote(""), quote("it's")], ["a.b=c", "''", r"'it'\''s'"]);
    }

    #[test]
    fn long_reasons_are_broken_between_words() {
        let text = item("needs 99999999 memory_mb, has 24105 and that is all there is", screen(Some(40)));
        assert_eq!(text, "  - needs 99999999 memory_mb, has 24105\n    and that is all there is");
        assert_eq!(item("a b", screen(None)), "  - a b");
    }

    #[test]
    fn reasons_are_a_list() {
        let why_pending: Why = serde_json::from_str(
            r#"{"id":"job-1","status":"pending","reasons":[{"code":"no_workers","message":"no worker is registered"}]}"#,
        )
        .unwrap();
        assert_eq!(why(&why_pending, screen(None)), "job-1 is pending\n  - no worker is registered");
        let whole: Why = serde_json::from_str(
            r#"{"id":"job-1","status":"pending","reasons":[{"code":"resources","message":"all are busy"}],
                "start":{"at":"2026-05-05T14:20:07Z","kept":false,"by_history":true},"expected_seconds":720.0,
                "classes":[{"message":"3 workers with 8 GPUs: busy"}],"more_classes":2,"more_workers":5,
                "suggestions":[{"code":"less","message":"with 4 GPUs instead of 8 it would start now on w3"}]}"#,
        )
        .unwrap();
        let expected = "job-1 is pending
  - all are busy
  - could start about 2026-05-05 14:20 UTC, by
    the time limits and earlier runs of what
    runs
  - expected to run for about 12m00s, as runs of
    this name took before
workers
  - 3 workers with 8 GPUs: busy
  - 5 workers of 2 more kinds
what would help
  - with 4 GPUs instead of 8 it would start now
    on w3";
        assert_eq!(why(&whole, screen(Some(48))), expected);
    }
}
