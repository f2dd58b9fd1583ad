//! Tables: one job a line, and a first line that says what the columns are.
//!
//! Columns may stand in any order; those that are not known are passed over.

use muster_domain::{Resources, Span};

use super::amounts::Value;
use super::error::{MOST_JOBS, TraceError};
use super::fields::cut;
use super::names::Names;
use super::{Trace, Workload};
use crate::workload::TraceJob;

/// What a column is, and the titles under which it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Submit,
    Run,
    Limit,
    Tasks,
    Cpus,
    MemoryMb,
    Gpus,
    Queue,
    User,
    Priority,
    Preemptible,
    Name,
}

const TITLES: [(&str, Column); 22] = [
    ("submit_s", Column::Submit),
    ("submit", Column::Submit),
    ("duration_s", Column::Run),
    ("run_s", Column::Run),
    ("run", Column::Run),
    ("req_time_s", Column::Limit),
    ("limit_s", Column::Limit),
    ("limit", Column::Limit),
    ("tasks", Column::Tasks),
    ("cpus", Column::Cpus),
    ("cpus_per_task", Column::Cpus),
    ("memory_mb", Column::MemoryMb),
    ("memory_mb_per_task", Column::MemoryMb),
    ("gpus_per_task", Column::Gpus),
    ("gpus", Column::Gpus),
    ("queue", Column::Queue),
    ("vc", Column::Queue),
    ("user", Column::User),
    ("priority", Column::Priority),
    ("preemptible", Column::Preemptible),
    ("name", Column::Name),
    ("job", Column::Name),
];

/// The name of what belongs to nobody in particular.
pub(super) const NOBODY: &str = "-";

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim_start_matches('\u{feff}')))
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (number, titles) = lines.next().ok_or(TraceError::Empty)?;
    let columns = columns(number, titles)?;
    let sized = columns.iter().flatten().any(|column| matches!(column, Column::Cpus | Column::Gpus));
    let mut reading = Reading { columns, sized, ..Reading::default() };
    for (number, line) in lines {
        reading.add(number, line)?;
    }
    Ok(reading.trace())
}

/// What each position of a line means; `None` for what is passed over.
fn columns(line: usize, titles: &str) -> Result<Vec<Option<Column>>, TraceError> {
    let titles = cut(titles).ok_or(TraceError::OpenQuote { line })?;
    let mut columns: Vec<Option<Column>> = Vec::new();
    for title in &titles {
        let lower = title.to_ascii_lowercase();
        let column = TITLES.iter().find(|(name, _)| *name == lower).map(|(_, column)| *column);
        if column.is_some() && columns.contains(&column) {
            return Err(TraceError::RepeatedColumn { line, name: title.to_string() });
        }
        columns.push(column);
    }
    for (name, column) in [TITLES[0], TITLES[2], TITLES[8]] {
        if !columns.contains(&Some(column)) {
            return Err(TraceError::MissingColumn { line, name });
        }
    }
    Ok(columns)
}

#[derive(Debug, Default)]
struct Reading {
    columns: Vec<Option<Column>>,
    /// Whether the table says what a task needs; otherwise it is one processor.
    sized: bool,
    jobs: Vec<(TraceJob, String)>,
    named: bool,
    queues: Names,
    users: Names,
}

impl Reading {
    fn add(&mut self, line: usize, text: &str) -> Result<(), TraceError> {
        let fields = cut(text).ok_or(TraceError::OpenQuote { line })?;
        if fields.len() != self.columns.len() {
            return Err(TraceError::Fields { line, found: fields.len(), expected: self.columns.len() });
        }
        if self.jobs.len() >= MOST_JOBS {
            return Err(TraceError::TooMany { most: MOST_JOBS });
        }
        let mut job = blank();
        let (mut queue, mut user, mut name) = (NOBODY, NOBODY, "");
        for (column, field) in self.columns.iter().zip(&fields) {
            let Some(column) = *column else { continue };
            let title = TITLES.iter().find(|(_, known)| *known == column).map_or("", |(title, _)| title);
            let value = Value { line, column: title, text: field };
            match column {
                Column::Submit => job.submit = value.time()?,
                Column::Run => job.run = value.span()?,
                Column::Limit => job.limit = value.limit()?,
                Column::Tasks => job.tasks = value.tasks()?,
                Column::Cpus => job.need.cpu_millis = value.cpu_millis()?,
                Column::MemoryMb => job.need.memory_mb = value.count()?,
                Column::Gpus => job.need.gpus = value.count()?,
                Column::Queue => queue = known(field),
                Column::User => user = known(field),
                Column::Priority => job.priority = value.priority()?,
                Column::Preemptible => job.preemptible = value.yes()?,
                Column::Name => name = field,
            }
        }
        if !self.sized {
            job.need.cpu_millis = 1000;
        }
        job.queue = self.queues.position(queue);
        job.user = self.users.position(user);
        self.named |= !name.is_empty();
        self.jobs.push((job, name.to_owned()));
        Ok(())
    }

    fn trace(mut self) -> Trace {
        self.jobs.sort_by_key(|(job, _)| job.submit);
        let (jobs, names) = self.jobs.into_iter().unzip();
        let workload = Workload { jobs, queues: self.queues.into_list(), users: self.users.into_list() };
        Trace { workload, names: if self.named { names } else { Vec::new() }, ..Trace::default() }
    }
}

/// Logs write -1 for what they do not know.
pub(super) fn known(field: &str) -> &str {
    if field.is_empty() || field == "-1" { NOBODY } else { field }
}

pub(super) fn blank() -> TraceJob {
    TraceJob {
        submit: muster_domain::Timestamp::default(),
        run: Span::ZERO,
        limit: None,
        tasks: 1,
        need: Resources::default(),
        queue: 0,
        user: 0,
        priority: 0,
        preemptible: true,
    }
}
