//! The log of events. One writer numbers them, so that their order is the order of their commits.

use muster_domain::{Event, WorkerId};
use muster_store::{EventFilter, event_text};
use rusqlite::params;

use crate::error::{during, failed};
use crate::row;
use crate::tx::{Done, SqliteTx};

impl SqliteTx<'_> {
    pub(crate) fn insert_events(&mut self, events: &mut [Event]) -> Done<()> {
        let first = self.number_events(events.len())?;
        let sql =
            "INSERT INTO events (seq, at, job, worker_id, kind, caused_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let mut statement = self.statement("append events", sql)?;
        for (seq, event) in (first..).zip(events) {
            let job = event.job.map(|id| self.seq(id)).transpose()?;
            let worker = event.worker.as_ref().map(WorkerId::as_str);
            let kind = event_text::write(&event.kind, event.measured.as_deref())
                .map_err(|error| failed("write an event", error.to_string()))?;
            let by = event.noted_by.as_ref().map(ToString::to_string);
            let inserted = statement.execute(params![seq, event.at.as_micros(), job, worker, kind, by]);
            inserted.map_err(during("append events"))?;
            event.seq = seq as u64;
        }
        Ok(())
    }

    pub(crate) fn select_events(&mut self, filter: &EventFilter) -> Done<Vec<Event>> {
        let after = i64::try_from(filter.after).unwrap_or(i64::MAX);
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let columns = "SELECT events.seq, events.at, jobs.id, events.worker_id, events.kind, events.caused_by FROM events";
        let Some(job) = filter.job else {
            let sql = format!(
                "{columns} LEFT JOIN jobs ON jobs.seq = events.job WHERE events.seq > ?1 \
                 ORDER BY events.seq LIMIT ?2"
            );
            return self.rows("read events", &sql, [after, limit], row::read_event);
        };
        let Some(job) = self.find_seq(job)? else { return Ok(Vec::new()) };
        let sql = format!(
            "{columns} JOIN jobs ON jobs.seq = events.job WHERE events.job = ?3 AND events.seq > ?1 \
             ORDER BY events.seq LIMIT ?2"
        );
        self.rows("read events", &sql, [after, limit, job], row::read_event)
    }

    pub(crate) fn select_last_event(&self) -> Done<u64> {
        // Not the newest row: that one may have been removed with its job.
        let sql = "SELECT last FROM numbers WHERE kind = 'event'";
        let mut statement = self.statement("read the last event", sql)?;
        let last: i64 = statement.query_row([], |row| row.get(0)).map_err(during("read the last event"))?;
        Ok(last as u64)
    }
}
