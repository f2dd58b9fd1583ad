//! What can be wrong with a trace.

use thiserror::Error;

/// A trace that cannot be read. Lines are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceError {
    #[error("there is nothing in it; a trace begins with a line of titles such as submit_s,duration_s,tasks")]
    Empty,
    #[error(
        "line {line}: the column {name} is missing; at least submit_s, duration_s and tasks are needed, the others are \
         gpus_per_task, cpus, memory_mb, req_time_s, queue (or vc), user, priority, preemptible and name"
    )]
    MissingColumn { line: usize, name: &'static str },
    #[error("line {line}: the column {name} is there twice; remove one")]
    RepeatedColumn { line: usize, name: String },
    #[error("line {line} has {found} fields and not {expected} as its titles say")]
    Fields { line: usize, found: usize, expected: usize },
    #[error("line {line}: a quotation mark is not closed; write one more at its end")]
    OpenQuote { line: usize },
    #[error("line {line}: {column} is {value:?}; write {wanted}")]
    Value { line: usize, column: String, value: String, wanted: &'static str },
    #[error("the description of the workload is wrong: {0}")]
    Plan(String),
    #[error("it has more than {most} jobs, which is more than can be played")]
    TooMany { most: usize },
}

/// More than the memory of a machine should be filled with.
pub(crate) const MOST_JOBS: usize = 50_000_000;
