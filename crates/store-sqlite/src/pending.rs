//! Pending work: shapes, the head of the queue of each shape, and what goes before a job.

use muster_domain::{Job, Shape, ShapeId};
use rusqlite::params;

use crate::error::during;
use crate::held::sql_limit;
use crate::row::{self, JOB_COLUMNS, to_json};
use crate::tx::{Done, SqliteTx};

/// A table `hop` of every shape of those pending jobs, found by hopping through the index from one shape to
/// the next.
fn hop(those: &str) -> String {
    format!(
        "WITH RECURSIVE hop (shape) AS ( \
            SELECT min(shape) FROM jobs WHERE status = 'pending' {those} \
            UNION ALL \
            SELECT (SELECT min(shape) FROM jobs WHERE status = 'pending' AND shape > hop.shape {those}) \
            FROM hop WHERE hop.shape IS NOT NULL)"
    )
}

impl SqliteTx<'_> {
    pub(crate) fn select_shapes(&self, shapes: &[ShapeId]) -> Done<Vec<(ShapeId, Shape)>> {
        let sql = "SELECT id, requirement FROM shapes WHERE id = ?1";
        self.rows_of_each("read shapes", sql, shapes.iter().map(|shape| [shape.0]), row::read_shape)
    }

    pub(crate) fn write_shapes(&self, shapes: &[(ShapeId, Shape)]) -> Done<()> {
        let sql = "INSERT OR IGNORE INTO shapes (id, requirement) VALUES (?1, ?2)";
        let mut statement = self.statement("insert shapes", sql)?;
        for (id, shape) in shapes {
            let text = to_json(shape)?;
            statement.execute(params![id.0, text]).map_err(during("insert shapes"))?;
        }
        Ok(())
    }

    pub(crate) fn select_pending_shapes(&self) -> Done<Vec<(ShapeId, Shape)>> {
        let sql = format!(
            "{} SELECT shapes.id, shapes.requirement FROM hop JOIN shapes ON shapes.id = hop.shape",
            hop("AND gang_id IS NULL")
        );
        self.rows("read pending shapes", &sql, [], row::read_shape)
    }

    pub(crate) fn select_heads(&mut self, shapes: &[ShapeId], limit: usize) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_pending \
             WHERE status = 'pending' AND shape = ?1 AND gang_id IS NULL \
             ORDER BY rank, seq LIMIT ?2"
        );
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let jobs = self.rows_of_each(
            "read heads",
            &sql,
            shapes.iter().map(|shape| [shape.0, limit]),
            row::read_job,
        )?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_line_heads(&mut self, limit: usize) -> Done<Vec<Job>> {
        let sql = format!(
            "{}, line (shape, rank) AS ( \
                SELECT shape, (SELECT min(rank) FROM jobs \
                    WHERE status = 'pending' AND jobs.shape = hop.shape AND gang_id IS NULL) \
                FROM hop WHERE shape IS NOT NULL \
                UNION ALL \
                SELECT shape, (SELECT min(rank) FROM jobs WHERE status = 'pending' AND jobs.shape = line.shape \
                    AND jobs.rank > line.rank AND gang_id IS NULL) \
                FROM line WHERE rank IS NOT NULL) \
             SELECT {JOB_COLUMNS} FROM line CROSS JOIN jobs ON jobs.seq = (SELECT seq FROM jobs AS other \
                WHERE other.status = 'pending' AND other.shape = line.shape AND other.rank = line.rank \
                    AND other.gang_id IS NULL ORDER BY other.seq LIMIT 1) \
             WHERE line.rank IS NOT NULL LIMIT ?1",
            hop("AND gang_id IS NULL")
        );
        let jobs = self.rows("read the heads of lines", &sql, [sql_limit(limit)], row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_pinned(&mut self) -> Done<Vec<Job>> {
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_pinned WHERE pinned = 1");
        let jobs = self.rows("read pinned jobs", &sql, [], row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_unfinished_after(&mut self, seq: u64, limit: usize) -> Done<Vec<Job>> {
        let sql = format!(
            "SELECT {JOB_COLUMNS} FROM jobs INDEXED BY jobs_unfinished \
             WHERE done_at IS NULL AND seq > ?1 ORDER BY seq LIMIT ?2"
        );
        let after = [seq as i64, sql_limit(limit)];
        let jobs = self.rows("read unfinished jobs", &sql, after, row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn select_ranked_by(&self) -> Done<Option<String>> {
        const OPERATION: &str = "read the rule of ranks";
        let found = self.rows(OPERATION, "SELECT value FROM secrets WHERE name = 'ranks'", [], |row| {
            row.get::<_, String>(0).map_err(during(OPERATION))
        })?;
        Ok(found.into_iter().next())
    }

    pub(crate) fn write_ranked_by(&self, rule: &str) -> Done<()> {
        const OPERATION: &str = "note the rule of ranks";
        let sql = "INSERT OR REPLACE INTO secrets (name, value) VALUES ('ranks', ?1)";
        self.statement(OPERATION, sql)?.execute([rule]).map_err(during(OPERATION))?;
        Ok(())
    }

    pub(crate) fn count_before(&self, job: &Job, shapes: &[ShapeId]) -> Done<u64> {
        const OPERATION: &str = "count jobs ahead";
        let sql = "SELECT (SELECT count(*) FROM jobs WHERE status = 'pending' AND shape = ?1 AND rank < ?2) \
                + (SELECT count(*) FROM jobs WHERE status = 'pending' AND shape = ?1 AND rank = ?2 AND seq < ?3)";
        let mut statement = self.statement(OPERATION, sql)?;
        let mut ahead = 0;
        for shape in shapes {
            let params = params![shape.0, job.rank, job.seq as i64];
            ahead += statement.query_row(params, |row| row.get::<_, i64>(0)).map_err(during(OPERATION))?;
        }
        Ok(ahead as u64)
    }
}
