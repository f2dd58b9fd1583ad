//! The lists of jobs.

use jiff::Timestamp;
use muster_client::status_name;
use muster_protocol::Job;

use super::grid::{Cell, Column, Width, cell, left, right};
use super::{Theme, command, short};
use crate::output::human::state;
use crate::output::quantities::{age, cores, memory, printable, resources, span};

pub(super) fn running_columns() -> Vec<Column> {
    vec![
        left("ID", Width::Fixed(12)),
        left("NAME", Width::UpTo(18)),
        left("QUEUE", Width::UpTo(12)).from(100),
        left("WORKER", Width::UpTo(16)),
        right("TRY", 5).from(90),
        right("RAN", 7),
        left("NEEDS", Width::UpTo(26)).from(110),
        left("COMMAND", Width::Rest),
    ]
}

pub(super) fn running_row(job: &Job, now: Timestamp, theme: Theme) -> Vec<Cell> {
    let ran = job.started_at.map_or_else(|| status_name(job.status).to_owned(), |at| lasting(at, now));
    vec![
        cell(short(&job.id), theme.of_status(job.status)),
        cell(name(job), theme.plain()),
        cell(or_dash(job.queue_name.as_deref()), theme.plain()),
        cell(or_dash(job.worker_id.as_deref()), theme.plain()),
        cell(format!("{}/{}", job.attempts, job.max_retries), theme.plain()),
        cell(ran, theme.plain()),
        cell(or_dash(job.resources.as_ref().map(resources).as_deref()), theme.plain()),
        cell(remark_or_command(job), theme.quiet()),
    ]
}

/// For `top`: what each job holds, in columns that can be compared.
pub(super) fn top_columns() -> Vec<Column> {
    vec![
        left("ID", Width::Fixed(12)),
        left("NAME", Width::UpTo(16)),
        left("QUEUE", Width::UpTo(12)).from(100),
        left("WORKER", Width::UpTo(16)),
        right("RAN", 7),
        right("CPUS", 5),
        right("MEMORY", 6),
        right("GPUS", 4),
        left("COMMAND", Width::Rest),
    ]
}

pub(super) fn top_row(job: &Job, now: Timestamp, theme: Theme) -> Vec<Cell> {
    let needs = job.resources.clone().unwrap_or_default();
    let amount = |there: bool, text: String| if there { text } else { "-".to_owned() };
    let ran = job.started_at.map_or_else(|| status_name(job.status).to_owned(), |at| lasting(at, now));
    vec![
        cell(short(&job.id), theme.of_status(job.status)),
        cell(name(job), theme.plain()),
        cell(or_dash(job.queue_name.as_deref()), theme.plain()),
        cell(or_dash(job.worker_id.as_deref()), theme.plain()),
        cell(ran, theme.plain()),
        cell(amount(needs.cpus > 0.0, cores(needs.cpus)), theme.plain()),
        cell(amount(needs.memory_mb > 0, memory(needs.memory_mb)), theme.plain()),
        cell(amount(needs.gpus > 0, needs.gpus.to_string()), theme.plain()),
        cell(remark_or_command(job), theme.quiet()),
    ]
}

pub(super) fn waiting_columns() -> Vec<Column> {
    vec![
        left("ID", Width::Fixed(12)),
        left("NAME", Width::UpTo(18)),
        left("STATUS", Width::Fixed(9)),
        left("QUEUE", Width::UpTo(12)),
        right("PRIO", 4),
        right("TRY", 5).from(90),
        right("AGE", 4),
        left("NEEDS", Width::UpTo(26)).from(110),
        left("COMMAND", Width::Rest),
    ]
}

pub(super) fn waiting_row(job: &Job, now: Timestamp, theme: Theme) -> Vec<Cell> {
    let (status, style) = waiting_status(job, now, theme);
    vec![
        cell(short(&job.id), theme.plain()),
        cell(name(job), theme.plain()),
        cell(status, style),
        cell(or_dash(job.queue_name.as_deref()), theme.plain()),
        cell(job.priority.to_string(), theme.plain()),
        cell(format!("{}/{}", job.attempts, job.max_retries), theme.plain()),
        cell(age(job.created_at, now), theme.plain()),
        cell(or_dash(job.resources.as_ref().map(resources).as_deref()), theme.plain()),
        cell(remark_or_command(job), theme.quiet()),
    ]
}

fn waiting_status(job: &Job, now: Timestamp, theme: Theme) -> (&'static str, ratatui::style::Style) {
    let style = if job.held.is_some() { theme.warning() } else { theme.of_status(job.status) };
    (state(job, now), style)
}

pub(super) fn ended_columns() -> Vec<Column> {
    vec![
        left("ID", Width::Fixed(12)),
        left("NAME", Width::UpTo(18)),
        left("STATUS", Width::Fixed(9)),
        left("WORKER", Width::UpTo(16)).from(100),
        right("RAN", 7),
        right("AGO", 4),
        left("REASON OR COMMAND", Width::Rest),
    ]
}

pub(super) fn ended_row(job: &Job, now: Timestamp, theme: Theme) -> Vec<Cell> {
    let ran = job.started_at.zip(job.done_at).map(|(started, done)| span(started, done));
    vec![
        cell(short(&job.id), theme.plain()),
        cell(name(job), theme.plain()),
        cell(status_name(job.status), theme.of_status(job.status)),
        cell(or_dash(job.worker_id.as_deref()), theme.plain()),
        cell(or_dash(ran.as_deref()), theme.plain()),
        cell(job.done_at.map(|at| age(at, now)).unwrap_or_default(), theme.plain()),
        cell(remark_or_command(job), theme.quiet()),
    ]
}

/// How long something has gone on; tenths of a second would only flicker.
fn lasting(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second());
    if seconds < 60 { format!("{}s", seconds.max(0)) } else { span(since, now) }
}

/// Elements of an array and tasks of a gang have one name, and steps of a pipeline often none.
fn name(job: &Job) -> String {
    let name = or_dash(job.name.as_deref().or(job.step.as_deref()));
    match (job.array_index, &job.gang_id) {
        (Some(index), _) => format!("{name}[{index}]"),
        (None, Some(_)) => format!("{name}#{}", job.gang_index),
        (None, None) => name,
    }
}

fn or_dash(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).map_or_else(|| "-".to_owned(), printable)
}

/// What is wrong says more than what was to be run.
fn remark_or_command(job: &Job) -> String {
    let remark = job.held.as_deref().or(job.reason.as_deref()).filter(|text| !text.is_empty());
    remark.map_or_else(|| command(job), printable)
}
