//! The Standard Workload Format: eighteen numbers a line, and remarks that begin with a semicolon.
//!
//! A processor is a task. Memory is left out: logs that give it at all mean different things by it. Jobs that
//! never ran, or on no processor, are skipped and counted.

use std::borrow::Cow;

use muster_domain::Resources;

use super::amounts::Value;
use super::csv::{blank, known};
use super::error::{MOST_JOBS, TraceError};
use super::names::Names;
use super::{Trace, Workload};
use crate::settings::{Cluster, NodeGroup};
use crate::workload::TraceJob;

// Positions of the fields that matter, counted from 0.
const SUBMIT: usize = 1;
const RUN: usize = 3;
const PROCESSORS: usize = 4;
const REQUESTED_PROCESSORS: usize = 7;
const REQUESTED_TIME: usize = 8;
const USER: usize = 11;
const QUEUE: usize = 14;
/// The format has eighteen; some logs leave out the last ones.
const FEWEST: usize = 5;
const ALL: usize = 18;

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let (mut queues, mut users) = (Names::default(), Names::default());
    let mut jobs: Vec<TraceJob> = Vec::new();
    let mut trace = Trace::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(remark) = line.strip_prefix(';') {
            trace.cluster = trace.cluster.take().or_else(|| processors(remark));
            continue;
        }
        if line.is_empty() {
            continue;
        }
        if jobs.len() >= MOST_JOBS {
            return Err(TraceError::TooMany { most: MOST_JOBS });
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        match job(index + 1, &fields)? {
            Some(mut job) => {
                job.user = users.position(&owner(&fields, USER));
                job.queue = queues.position(&owner(&fields, QUEUE));
                jobs.push(job);
            }
            None => trace.skipped += 1,
        }
    }
    if jobs.is_empty() && trace.skipped == 0 {
        return Err(TraceError::Empty);
    }
    jobs.sort_by_key(|job| job.submit);
    trace.workload = Workload { jobs, queues: queues.into_list(), users: users.into_list() };
    Ok(trace)
}

fn owner<'a>(fields: &[&'a str], position: usize) -> Cow<'a, str> {
    Cow::Borrowed(known(fields.get(position).copied().unwrap_or_default()))
}

fn job(line: usize, fields: &[&str]) -> Result<Option<TraceJob>, TraceError> {
    if fields.len() < FEWEST || fields.len() > ALL {
        return Err(TraceError::Fields { line, found: fields.len(), expected: ALL });
    }
    let value = |position: usize, column| Value {
        line,
        column,
        text: fields.get(position).copied().unwrap_or_default(),
    };
    let used = positive(&value(PROCESSORS, "field 5 (processors)"))?;
    let asked = positive(&value(REQUESTED_PROCESSORS, "field 8 (requested processors)"))?;
    let run = positive(&value(RUN, "field 4 (run time)"))?;
    let (Some(processors), Some(run)) = (used.or(asked), run) else { return Ok(None) };
    let mut job = blank();
    job.submit = value(SUBMIT, "field 2 (submit time)").time()?;
    job.run = Value { text: run, ..value(RUN, "field 4 (run time)") }.span()?;
    job.tasks = Value { text: processors, ..value(PROCESSORS, "field 5 (processors)") }.tasks()?;
    job.limit = value(REQUESTED_TIME, "field 9 (requested time)").limit()?;
    job.need = Resources { cpu_millis: 1000, ..Resources::default() };
    Ok(Some(job))
}

/// The text of a number that is more than nothing; -1 stands for what is not known.
fn positive<'a>(value: &Value<'a>) -> Result<Option<&'a str>, TraceError> {
    if value.text.is_empty() {
        return Ok(None);
    }
    match value.text.parse::<f64>() {
        Ok(number) if number > 0.0 => Ok(Some(value.text)),
        Ok(_) => Ok(None),
        // Says what is wrong with it.
        Err(_) => value.span().map(|_| None),
    }
}

/// The size of the machine, which a remark may tell.
fn processors(remark: &str) -> Option<Cluster> {
    let (title, value) = remark.split_once(':')?;
    if title.trim() != "MaxProcs" {
        return None;
    }
    let processors: u64 = value.trim().parse().ok().filter(|count| (1..=1_000_000_000).contains(count))?;
    let each = Resources { cpu_millis: processors * 1000, ..Resources::default() };
    let nodes = vec![NodeGroup { count: 1, each, ..NodeGroup::default() }];
    Some(Cluster { nodes, ..Cluster::default() })
}
