//! Jobs by id, their dependencies and their checkpoints.

use std::collections::HashMap;

use muster_domain::{Job, JobId, Rule};
use muster_store::Edge;
use muster_store::row::JobRow;
use rusqlite::params;

use crate::error::{corrupt, during, failed};
use crate::extent::{Extent, Mark};
use crate::row::{self, INSERT_JOB, JOB_COLUMNS, REWRITE_JOB, id_bytes};
use crate::tx::{Done, SqliteTx};

impl SqliteTx<'_> {
    pub(crate) fn select_jobs(&mut self, ids: &[JobId]) -> Done<Vec<Job>> {
        let sql = format!("SELECT {JOB_COLUMNS} FROM jobs WHERE id = ?1");
        let jobs =
            self.rows_of_each("read jobs", &sql, ids.iter().map(|id| [id_bytes(*id)]), row::read_job)?;
        self.remember_all(&jobs);
        Ok(jobs)
    }

    pub(crate) fn rewrite(&mut self, jobs: &[Job]) -> Done<()> {
        let mut statement = self.statement("rewrite jobs", REWRITE_JOB)?;
        for job in jobs {
            row::rewrite_job(&mut statement, job)?;
            // It names less than an update would: what is stored of the rest is not known any more.
            self.unmark(job.id);
        }
        Ok(())
    }

    pub(crate) fn remember_all(&mut self, jobs: &[Job]) {
        for job in jobs {
            self.remember(job.id, job.seq as i64);
            self.mark(job.id, Mark::of(job));
        }
    }

    pub(crate) fn insert_new_jobs(&mut self, jobs: &mut [Job]) -> Done<()> {
        let first = self.number_jobs(jobs.len())?;
        let mut statement = self.statement("insert jobs", INSERT_JOB)?;
        for (seq, job) in (first..).zip(jobs) {
            job.seq = seq as u64;
            row::insert_job(&mut statement, job)?;
            self.remember(job.id, seq);
            self.mark(job.id, Mark::of(job));
        }
        Ok(())
    }

    pub(crate) fn write_jobs(&mut self, jobs: &[Job]) -> Done<()> {
        let marked: Vec<(&Job, Mark)> = jobs.iter().map(|job| (job, Mark::of(job))).collect();
        let extents: Vec<Extent> =
            marked.iter().map(|(job, mark)| Extent::between(self.stored(job.id), mark)).collect();
        for extent in Extent::EACH {
            let mut these = marked.iter().zip(&extents).filter(|(_, own)| **own == extent).peekable();
            if these.peek().is_none() {
                continue;
            }
            let mut statement = self.statement("update jobs", row::update_sql(extent))?;
            for ((job, mark), _) in these {
                row::update_job(&mut statement, extent, job)?;
                self.mark(job.id, *mark);
            }
        }
        if cfg!(debug_assertions) { self.compare_with_stored(jobs) } else { Ok(()) }
    }

    /// An error when something is stored of a job that an update left out and that is not so.
    fn compare_with_stored(&mut self, jobs: &[Job]) -> Done<()> {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        // What follows from an edit is written apart, and perhaps later.
        let facts = |job: &Job| -> Done<JobRow> {
            Ok(JobRow { priority: 0, shape: 0, alarm_at: None, ..JobRow::changing(job)? })
        };
        let stored = self.select_jobs(&ids)?;
        let stored: HashMap<JobId, JobRow> =
            stored.iter().map(|job| Ok((job.id, facts(job)?))).collect::<Done<_>>()?;
        for job in jobs {
            let (own, found) = (facts(job)?, stored.get(&job.id));
            if found != Some(&own) {
                return Err(failed("compare what was written", format!("{own:?} is stored as {found:?}")));
            }
        }
        Ok(())
    }

    pub(crate) fn remove_jobs(&mut self, ids: &[JobId]) -> Done<()> {
        let mut seqs = Vec::with_capacity(ids.len());
        for id in ids {
            seqs.extend(self.find_seq(*id)?);
            self.forget(*id);
        }
        for sql in [
            "DELETE FROM edges WHERE parent = ?1",
            "DELETE FROM edges WHERE child = ?1",
            "DELETE FROM events WHERE job = ?1",
            "DELETE FROM checkpoints WHERE job = ?1",
            "DELETE FROM checkpoint_parts WHERE job = ?1",
            "DELETE FROM artifacts WHERE job = ?1",
            "DELETE FROM outputs WHERE job = ?1",
            "DELETE FROM jobs WHERE seq = ?1",
        ] {
            let mut statement = self.statement("delete jobs", sql)?;
            for seq in &seqs {
                statement.execute([seq]).map_err(during("delete jobs"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn select_keys(&self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        const OPERATION: &str = "find jobs by key";
        let sql = "SELECT idempotency_key, id FROM jobs WHERE idempotency_key = ?1";
        self.rows_of_each(OPERATION, sql, keys.iter().map(|key| [key]), |row| {
            let key = row.get(0).map_err(during(OPERATION))?;
            Ok((key, row::job_id(row, 1).map_err(during(OPERATION))?))
        })
    }

    pub(crate) fn select_unique(&self, keys: &[String]) -> Done<Vec<(String, JobId)>> {
        const OPERATION: &str = "find unique jobs";
        let sql = "SELECT unique_key, id FROM jobs INDEXED BY jobs_by_unique \
                   WHERE unique_key = ?1 AND done_at IS NULL ORDER BY seq LIMIT 1";
        self.rows_of_each(OPERATION, sql, keys.iter().map(|key| [key]), |row| {
            let key = row.get(0).map_err(during(OPERATION))?;
            Ok((key, row::job_id(row, 1).map_err(during(OPERATION))?))
        })
    }

    pub(crate) fn write_edges(&mut self, edges: &[Edge]) -> Done<()> {
        let mut statement = self.statement(
            "insert edges",
            "INSERT OR IGNORE INTO edges (parent, child, rule) VALUES (?1, ?2, ?3)",
        )?;
        for edge in edges {
            let (parent, child) = (self.seq(edge.parent)?, self.seq(edge.child)?);
            statement
                .execute([parent, child, i64::from(edge.rule.number())])
                .map_err(during("insert edges"))?;
        }
        Ok(())
    }

    pub(crate) fn select_edges(&mut self, parents: &[JobId]) -> Done<Vec<Edge>> {
        const OPERATION: &str = "read edges";
        let sql = "SELECT jobs.id, edges.rule FROM edges JOIN jobs ON jobs.seq = edges.child WHERE edges.parent = ?1";
        let mut statement = self.statement(OPERATION, sql)?;
        let mut edges = Vec::new();
        for parent in parents {
            let Some(seq) = self.find_seq(*parent)? else { continue };
            let mut rows = statement.query([seq]).map_err(during(OPERATION))?;
            while let Some(row) = rows.next().map_err(during(OPERATION))? {
                let child = row::job_id(row, 0).map_err(during(OPERATION))?;
                let number: u8 = row.get(1).map_err(during(OPERATION))?;
                let rule =
                    Rule::numbered(number).ok_or_else(|| corrupt("edges", format!("rule {number}")))?;
                edges.push(Edge { parent: *parent, child, rule });
            }
        }
        Ok(edges)
    }

    pub(crate) fn select_checkpoints(&self, ids: &[JobId]) -> Done<Vec<(JobId, Vec<u8>)>> {
        const OPERATION: &str = "read checkpoints";
        let sql = "SELECT jobs.id, checkpoints.bytes FROM jobs JOIN checkpoints ON checkpoints.job = jobs.seq \
                   WHERE jobs.id = ?1";
        self.rows_of_each(OPERATION, sql, ids.iter().map(|id| [id_bytes(*id)]), |row| {
            let id = row::job_id(row, 0).map_err(during(OPERATION))?;
            Ok((id, row.get(1).map_err(during(OPERATION))?))
        })
    }

    pub(crate) fn write_checkpoint(&mut self, id: JobId, bytes: &[u8]) -> Done<()> {
        let seq = self.seq(id)?;
        let sql = "INSERT OR REPLACE INTO checkpoints (job, bytes) VALUES (?1, ?2)";
        let mut statement = self.statement("save a checkpoint", sql)?;
        statement.execute(params![seq, bytes]).map_err(during("save a checkpoint"))?;
        Ok(())
    }
}
