//! Queues and concurrency keys. One writer at a time: reading is as good as locking.

use muster_domain::{JobId, Queue, QueueName, ShapeId};
use rusqlite::{Row, params};

use crate::error::during;
use crate::row::{self, from_json, to_json};
use crate::states::{HELD, WAITING};
use crate::tx::{Done, SqliteTx};

impl SqliteTx<'_> {
    pub(crate) fn select_queues(&self, names: &[QueueName]) -> Done<Vec<Queue>> {
        let sql = "SELECT name, settings FROM queues WHERE name = ?1";
        self.rows_of_each("read queues", sql, names.iter().map(|name| [name.as_str()]), read_queue)
    }

    pub(crate) fn select_all_queues(&self) -> Done<Vec<Queue>> {
        self.rows("read queues", "SELECT name, settings FROM queues ORDER BY name", [], read_queue)
    }

    pub(crate) fn remove_queues(&self, names: &[QueueName]) -> Done<()> {
        const OPERATION: &str = "delete queues";
        let mut statement = self.statement(OPERATION, "DELETE FROM queues WHERE name = ?1")?;
        for name in names {
            statement.execute([name.as_str()]).map_err(during(OPERATION))?;
        }
        Ok(())
    }

    pub(crate) fn write_queues(&self, queues: &[Queue]) -> Done<()> {
        let sql = "INSERT OR REPLACE INTO queues (name, settings) VALUES (?1, ?2)";
        let mut statement = self.statement("put queues", sql)?;
        for queue in queues {
            let settings = to_json(queue)?;
            statement.execute(params![queue.name.as_str(), settings]).map_err(during("put queues"))?;
        }
        Ok(())
    }

    pub(crate) fn select_trees(&self, roots: &[QueueName]) -> Done<Vec<Queue>> {
        let mut queues = self.select_all_queues()?;
        queues.retain(|queue| queue.tree.as_ref().is_some_and(|root| roots.contains(root)));
        Ok(queues)
    }

    pub(crate) fn count_held_by_queue(&self, queues: &[QueueName]) -> Done<Vec<(ShapeId, u32)>> {
        const OPERATION: &str = "count jobs of a queue";
        let sql = format!(
            "SELECT shape, count(*) FROM jobs INDEXED BY jobs_held_by_queue \
             WHERE queue = ?1 AND {HELD} GROUP BY shape"
        );
        self.rows_of_each(OPERATION, &sql, queues.iter().map(|queue| [queue.as_str()]), |row| {
            let fail = during(OPERATION);
            Ok((ShapeId(row.get(0).map_err(&fail)?), row.get(1).map_err(&fail)?))
        })
    }

    pub(crate) fn count_waiting(
        &self,
        shapes: &[ShapeId],
        queues: &[QueueName],
    ) -> Done<Vec<(ShapeId, u64)>> {
        const OPERATION: &str = "count waiting jobs";
        let read = |row: &Row<'_>| {
            let fail = during(OPERATION);
            let jobs: i64 = row.get(1).map_err(&fail)?;
            Ok((ShapeId(row.get(0).map_err(&fail)?), jobs as u64))
        };
        let sql = "SELECT shape, count(*) FROM jobs INDEXED BY jobs_pending \
                   WHERE status = 'pending' AND shape = ?1 GROUP BY shape";
        let mut counts = self.rows_of_each(OPERATION, sql, shapes.iter().map(|shape| [shape.0]), read)?;
        let sql = format!(
            "SELECT shape, count(*) FROM jobs INDEXED BY jobs_waiting \
             WHERE {WAITING} AND status <> 'preempted' AND status <> 'finished' AND queue = ?1 GROUP BY shape"
        );
        counts.extend(self.rows_of_each(
            OPERATION,
            &sql,
            queues.iter().map(|queue| [queue.as_str()]),
            read,
        )?);
        Ok(counts)
    }

    pub(crate) fn count_holders(&self, keys: &[String]) -> Done<Vec<(String, u32)>> {
        const OPERATION: &str = "count jobs of a key";
        let sql = format!(
            "SELECT concurrency_key, count(*) FROM jobs INDEXED BY jobs_by_concurrency \
             WHERE concurrency_key = ?1 AND {HELD} GROUP BY concurrency_key"
        );
        self.rows_of_each(OPERATION, &sql, keys.iter().map(|key| [key]), |row| {
            let fail = during(OPERATION);
            Ok((row.get(0).map_err(&fail)?, row.get(1).map_err(&fail)?))
        })
    }

    pub(crate) fn select_holders(&self, key: &str, limit: usize) -> Done<Vec<JobId>> {
        const OPERATION: &str = "read jobs of a key";
        let sql = format!(
            "SELECT id FROM jobs INDEXED BY jobs_by_concurrency \
             WHERE concurrency_key = ?1 AND {HELD} ORDER BY id LIMIT ?2"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.rows(OPERATION, &sql, params![key, limit], |row| row::job_id(row, 0).map_err(during(OPERATION)))
    }
}

fn read_queue(row: &Row<'_>) -> Done<Queue> {
    let fail = during("read a queue");
    let name: String = row.get(0).map_err(&fail)?;
    let settings: String = row.get(1).map_err(&fail)?;
    from_json(&settings, &format!("queue {name}"))
}
