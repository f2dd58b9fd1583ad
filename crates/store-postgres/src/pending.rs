//! Pending work: shapes, the head of the queue of each shape, and what goes before a job.

use muster_domain::{Job, Shape, ShapeId};

use crate::error::during;
use crate::row::{self, JOB_COLUMNS, sql_limit, to_json};
use crate::tx::{Done, PostgresTx};

/// A table `hop` of every shape of those pending jobs, found by hopping through the index from one shape to
/// the next.
fn hop(those: &str) -> String {
    format!(
        "WITH RECURSIVE hop (shape) AS ( \
            SELECT (SELECT shape FROM jobs WHERE status = 'pending' {those} ORDER BY shape LIMIT 1) \
            UNION ALL \
            SELECT (SELECT shape FROM jobs WHERE status = 'pending' AND jobs.shape > hop.shape {those} \
                    ORDER BY shape LIMIT 1) \
            FROM hop WHERE hop.shape IS NOT NULL)"
    )
}

impl PostgresTx {
    pub(crate) async fn select_shapes(&mut self, shapes: &[ShapeId]) -> Done<Vec<(ShapeId, Shape)>> {
        let ids: Vec<i64> = shapes.iter().map(|shape| shape.0).collect();
        let sql = "SELECT id, requirement FROM shapes WHERE id = ANY($1)";
        let rows = self.query("read shapes", sql, &[&ids]).await?;
        rows.iter().map(row::read_shape).collect()
    }

    pub(crate) async fn write_shapes(&mut self, shapes: &[(ShapeId, Shape)]) -> Done<()> {
        let ids: Vec<i64> = shapes.iter().map(|(shape, _)| shape.0).collect();
        let texts = shapes.iter().map(|(_, shape)| to_json(shape)).collect::<Done<Vec<String>>>()?;
        let sql = "INSERT INTO shapes (id, requirement) SELECT id, requirement \
                   FROM unnest($1::bigint[], $2::text[]) AS new (id, requirement) ORDER BY id \
                   ON CONFLICT DO NOTHING";
        self.execute("insert shapes", sql, &[&ids, &texts]).await?;
        Ok(())
    }

    pub(crate) async fn select_pending_shapes(&mut self) -> Done<Vec<(ShapeId, Shape)>> {
        let sql = format!(
            "{} SELECT shapes.id, shapes.requirement FROM hop JOIN shapes ON shapes.id = hop.shape",
            hop("AND gang_id IS NULL")
        );
        let rows = self.query("read pending shapes", &sql, &[]).await?;
        rows.iter().map(row::read_shape).collect()
    }

    pub(crate) async fn select_and_lock_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>> {
        let ids: Vec<i64> = shapes.iter().map(|shape| shape.0).collect();
        let sql = format!(
            "SELECT jobs.* FROM unnest($1::bigint[]) AS wanted (shape) CROSS JOIN LATERAL ( \
                 SELECT {JOB_COLUMNS} FROM jobs \
                 WHERE status = 'pending' AND jobs.shape = wanted.shape AND gang_id IS NULL \
                 ORDER BY rank, seq LIMIT $2 FOR UPDATE SKIP LOCKED) AS jobs"
        );
        let rows = self.query("lock heads", &sql, &[&ids, &sql_limit(limit)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_heads(&mut self, shapes: &[ShapeId]) -> Done<Vec<Job>> {
        let ids: Vec<i64> = shapes.iter().map(|shape| shape.0).collect();
        let sql = format!(
            "SELECT jobs.* FROM unnest($1::bigint[]) AS wanted (shape) CROSS JOIN LATERAL ( \
                 SELECT {JOB_COLUMNS} FROM jobs \
                 WHERE status = 'pending' AND jobs.shape = wanted.shape AND gang_id IS NULL \
                 ORDER BY rank, seq LIMIT 1) AS jobs"
        );
        let rows = self.query("read heads", &sql, &[&ids]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    /// The first of a line is sought as the first from its rank on: with an equal rank the database would go by
    /// numbers alone, and read all jobs.
    pub(crate) async fn select_line_heads(&mut self, limit: usize) -> Done<Vec<Job>> {
        let sql = format!(
            "{}, line (shape, rank) AS ( \
                SELECT hop.shape, (SELECT jobs.rank FROM jobs WHERE status = 'pending' \
                    AND jobs.shape = hop.shape AND gang_id IS NULL ORDER BY jobs.rank LIMIT 1) \
                FROM hop WHERE hop.shape IS NOT NULL \
                UNION ALL \
                SELECT line.shape, (SELECT jobs.rank FROM jobs WHERE status = 'pending' \
                    AND jobs.shape = line.shape AND jobs.rank > line.rank AND gang_id IS NULL \
                    ORDER BY jobs.rank LIMIT 1) \
                FROM line WHERE line.rank IS NOT NULL) \
             SELECT jobs.* FROM line CROSS JOIN LATERAL ( \
                 SELECT {JOB_COLUMNS} FROM jobs WHERE status = 'pending' AND jobs.shape = line.shape \
                     AND jobs.rank >= line.rank AND gang_id IS NULL ORDER BY jobs.rank, jobs.seq LIMIT 1) AS jobs \
             WHERE line.rank IS NOT NULL LIMIT $1",
            hop("AND gang_id IS NULL")
        );
        let rows = self.query("read the heads of lines", &sql, &[&sql_limit(limit)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_pinned(&mut self) -> Done<Vec<Job>> {
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE pinned ORDER BY seq");
        let rows = self.query("read pinned jobs", &sql, &[]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    /// Goes over the numbers of all jobs, piece by piece: only a change of the policy asks for it.
    pub(crate) async fn select_unfinished_after(&mut self, seq: u64, limit: usize) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs WHERE done_at IS NULL AND seq > $1 ORDER BY seq LIMIT $2"
        );
        let rows = self.query("read unfinished jobs", &sql, &[&(seq as i64), &sql_limit(limit)]).await?;
        self.remember_all(row::read_jobs(&rows)?)
    }

    pub(crate) async fn select_ranked_by(&mut self) -> Done<Option<String>> {
        const OPERATION: &str = "read the rule of ranks";
        let rows = self.query(OPERATION, "SELECT value FROM secrets WHERE name = 'ranks'", &[]).await?;
        rows.first().map(|row| row.try_get(0)).transpose().map_err(during(OPERATION))
    }

    pub(crate) async fn write_ranked_by(&mut self, rule: &str) -> Done<()> {
        let sql = "INSERT INTO secrets (name, value) VALUES ('ranks', $1) \
                   ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.execute("note the rule of ranks", sql, &[&rule]).await?;
        Ok(())
    }

    pub(crate) async fn count_before(&mut self, job: &Job, shapes: &[ShapeId]) -> Done<u64> {
        const OPERATION: &str = "count jobs ahead";
        let ids: Vec<i64> = shapes.iter().map(|shape| shape.0).collect();
        let sql = "SELECT coalesce(sum( \
                (SELECT count(*) FROM jobs \
                    WHERE status = 'pending' AND jobs.shape = wanted.shape AND rank < $1) \
                + (SELECT count(*) FROM jobs \
                    WHERE status = 'pending' AND jobs.shape = wanted.shape AND rank = $1 AND seq < $2)), 0) \
                ::bigint FROM unnest($3::bigint[]) AS wanted (shape)";
        let rows = self.query(OPERATION, sql, &[&job.rank, &(job.seq as i64), &ids]).await?;
        let count = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose();
        Ok(count.map_err(during(OPERATION))?.unwrap_or(0) as u64)
    }
}
