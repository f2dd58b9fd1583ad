//! Lists of jobs for people, and numbers for gauges.

use muster_domain::{Job, Status};
use muster_store::{Counts, JobFilter};
use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};

use crate::error::{corrupt, during};
use crate::row::{self, JOB_COLUMNS};
use crate::states::{HELD, WAITING};
use crate::tx::{Done, SqliteTx};

/// A list query under construction.
struct Listing {
    conditions: Vec<String>,
    values: Vec<Value>,
}

impl Listing {
    /// Adds a condition in which `?` stands for the value.
    fn add(&mut self, condition: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.conditions.push(condition.replace('?', &format!("?{}", self.values.len())));
    }

    fn of(filter: &JobFilter) -> Self {
        let mut listing = Self { conditions: vec!["true".to_owned()], values: Vec::new() };
        if !filter.statuses.is_empty() {
            let names: Vec<String> = filter.statuses.iter().map(|status| format!("'{status}'")).collect();
            // The sign keeps the planner from sorting all jobs of a state when it can walk back by number.
            listing.conditions.push(format!("+jobs.status IN ({})", names.join(", ")));
        }
        if let Some(queue) = &filter.queue {
            listing.add("jobs.queue = ?", queue.as_str().to_owned());
        }
        if let Some(name) = &filter.name {
            listing.add("jobs.name = ?", name.clone());
        }
        if let Some(set) = filter.set {
            listing.add("jobs.set_id = ?", set.as_uuid().into_bytes().to_vec());
        }
        if let Some(step) = &filter.step {
            listing.add("jobs.step = ?", step.clone());
        }
        if let Some(tag) = &filter.tag {
            listing.add(
                "EXISTS (SELECT 1 FROM json_each(jobs.spec, '$.tags') AS tag WHERE tag.value = ?)",
                tag.clone(),
            );
        }
        if let Some(worker) = &filter.worker {
            listing.add("jobs.worker_id = ?", worker.as_str().to_owned());
        }
        if let Some(since) = filter.since {
            listing.add("jobs.created_at >= ?", since.as_micros());
        }
        if let Some(before) = filter.before_seq {
            listing.add("jobs.seq < ?", i64::try_from(before).unwrap_or(i64::MAX));
        }
        listing
    }

    fn sql(&self, filter: &JobFilter) -> String {
        // The jobs of a set are found by it.
        let statuses = if filter.set.is_some() { &[] } else { filter.statuses.as_slice() };
        let (source, implied) = source(statuses);
        let conditions = self.conditions.join(" AND ");
        let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        format!(
            "SELECT {JOB_COLUMNS} FROM {source} WHERE {implied} AND {conditions} ORDER BY jobs.seq DESC LIMIT {limit}"
        )
    }
}

/// Where to look for jobs in these states, and the condition that goes with it. Jobs that are done are most of
/// all that there are: whoever asks for others must not walk past them.
fn source(statuses: &[Status]) -> (&'static str, &'static str) {
    let all = |rule: fn(Status) -> bool| !statuses.is_empty() && statuses.iter().all(|status| rule(*status));
    if all(Status::holds_capacity) {
        ("jobs INDEXED BY jobs_held", HELD)
    } else if all(|status| !status.is_terminal()) {
        ("jobs INDEXED BY jobs_unfinished", "jobs.done_at IS NULL")
    } else if all(|status| matches!(status, Status::Failed | Status::Cancelled)) {
        ("jobs INDEXED BY jobs_unsuccessful", "jobs.done_at IS NOT NULL AND jobs.reason IS NOT NULL")
    } else {
        ("jobs", "true")
    }
}

impl SqliteTx<'_> {
    pub(crate) fn select_list(&self, filter: &JobFilter) -> Done<Vec<Job>> {
        let listing = Listing::of(filter);
        let values = params_from_iter(listing.values.iter());
        self.rows("list jobs", &listing.sql(filter), values, row::read_job)
    }

    pub(crate) fn count_unfinished(&self) -> Done<Counts> {
        let mut counts = Counts::default();
        for sql in [
            "SELECT 'pending', count(*) FROM jobs WHERE status = 'pending'",
            &format!("SELECT status, count(*) FROM jobs WHERE {WAITING} GROUP BY status"),
            &format!("SELECT status, count(*) FROM jobs INDEXED BY jobs_held WHERE {HELD} GROUP BY status"),
        ] {
            for (name, count) in self.rows("count jobs", sql, [], name_and_count)? {
                let status =
                    Status::parse(&name).ok_or_else(|| corrupt("jobs", format!("status {name:?}")))?;
                if count > 0 {
                    counts.jobs.insert(status, count);
                }
            }
        }
        let sql = "SELECT coalesce(queue, ''), count(*) FROM jobs WHERE status = 'pending' GROUP BY 1";
        counts.pending_by_queue = self.rows("count jobs", sql, [], name_and_count)?.into_iter().collect();
        counts.waiting_by_queue = counts.pending_by_queue.clone();
        let sql = format!(
            "SELECT coalesce(queue, ''), count(*) FROM jobs \
             WHERE {WAITING} AND status <> 'preempted' AND status <> 'finished' GROUP BY 1"
        );
        for (queue, count) in self.rows("count jobs", &sql, [], name_and_count)? {
            *counts.waiting_by_queue.entry(queue).or_default() += count;
        }
        let sql = format!(
            "SELECT coalesce(queue, ''), count(*) FROM jobs INDEXED BY jobs_held WHERE {HELD} GROUP BY 1"
        );
        counts.held_by_queue = self.rows("count jobs", &sql, [], name_and_count)?.into_iter().collect();
        Ok(counts)
    }
}

fn name_and_count(row: &Row<'_>) -> Done<(String, u64)> {
    let fail = during("count jobs");
    let count: i64 = row.get(1).map_err(&fail)?;
    Ok((row.get(0).map_err(&fail)?, count as u64))
}
