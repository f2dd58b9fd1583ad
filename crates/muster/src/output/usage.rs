//! Who used what, and how well what was requested fitted.

use muster_protocol::{Attempt, Job, Usage, UsageReport, UsageRow};

use super::quantities::{bytes, memory, printable, seconds_span, span};
use super::screen::Screen;
use super::table::{Column, Content, render};
use crate::args::UsageBy;

/// How well something fitted, in percent; `-` where that is not known.
fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.0}%", part * 100.0))
}

/// Hours, as accounts are kept in: `0.02`, `1.5`, `1234.0`.
fn hours(seconds: f64) -> String {
    let hours = seconds / 3600.0;
    if hours > 0.0 && hours < 0.995 { format!("{hours:.2}") } else { format!("{hours:.1}") }
}

/// What a row is about, in the columns of its kind.
fn subject(row: &UsageRow, by: UsageBy) -> Vec<Content> {
    let text = |text: Option<&String>| {
        let text = text.map(|text| printable(text)).filter(|text| !text.is_empty());
        (text.unwrap_or_else(|| "-".to_owned()), None)
    };
    match by {
        UsageBy::User => vec![text(row.user.as_ref())],
        UsageBy::Queue => vec![text(row.queue_name.as_ref())],
        UsageBy::UserAndQueue => vec![text(row.user.as_ref()), text(row.queue_name.as_ref())],
        UsageBy::Day => vec![text(row.day.as_ref())],
        UsageBy::Name => vec![text(row.user.as_ref()), text(row.name.as_ref())],
        UsageBy::Job => vec![text(row.job_id.as_ref()), text(row.user.as_ref()), text(row.name.as_ref())],
    }
}

fn titles(by: UsageBy) -> Vec<Column> {
    match by {
        UsageBy::User => vec![Column::elastic("USER", 8)],
        UsageBy::Queue => vec![Column::elastic("QUEUE", 8)],
        UsageBy::UserAndQueue => vec![Column::elastic("USER", 8), Column::elastic("QUEUE", 8)],
        UsageBy::Day => vec![Column::fixed("DAY (UTC)")],
        UsageBy::Name => vec![Column::elastic("USER", 8), Column::elastic("NAME", 8)],
        UsageBy::Job => {
            vec![Column::elastic("JOB", 13), Column::elastic("USER", 6), Column::elastic("NAME", 6)]
        }
    }
}

/// The table of `muster usage`, with all rows together at its end where there are several.
pub(crate) fn usage_table(report: &UsageReport, by: UsageBy, screen: Screen) -> String {
    let mut columns = titles(by);
    columns.extend(
        [
            "JOBS",
            "FAILED",
            "ATTEMPTS",
            "HOURS",
            "CPU HOURS",
            "REQUESTED",
            "CPU EFF",
            "MEM EFF",
            "PEAK MEM",
            "GPU HOURS",
        ]
        .map(Column::right),
    );
    let row = |first: Vec<Content>, row: &UsageRow| -> Vec<Content> {
        let peak = if row.peak_memory_bytes == 0 { "-".to_owned() } else { bytes(row.peak_memory_bytes) };
        let figures = [
            row.jobs.to_string(),
            row.jobs_failed.to_string(),
            row.attempts.to_string(),
            hours(row.wall_seconds),
            hours(row.cpu_seconds),
            hours(row.cpu_requested_seconds),
            percent(row.cpu_efficiency),
            percent(row.memory_efficiency),
            peak,
            hours(row.gpu_seconds),
        ];
        first.into_iter().chain(figures.map(|text| (text, None))).collect()
    };
    let mut rows: Vec<Vec<Content>> = report.rows.iter().map(|one| row(subject(one, by), one)).collect();
    if rows.len() > 1 {
        let mut first = vec![(String::new(), None); titles(by).len()];
        "all together".clone_into(&mut first[0].0);
        rows.push(row(first, &report.total));
    }
    render(&columns, &rows, screen)
}

/// The table of `muster usage JOB`: what each attempt used of what was requested.
pub(crate) fn attempt_usage(attempts: &[Attempt], screen: Screen) -> String {
    const COLUMNS: [Column; 9] = [
        Column::right("ATTEMPT"),
        Column::elastic("WORKER", 8),
        Column::fixed("STARTED"),
        Column::right("RAN"),
        Column::fixed("END"),
        Column::right("CPU TIME"),
        Column::right("CPU EFF"),
        Column::right("PEAK MEM"),
        Column::right("REQUESTED MEM"),
    ];
    let row = |attempt: &Attempt| -> Vec<Content> {
        let used = attempt.usage.unwrap_or_default();
        let dash = || "-".to_owned();
        let requested = attempt.requested.as_ref().map_or(0, |requested| requested.memory_mb);
        let texts = [
            attempt.attempt.to_string(),
            attempt.worker_id.as_deref().map_or_else(dash, printable),
            screen.zone.bare(attempt.started_at),
            attempt.ended_at.map_or_else(dash, |end| span(attempt.started_at, end)),
            end(attempt),
            cpu_seconds(&used).map_or_else(dash, seconds_span),
            percent(cpu_efficiency(attempt)),
            used.peak_memory_bytes.map_or_else(dash, bytes),
            if requested == 0 { dash() } else { memory(requested) },
        ];
        texts.into_iter().map(|text| (text, None)).collect()
    };
    render(&COLUMNS, &attempts.iter().map(row).collect::<Vec<_>>(), screen)
}

fn end(attempt: &Attempt) -> String {
    let exit = match (attempt.exit_code, attempt.signal) {
        (_, Some(signal)) => format!(", signal {signal}"),
        (Some(code), None) if code != 0 => format!(", exit {code}"),
        _ => String::new(),
    };
    attempt
        .outcome
        .as_ref()
        .map_or_else(|| "running".to_owned(), |outcome| format!("{}{exit}", printable(outcome)))
}

pub(super) fn cpu_seconds(usage: &Usage) -> Option<f64> {
    let millis = match (usage.cpu_user_ms, usage.cpu_system_ms) {
        (Some(user), Some(system)) => Some(user.saturating_add(system)),
        (user, system) => user.or(system),
    };
    millis.map(|millis| millis as f64 / 1e3)
}

fn cpu_efficiency(attempt: &Attempt) -> Option<f64> {
    let ran = attempt.ended_at?.as_millisecond().saturating_sub(attempt.started_at.as_millisecond());
    let requested = attempt.requested.as_ref()?.cpus * ran as f64 / 1e3;
    let used = cpu_seconds(attempt.usage.as_ref()?)?;
    (requested > 0.0).then(|| used / requested)
}

/// What a job used of what it requested, for its details.
pub(super) fn used(job: &Job) -> Vec<String> {
    let Some(usage) = &job.usage else { return Vec::new() };
    let mut lines = Vec::new();
    let requested = job.resources.clone().unwrap_or_default();
    if let Some(cpu) = cpu_seconds(&usage.total) {
        let part = usage.cpu_efficiency.map(|part| {
            let plural = if (requested.cpus - 1.0).abs() < f64::EPSILON { "" } else { "s" };
            let cpus = super::quantities::cores(requested.cpus);
            format!(", {} of {cpus} cpu{plural}", percent(Some(part)))
        });
        lines.push(format!("{} of CPU time{}", seconds_span(cpu), part.unwrap_or_default()));
    }
    if let Some(peak) = usage.last.peak_memory_bytes {
        let part = usage
            .memory_efficiency
            .map(|part| format!(", {} of {}", percent(Some(part)), memory(requested.memory_mb)));
        lines.push(format!("{} of memory at the most{}", bytes(peak), part.unwrap_or_default()));
    }
    let (read, written) = (usage.total.read_bytes.unwrap_or(0), usage.total.written_bytes.unwrap_or(0));
    if read > 0 || written > 0 {
        lines.push(format!("{} read, {} written", bytes(read), bytes(written)));
    }
    if let Some(peak) = usage.last.peak_gpu_memory_bytes {
        lines.push(format!("{} of GPU memory at the most", bytes(peak)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::Zone;

    const SCREEN: Screen = Screen { json: false, colour: false, width: None, zone: Zone::UTC };

    #[test]
    fn sums_are_shown_with_all_together_at_the_end() {
        let row = |user: &str, wall: f64| UsageRow {
            user: Some(user.to_owned()),
            jobs: 3,
            attempts: 4,
            wall_seconds: wall,
            cpu_seconds: 1800.0,
            cpu_requested_seconds: 7200.0,
            cpu_efficiency: Some(0.25),
            peak_memory_bytes: 3 << 30,
            ..UsageRow::default()
        };
        let at = |text: &str| text.parse().unwrap();
        let report = UsageReport {
            since: at("2026-05-05T00:00:00Z"),
            until: at("2026-05-06T00:00:00Z"),
            rows: vec![row("ann", 5400.0), row("", 90.0)],
            total: UsageRow { user: None, jobs: 6, ..row("", 5490.0) },
            complete: true,
        };
        let text = usage_table(&report, UsageBy::User, SCREEN);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["ann", "3", "0", "4", "1.5", "0.50", "2.0", "25%", "-", "3.0G", "0.0"]);
        assert_eq!(lines[2][..5], ["-", "3", "0", "4", "0.03"]);
        assert_eq!(lines[3][..4], ["all", "together", "6", "0"]);
    }

    #[test]
    fn an_attempt_shows_how_much_of_its_request_it_used() {
        let attempt: Attempt = serde_json::from_str(
            r#"{"attempt":2,"lease":3,"worker_id":"w","started_at":"2026-05-05T08:33:00Z",
                "ended_at":"2026-05-05T08:33:10Z","outcome":"failed","exit_code":3,"requested":{"cpus":2,"memory_mb":512},
                "usage":{"cpu_user_ms":4000,"cpu_system_ms":1000,"peak_memory_bytes":1048576}}"#,
        )
        .unwrap();
        let text = attempt_usage(&[attempt], SCREEN);
        let cells: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(
            cells[cells.len() - 8..],
            ["10.0s", "failed,", "exit", "3", "5.0s", "25%", "1.0M", "512M"]
        );
    }
}
