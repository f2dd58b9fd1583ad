//! The log of events, numbered by a sequence and read without gaps.
//!
//! Numbers are drawn before their transaction commits, so that a lower number can become visible after a
//! higher one. A reader that goes by the highest number it has seen would miss it. Therefore every writer,
//! before it draws its first number, takes a *shared* advisory lock whose key is the last number drawn by
//! anyone; the lock ends with the transaction, after its rows became visible, and never keeps another
//! writer waiting. A reader looks at the sequence, then at the locks, then at the rows: below the lowest key
//! held, and up to the number the sequence had, everything is decided. Nothing else that goes on in the
//! database, such as a backup, holds the readers up.

use std::borrow::Cow;

use muster_domain::Event;
use muster_store::{EventFilter, event_text};
use tokio_postgres::types::{ToSql, Type};

use crate::error::{during, failed};
use crate::row::{self, sql_limit, storable};
use crate::tx::{Done, PostgresTx, Target};

/// The last number drawn, also when none was.
const LAST_DRAWN: &str = "CASE WHEN is_called THEN last_value ELSE last_value - 1 END";

const COLUMNS: &str =
    "SELECT events.seq, events.at, jobs.id, events.worker_id, events.kind, events.caused_by FROM events";

const DRAW: &str = "SELECT array_agg(nextval('events_seq_seq')) FROM generate_series(1, $1::bigint)";

const INSERT: Target<6> = Target {
    operation: "append events",
    sql: "COPY events (seq, at, job, worker_id, kind, caused_by) FROM STDIN BINARY",
    types: [Type::INT8, Type::INT8, Type::INT8, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// An event in the forms that columns take.
struct NewRow<'e> {
    seq: i64,
    at: i64,
    job: Option<i64>,
    worker: Option<Cow<'e, str>>,
    kind: String,
    by: Option<String>,
}

impl NewRow<'_> {
    fn fields(&self) -> [&(dyn ToSql + Sync); 6] {
        [&self.seq, &self.at, &self.job, &self.worker, &self.kind, &self.by]
    }
}

/// The keys are negative, which keeps them apart from those of the roles.
const HELD: &str = "SELECT max((classid::bigint << 32) | objid::bigint) FROM pg_locks \
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >= 2147483648 \
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

impl PostgresTx {
    pub(crate) async fn insert_events(&mut self, events: &mut [Event]) -> Done<()> {
        self.learn(events.iter().filter_map(|event| event.job)).await?;
        let lock = format!("SELECT pg_advisory_xact_lock_shared(-1 - ({LAST_DRAWN})) FROM events_seq_seq");
        self.query(INSERT.operation, &lock, &[]).await?;
        let seqs = self.draw(INSERT.operation, DRAW, events.len()).await?;
        let mut rows = Vec::with_capacity(events.len());
        for (event, seq) in events.iter_mut().zip(seqs) {
            event.seq = seq as u64;
            rows.push(NewRow {
                seq,
                at: event.at.as_micros(),
                job: event.job.map(|id| self.seq(id)).transpose()?,
                worker: event.worker.as_ref().map(|worker| storable(worker.as_str())),
                kind: event_text::write(&event.kind, event.measured.as_deref())
                    .map_err(|error| failed("write an event", error.to_string()))?,
                by: event.noted_by.as_ref().map(|by| storable(&by.to_string()).into_owned()),
            });
        }
        self.copy(&INSERT, &rows, NewRow::fields).await
    }

    pub(crate) async fn select_events(&mut self, filter: &EventFilter) -> Done<Vec<Event>> {
        let after = i64::try_from(filter.after).unwrap_or(i64::MAX);
        let limit = sql_limit(filter.limit);
        let rows = if let Some(job) = filter.job {
            // The writers of one job's events wait for each other at its row: no gap to mind.
            let sql = format!(
                "{COLUMNS} JOIN jobs ON jobs.seq = events.job \
                 WHERE events.job = (SELECT seq FROM ids WHERE id = $1) AND events.seq > $2 \
                 ORDER BY events.seq LIMIT $3"
            );
            self.query("read events", &sql, &[&job.as_uuid(), &after, &limit]).await?
        } else {
            let decided = self.decided().await?;
            let sql = format!(
                "{COLUMNS} LEFT JOIN jobs ON jobs.seq = events.job \
                 WHERE events.seq > $1 AND events.seq <= $2 ORDER BY events.seq LIMIT $3"
            );
            self.query("read events", &sql, &[&after, &decided, &limit]).await?
        };
        rows.iter().map(row::read_event).collect()
    }

    pub(crate) async fn select_last_event(&mut self) -> Done<u64> {
        Ok(self.decided().await? as u64)
    }

    /// The number up to which no event can appear any more. The order of the two looks matters, and the
    /// rows have to be read after both.
    pub(crate) async fn decided(&mut self) -> Done<i64> {
        const OPERATION: &str = "look for open events";
        let sql = format!("SELECT {LAST_DRAWN} FROM events_seq_seq");
        let drawn = self.query(OPERATION, &sql, &[]).await?;
        let held = self.query(OPERATION, HELD, &[]).await?;
        let drawn: i64 = match drawn.first() {
            Some(row) => row.try_get(0).map_err(during(OPERATION))?,
            None => return Err(failed(OPERATION, "the sequence of the events is missing")),
        };
        let held = held.first().map(|row| row.try_get::<_, Option<i64>>(0)).transpose();
        let held = held.map_err(during(OPERATION))?.flatten();
        Ok(held.map_or(drawn, |key| drawn.min(-1 - key)))
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{EventKind, Timestamp, WorkerId};
    use muster_pg_testkit::Postgres;

    use super::*;
    use crate::migrations;
    use crate::pool::{self, PostgresOptions};
    use crate::tx::Scope;

    const ALL: EventFilter = EventFilter { job: None, after: 0, limit: 100 };

    fn event() -> Event {
        Event::of_worker(WorkerId::new("w"), Timestamp::default(), EventKind::WorkerRegistered)
    }

    #[tokio::test]
    async fn what_commits_late_is_not_overtaken() {
        let (url, options) = (Postgres::shared().database().url(), PostgresOptions::default());
        let pool = pool::build(pool::configure(&url, &options).unwrap(), &options).unwrap();
        migrations::migrate(pool.get().await.unwrap()).await.unwrap();
        let open = async |scope| PostgresTx::new(pool.get().await.unwrap(), scope);
        let seen = async || {
            let mut reader = open(Scope::Single).await;
            let events = reader.select_events(&ALL).await.unwrap();
            let last = reader.select_last_event().await.unwrap();
            assert_eq!(last, events.last().map_or(0, |event| event.seq));
            events.iter().map(|event| event.seq).collect::<Vec<_>>()
        };
        let (mut early, mut slow, mut quick) =
            (open(Scope::Write).await, open(Scope::Write).await, open(Scope::Write).await);
        early.insert_events(&mut [event()]).await.unwrap();
        early.commit(None).await.unwrap();
        slow.insert_events(&mut [event(), event()]).await.unwrap();
        quick.insert_events(&mut [event()]).await.unwrap();
        quick.commit(None).await.unwrap();
        assert_eq!(seen().await, [1], "2 and 3 are still open, so 4 has to wait");
        slow.commit(None).await.unwrap();
        assert_eq!(seen().await, [1, 2, 3, 4]);

        let mut abandoned = open(Scope::Write).await;
        abandoned.insert_events(&mut [event()]).await.unwrap();
        let mut last = open(Scope::Write).await;
        last.insert_events(&mut [event()]).await.unwrap();
        last.commit(None).await.unwrap();
        assert_eq!(seen().await, [1, 2, 3, 4]);
        abandoned.roll_back().await;
        assert_eq!(seen().await, [1, 2, 3, 4, 6]);
    }
}
