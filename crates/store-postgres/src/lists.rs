//! Lists of jobs for people, and numbers for gauges.

use std::collections::BTreeSet;

use muster_domain::{Job, Status};
use muster_store::{Counts, JobFilter};
use tokio_postgres::types::ToSql;

use crate::error::{corrupt, during};
use crate::row::{self, JOB_COLUMNS, sql_limit, storable};
use crate::tx::{Done, PostgresTx};

/// A list query under construction.
struct Listing {
    conditions: Vec<String>,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Listing {
    /// Adds a condition in which `?` stands for the value.
    fn add(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        self.conditions.push(condition.replace('?', &format!("${}", self.values.len())));
    }

    fn of(filter: &JobFilter) -> Self {
        let mut listing = Self { conditions: vec!["true".to_owned()], values: Vec::new() };
        if !filter.statuses.is_empty() {
            let names: Vec<&'static str> = filter.statuses.iter().map(|status| status.as_str()).collect();
            listing.add("jobs.status = ANY(?)", names);
            listing.conditions.extend(indexed(&filter.statuses));
        }
        if let Some(queue) = &filter.queue {
            listing.add("jobs.queue = ?", storable(queue.as_str()).into_owned());
        }
        if let Some(name) = &filter.name {
            listing.add("jobs.name = ?", storable(name).into_owned());
        }
        if let Some(set) = filter.set {
            listing.add("jobs.set_id = ?", set.as_uuid());
        }
        if let Some(step) = &filter.step {
            listing.add("jobs.step = ?", storable(step).into_owned());
        }
        if let Some(tag) = &filter.tag {
            listing.add("? = ANY(jobs.tags)", storable(tag).into_owned());
        }
        if let Some(worker) = &filter.worker {
            listing.add("jobs.worker_id = ?", storable(worker.as_str()).into_owned());
        }
        if let Some(since) = filter.since {
            listing.add("jobs.created_at >= ?", since.as_micros());
        }
        if let Some(before) = filter.before_seq {
            listing.add("jobs.seq < ?", i64::try_from(before).unwrap_or(i64::MAX));
        }
        listing
    }

    fn sql(&self) -> String {
        let conditions = self.conditions.join(" AND ");
        let limit = self.values.len() + 1;
        format!(
            "SELECT {JOB_COLUMNS} FROM jobs WHERE {conditions} ORDER BY jobs.seq DESC LIMIT ${limit}::bigint"
        )
    }
}

/// The conditions of the indexes in which jobs in these states are, when every one of them is in one. Jobs that
/// are done are most of all that there are: the planner can then look the others up instead of walking past them.
fn indexed(statuses: &[Status]) -> Option<String> {
    let mut conditions = BTreeSet::new();
    for status in statuses {
        conditions.insert(match status {
            Status::Pending => "jobs.status = 'pending'",
            Status::Blocked | Status::Preempted | Status::Delayed | Status::Held | Status::Finished => {
                "jobs.status IN ('blocked', 'preempted', 'delayed', 'held', 'finished')"
            }
            Status::Reserved | Status::Running | Status::Preempting => {
                "jobs.status IN ('reserved', 'running', 'preempting')"
            }
            Status::Failed | Status::Cancelled => "jobs.status IN ('failed', 'cancelled')",
            Status::Done => return None,
        });
    }
    let conditions: Vec<&str> = conditions.into_iter().collect();
    Some(format!("({})", conditions.join(" OR ")))
}

impl PostgresTx {
    pub(crate) async fn select_list(&mut self, filter: &JobFilter) -> Done<Vec<Job>> {
        let listing = Listing::of(filter);
        let sql = listing.sql();
        let limit: Option<i64> = filter.limit.map(sql_limit);
        let mut params: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(listing.values.len() + 1);
        for value in &listing.values {
            params.push(value.as_ref());
        }
        params.push(&limit);
        let rows = self.query("list jobs", &sql, &params).await?;
        row::read_jobs(&rows)
    }

    pub(crate) async fn count_unfinished(&mut self) -> Done<Counts> {
        const OPERATION: &str = "count jobs";
        let sql = "SELECT status, coalesce(queue, ''), count(*) FROM jobs \
                       WHERE status IN ('blocked', 'preempted', 'delayed', 'held', 'finished') GROUP BY status, queue \
                   UNION ALL SELECT status, coalesce(queue, ''), count(*) FROM jobs \
                       WHERE status IN ('reserved', 'running', 'preempting') GROUP BY status, queue \
                   UNION ALL SELECT 'pending', coalesce(queue, ''), count(*) FROM jobs \
                       WHERE status = 'pending' GROUP BY queue";
        let mut counts = Counts::default();
        for row in self.query(OPERATION, sql, &[]).await? {
            let name: String = row.try_get(0).map_err(during(OPERATION))?;
            let queue: String = row.try_get(1).map_err(during(OPERATION))?;
            let count = row.try_get::<_, i64>(2).map_err(during(OPERATION))? as u64;
            let status = Status::parse(&name).ok_or_else(|| corrupt("jobs", format!("status {name:?}")))?;
            *counts.jobs.entry(status).or_default() += count;
            if status == Status::Pending {
                *counts.pending_by_queue.entry(queue.clone()).or_default() += count;
            }
            if status.holds_capacity() {
                *counts.held_by_queue.entry(queue).or_default() += count;
            } else if !matches!(status, Status::Preempted | Status::Finished) {
                *counts.waiting_by_queue.entry(queue).or_default() += count;
            }
        }
        Ok(counts)
    }
}
