//! Queues and concurrency keys, locked so that no number of schedulers starts more than they allow.

use std::collections::HashMap;

use muster_domain::{JobId, Queue, QueueName, ShapeId};
use tokio_postgres::Row;

use crate::error::during;
use crate::row::{self, from_json, sql_limit, storable, to_json};
use crate::tx::{Done, PostgresTx};

/// A key has no row of its own; whoever starts jobs of it holds this lock until the end of the transaction.
/// Taken in the order of the array, which is sorted, so that two transactions never wait for each other.
const LOCK_KEYS: &str = "SELECT pg_advisory_xact_lock(hashtextextended(key, 1)) \
    FROM unnest($1::text[]) AS wanted (key)";

/// A tree of queues is not a row either: what is used of it is spread over the jobs of all its queues.
const LOCK_TREES: &str = "SELECT pg_advisory_xact_lock(hashtextextended(root, 3)) \
    FROM unnest($1::text[]) AS wanted (root)";

impl PostgresTx {
    pub(crate) async fn select_and_lock_queues(&mut self, names: &[QueueName]) -> Done<Vec<Queue>> {
        let names: Vec<_> = names.iter().map(|name| storable(name.as_str())).collect();
        let sql = "SELECT name, settings FROM queues WHERE name = ANY($1) ORDER BY name FOR UPDATE";
        let rows = self.query("lock queues", sql, &[&names]).await?;
        rows.iter().map(read_queue).collect()
    }

    pub(crate) async fn select_queues(&mut self) -> Done<Vec<Queue>> {
        let rows = self.query("read queues", "SELECT name, settings FROM queues ORDER BY name", &[]).await?;
        rows.iter().map(read_queue).collect()
    }

    pub(crate) async fn remove_queues(&mut self, names: &[QueueName]) -> Done<()> {
        let names: Vec<String> = names.iter().map(|name| storable(name.as_str()).into_owned()).collect();
        self.execute("delete queues", "DELETE FROM queues WHERE name = ANY($1)", &[&names]).await?;
        Ok(())
    }

    pub(crate) async fn write_queues(&mut self, queues: &[Queue]) -> Done<()> {
        let names: Vec<_> = queues.iter().map(|queue| storable(queue.name.as_str())).collect();
        let settings = queues.iter().map(to_json).collect::<Done<Vec<String>>>()?;
        let sql = "INSERT INTO queues (name, settings) SELECT name, settings \
                   FROM unnest($1::text[], $2::text[]) AS new (name, settings) ORDER BY name \
                   ON CONFLICT (name) DO UPDATE SET settings = excluded.settings";
        self.execute("put queues", sql, &[&names, &settings]).await?;
        Ok(())
    }

    pub(crate) async fn lock_and_select_trees(&mut self, roots: &[QueueName]) -> Done<Vec<Queue>> {
        let names: Vec<_> = roots.iter().map(|root| storable(root.as_str())).collect();
        self.query("lock trees", LOCK_TREES, &[&names]).await?;
        let mut queues = self.select_queues().await?;
        queues.retain(|queue| queue.tree.as_ref().is_some_and(|root| roots.contains(root)));
        Ok(queues)
    }

    pub(crate) async fn count_held_by_queue(&mut self, queues: &[QueueName]) -> Done<Vec<(ShapeId, u32)>> {
        const OPERATION: &str = "count jobs of a queue";
        let names: Vec<_> = queues.iter().map(|queue| storable(queue.as_str())).collect();
        let sql = "SELECT shape, count(*) FROM jobs \
                   WHERE queue = ANY($1) AND queue IS NOT NULL AND status IN ('reserved', 'running', 'preempting') GROUP BY shape";
        let rows = self.query(OPERATION, sql, &[&names]).await?;
        let read = |row: &Row| {
            let fail = during(OPERATION);
            let jobs: i64 = row.try_get(1).map_err(&fail)?;
            Ok((ShapeId(row.try_get(0).map_err(&fail)?), jobs as u32))
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn count_waiting(
        &mut self,
        shapes: &[ShapeId],
        queues: &[QueueName],
    ) -> Done<Vec<(ShapeId, u64)>> {
        const OPERATION: &str = "count waiting jobs";
        let shapes: Vec<i64> = shapes.iter().map(|shape| shape.0).collect();
        let names: Vec<_> = queues.iter().map(|queue| storable(queue.as_str())).collect();
        let sql = "SELECT shape, count(*) FROM jobs \
                   WHERE status = 'pending' AND shape = ANY($1) GROUP BY shape UNION ALL \
                   SELECT shape, count(*) FROM jobs \
                   WHERE status IN ('blocked', 'delayed', 'held') AND queue = ANY($2) GROUP BY shape";
        let rows = self.query(OPERATION, sql, &[&shapes, &names]).await?;
        let read = |row: &Row| {
            let fail = during(OPERATION);
            let jobs: i64 = row.try_get(1).map_err(&fail)?;
            Ok((ShapeId(row.try_get(0).map_err(&fail)?), jobs as u64))
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn lock_and_count_keys(&mut self, keys: &[String]) -> Done<Vec<(String, u32)>> {
        const OPERATION: &str = "lock keys";
        let mut stored: Vec<_> = keys.iter().map(|key| storable(key)).collect();
        stored.sort_unstable();
        self.query(OPERATION, LOCK_KEYS, &[&stored]).await?;
        // A statement of its own: it must see what was committed before the lock was had.
        let sql = "SELECT concurrency_key, count(*) FROM jobs \
                   WHERE concurrency_key = ANY($1) AND status IN ('reserved', 'running', 'preempting') \
                   GROUP BY concurrency_key";
        let rows = self.query(OPERATION, sql, &[&stored]).await?;
        let mut counts: HashMap<String, u32> = HashMap::new();
        for row in &rows {
            let count: i64 = row.try_get(1).map_err(during(OPERATION))?;
            counts.insert(row.try_get(0).map_err(during(OPERATION))?, count as u32);
        }
        let held = |key: &String| Some((key.clone(), *counts.get(storable(key).as_ref())?));
        Ok(keys.iter().filter_map(held).collect())
    }

    pub(crate) async fn select_holders(&mut self, key: &str, limit: usize) -> Done<Vec<JobId>> {
        const OPERATION: &str = "read jobs of a key";
        let sql = "SELECT id FROM jobs WHERE concurrency_key = $1 \
                   AND status IN ('reserved', 'running', 'preempting') ORDER BY id LIMIT $2";
        let rows = self.query(OPERATION, sql, &[&storable(key), &sql_limit(limit)]).await?;
        row::read_ids(OPERATION, &rows)
    }
}

fn read_queue(row: &Row) -> Done<Queue> {
    let fail = during("read a queue");
    let name: String = row.try_get(0).map_err(&fail)?;
    let settings: String = row.try_get(1).map_err(&fail)?;
    from_json(&settings, &format!("queue {name}"))
}
