//! The lists of workers, queues, pipelines and arrays: what there is, and how much of it is used or done.

use jiff::Timestamp;
use muster_client::status_name;
use muster_protocol::{JobSet, JobStatus, Queue, SetKind, Worker, WorkerStatus};

use super::grid::{Cell, Column, Width, cell, left, right};
use super::text::bar;
use super::{Theme, short};
use crate::output::quantities::{age, cores, memory, printable};

const BAR: usize = 6;
const LONG_BAR: usize = 12;
/// From this width of the list on, bars are long.
const WIDE: usize = 110;

fn bar_columns(room: usize) -> usize {
    if room >= WIDE { LONG_BAR } else { BAR }
}

pub(super) fn worker_columns(room: usize) -> Vec<Column> {
    let bar = bar_columns(room) + 1;
    vec![
        left("WORKER", Width::UpTo(20)),
        left("STATUS", Width::UpTo(10)),
        left("JOBS", Width::Fixed(bar + 5)),
        left("CPUS", Width::Fixed(bar + 6)),
        left("MEMORY", Width::Fixed(bar + 9)),
        left("GPUS", Width::Fixed(bar + 5)).from(100),
        right("SEEN", 4).from(76),
        left("TAGS", Width::Rest).from(100),
    ]
}

pub(super) fn worker_row(worker: &Worker, now: Timestamp, room: usize, theme: Theme) -> Vec<Cell> {
    let (have, used) = (&worker.resources, &worker.used);
    let columns = bar_columns(room);
    let of = |part: f64, whole: f64, text: String| {
        if whole > 0.0 {
            vec![
                (bar(part, whole, columns, theme), theme.load(part, whole)),
                (format!(" {text}"), theme.plain()),
            ]
        } else {
            cell(text, theme.quiet())
        }
    };
    let jobs = match worker.slots {
        Some(slots) => of(f64::from(worker.running), f64::from(slots), format!("{}/{slots}", worker.running)),
        None => cell(worker.running.to_string(), theme.plain()),
    };
    vec![
        cell(printable(&worker.id), theme.plain()),
        status_of_worker(worker, theme),
        jobs,
        of(used.cpus, have.cpus, amount(&cores(used.cpus), &cores(have.cpus), have.cpus > 0.0)),
        of(
            used.memory_mb as f64,
            have.memory_mb as f64,
            amount(&memory(used.memory_mb), &memory(have.memory_mb), have.memory_mb > 0),
        ),
        of(
            used.gpus as f64,
            have.gpus as f64,
            amount(&used.gpus.to_string(), &have.gpus.to_string(), have.gpus > 0),
        ),
        cell(age(worker.last_heartbeat, now), theme.quiet()),
        cell(printable(&worker.tags.join(",")), theme.quiet()),
    ]
}

fn amount(used: &str, have: &str, there: bool) -> String {
    if there { format!("{used}/{have}") } else { "-".to_owned() }
}

fn status_of_worker(worker: &Worker, theme: Theme) -> Cell {
    let style = theme.of_worker(worker.status, worker.quarantine.is_some());
    let text = match (worker.status, &worker.quarantine) {
        (WorkerStatus::Offline, _) => "offline",
        (WorkerStatus::Active, Some(_)) => "quarantine",
        (WorkerStatus::Active, None) => "active",
    };
    cell(text, style)
}

pub(super) fn queue_columns() -> Vec<Column> {
    vec![
        left("QUEUE", Width::UpTo(24)),
        left("STATE", Width::Fixed(6)),
        right("RUNNING", 7),
        left("WAITING", Width::Fixed(BAR + 14)),
        left("LIMITS", Width::Rest),
    ]
}

/// A queue with a bound shows how much of it is taken.
pub(super) fn queue_row(queue: &Queue, theme: Theme) -> Vec<Cell> {
    let name = if queue.name.is_empty() { "(default)".to_owned() } else { printable(&queue.name) };
    let state = if queue.paused { cell("paused", theme.warning()) } else { cell("open", theme.good()) };
    let waiting = match queue.max_queued {
        Some(bound) => {
            let (part, whole) = (queue.queued as f64, bound as f64);
            vec![
                (bar(part, whole, BAR, theme), theme.load(part, whole)),
                (format!(" {}/{bound}", queue.queued), theme.plain()),
            ]
        }
        None => cell(queue.queued.to_string(), theme.plain()),
    };
    let rate = queue.rate.map(|rate| format!("{} starts in {}s", rate.starts, rate.seconds));
    vec![
        cell(name, theme.plain()),
        state,
        cell(queue.running.to_string(), theme.plain()),
        waiting,
        cell(rate.unwrap_or_default(), theme.quiet()),
    ]
}

pub(super) fn set_columns() -> Vec<Column> {
    vec![
        left("ID", Width::Fixed(12)),
        left("NAME", Width::UpTo(20)),
        left("KIND", Width::Fixed(8)).from(90),
        left("STATUS", Width::Fixed(9)),
        left("DONE", Width::Fixed(LONG_BAR + 14)),
        right("FAILED", 6),
        right("AGE", 4),
        left("", Width::Rest),
    ]
}

pub(super) fn set_row(set: &JobSet, now: Timestamp, theme: Theme) -> Vec<Cell> {
    let of = |status: JobStatus| set.counts.get(&status).copied().unwrap_or(0);
    let (done, failed) = (of(JobStatus::Done), of(JobStatus::Failed));
    let ended = done + failed + of(JobStatus::Cancelled);
    let kind = match set.kind {
        SetKind::Pipeline => "pipeline",
        SetKind::Array => "array",
    };
    vec![
        cell(short(&set.id), theme.plain()),
        cell(set.name.as_deref().map_or_else(|| "-".to_owned(), printable), theme.plain()),
        cell(kind, theme.quiet()),
        cell(status_name(set.status), theme.of_status(set.status)),
        vec![
            (bar(ended as f64, set.size as f64, LONG_BAR, theme), theme.of_status(set.status)),
            (format!(" {ended}/{}", set.size), theme.plain()),
        ],
        cell(failed.to_string(), if failed > 0 { theme.bad() } else { theme.quiet() }),
        cell(age(set.created_at, now), theme.plain()),
        cell("", theme.plain()),
    ]
}
