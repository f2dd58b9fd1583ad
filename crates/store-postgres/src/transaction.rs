//! One transaction on one connection: how statements are sent, and how it ends.
//!
//! Guarantees: a connection never goes back to the pool inside a transaction; a transaction in which a
//! statement failed is never committed.

use std::collections::HashMap;
use std::pin::pin;

use deadpool_postgres::{Client, Object};
use futures::future::try_join;
use muster_domain::JobId;
use muster_store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::error::{during, failed};
use crate::scope::Scope;

pub(crate) type Done<T> = Result<T, StoreError>;
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Where [`PostgresTx::copy`] puts rows.
#[derive(Debug)]
pub(crate) struct Target<const N: usize> {
    pub(crate) operation: &'static str,
    pub(crate) sql: &'static str,
    pub(crate) types: [Type; N],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was sent yet; the first statement takes `BEGIN` along, which saves a round trip.
    Fresh,
    Open,
    /// A statement failed or was abandoned; the transaction can only be rolled back.
    Failed,
    Ended,
}

/// A connection and the transaction on it.
#[derive(Debug)]
pub(crate) struct PostgresTx {
    client: Option<Client>,
    scope: Scope,
    state: State,
    /// Numbers of the jobs that this transaction has seen; other tables refer to jobs by number.
    seqs: HashMap<JobId, i64>,
}

impl PostgresTx {
    pub(crate) fn new(client: Client, scope: Scope) -> Self {
        Self { client: Some(client), scope, state: State::Fresh, seqs: HashMap::new() }
    }

    fn connection(&self, operation: &'static str) -> Done<&Client> {
        self.client.as_ref().ok_or_else(|| failed(operation, "the transaction has ended"))
    }

    /// Runs a statement and returns its rows.
    pub(crate) async fn query(
        &mut self,
        operation: &'static str,
        sql: &str,
        params: Params<'_>,
    ) -> Done<Vec<Row>> {
        let begin = self.first_words(operation)?;
        let client = self.connection(operation)?;
        let work = async {
            let statement = client.prepare_cached(sql).await?;
            // Sent together: the server takes them one after the other.
            let query = client.query(&statement, params);
            match begin {
                Some(begin) => Ok(try_join(client.batch_execute(begin), query).await?.1),
                None => query.await,
            }
        };
        let rows = work.await.map_err(during(operation))?;
        self.state = State::Open;
        Ok(rows)
    }

    /// Runs a statement and returns how many rows it touched.
    pub(crate) async fn execute(
        &mut self,
        operation: &'static str,
        sql: &str,
        params: Params<'_>,
    ) -> Done<u64> {
        let begin = self.first_words(operation)?;
        let client = self.connection(operation)?;
        let work = async {
            let statement = client.prepare_cached(sql).await?;
            let query = client.execute(&statement, params);
            match begin {
                Some(begin) => Ok(try_join(client.batch_execute(begin), query).await?.1),
                None => query.await,
            }
        };
        let touched = work.await.map_err(during(operation))?;
        self.state = State::Open;
        Ok(touched)
    }

    /// Sends rows by `COPY`, the cheapest way in for many: no array is taken apart on the other side.
    pub(crate) async fn copy<R, const N: usize>(
        &mut self,
        target: &Target<N>,
        rows: &[R],
        fields: impl for<'r> Fn(&'r R) -> [&'r (dyn ToSql + Sync); N],
    ) -> Done<()> {
        let begin = self.first_words(target.operation)?;
        let client = self.connection(target.operation)?;
        let work = async {
            if let Some(begin) = begin {
                client.batch_execute(begin).await?;
            }
            let statement = client.prepare_cached(target.sql).await?;
            let sink = client.copy_in(&statement).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &target.types));
            for row in rows {
                writer.as_mut().write(&fields(row)).await?;
            }
            writer.finish().await
        };
        let copied = work.await.map_err(during(target.operation))?;
        self.state = State::Open;
        if copied != rows.len() as u64 {
            return Err(failed(target.operation, "not every row was taken"));
        }
        Ok(())
    }

    /// Draws `count` numbers from a sequence, ascending.
    pub(crate) async fn draw(&mut self, operation: &'static str, sql: &str, count: usize) -> Done<Vec<i64>> {
        let rows = self.query(operation, sql, &[&(count as i64)]).await?;
        let numbers = rows.first().map(|row| row.try_get::<_, Option<Vec<i64>>>(0)).transpose();
        let mut numbers = numbers.map_err(during(operation))?.flatten().unwrap_or_default();
        if numbers.len() != count {
            return Err(failed(operation, "the sequence gave too few numbers"));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// What has to be said before the next statement. Until that statement has come back the transaction
    /// counts as failed, which is also what it is when its caller stops waiting.
    fn first_words(&mut self, operation: &'static str) -> Done<Option<&'static str>> {
        let begin = match self.state {
            State::Fresh => self.scope.begin(),
            State::Open => None,
            State::Failed | State::Ended => {
                return Err(failed(operation, "the transaction has failed before"));
            }
        };
        self.state = State::Failed;
        Ok(begin)
    }

    /// Commits, telling other instances `notification` when there is one.
    pub(crate) async fn commit(mut self, notification: Option<(&str, String)>) -> Done<()> {
        if self.state == State::Failed {
            self.roll_back().await;
            return Err(failed("commit", "a statement of the transaction had failed"));
        }
        if self.state == State::Fresh || self.scope == Scope::Single {
            self.state = State::Ended;
            return Ok(());
        }
        self.state = State::Failed;
        let client = self.connection("commit")?;
        let work = async {
            let commit = client.batch_execute("COMMIT");
            let Some((channel, payload)) = &notification else { return commit.await };
            let statement = client.prepare_cached("SELECT pg_notify($1, $2)").await?;
            // After a failed notification `COMMIT` rolls back, and this is the error that is seen.
            try_join(client.execute(&statement, &[channel, payload]), commit).await.map(|_| ())
        };
        work.await.map_err(during("commit"))?;
        self.state = State::Ended;
        Ok(())
    }

    /// Gives the transaction up; a connection on which even that fails is thrown away.
    pub(crate) async fn roll_back(mut self) {
        if self.state == State::Fresh || self.scope == Scope::Single {
            self.state = State::Ended;
        } else if let Some(client) = &self.client
            && client.batch_execute("ROLLBACK").await.is_ok()
        {
            self.state = State::Ended;
        }
    }

    pub(crate) fn remember(&mut self, id: JobId, seq: i64) {
        self.seqs.insert(id, seq);
    }

    pub(crate) fn forget(&mut self, id: JobId) {
        self.seqs.remove(&id);
    }

    /// Learns the numbers of these jobs, as far as they are stored, in at most one statement.
    pub(crate) async fn learn(&mut self, ids: impl IntoIterator<Item = JobId>) -> Done<()> {
        let unknown: Vec<Uuid> =
            ids.into_iter().filter(|id| !self.seqs.contains_key(id)).map(|id| id.as_uuid()).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let sql = "SELECT id, seq FROM ids WHERE id = ANY($1)";
        for row in self.query("find jobs", sql, &[&unknown]).await? {
            let id: Uuid = row.try_get(0).map_err(during("find jobs"))?;
            self.remember(JobId::from_uuid(id), row.try_get(1).map_err(during("find jobs"))?);
        }
        Ok(())
    }

    /// The number of a job, if it was learnt.
    pub(crate) fn known_seq(&self, id: JobId) -> Option<i64> {
        self.seqs.get(&id).copied()
    }

    /// The numbers of those of these jobs that were learnt.
    pub(crate) fn known_seqs(&self, ids: &[JobId]) -> Vec<i64> {
        ids.iter().filter_map(|id| self.known_seq(*id)).collect()
    }

    /// The number of a job that must be stored.
    pub(crate) fn seq(&self, id: JobId) -> Done<i64> {
        self.known_seq(id).ok_or_else(|| failed("find jobs", format!("{id} is not stored")))
    }
}

impl Drop for PostgresTx {
    /// A connection in an unknown state is closed, which rolls its transaction back.
    fn drop(&mut self) {
        let clean = matches!(self.state, State::Ended | State::Fresh) || self.scope == Scope::Single;
        if let Some(client) = self.client.take()
            && !clean
        {
            drop(Object::take(client));
        }
    }
}
