//! Artifacts of attempts.

use muster_domain::{Artifact, ArtifactContent, JobId, Lease, Timestamp};
use muster_store::{ArtifactFilter, ArtifactRun, ArtifactsOf, ExpireArtifacts};
use rusqlite::{Row, params};

use crate::error::{corrupt, during};
use crate::tx::{Done, SqliteTx};

const COLUMNS: &str = "name, attempt, at, blob, size, sha256, content_type, missing, removed";

impl SqliteTx<'_> {
    pub(crate) fn write_artifacts(&mut self, artifacts: &[Artifact], queue: &str, user: &str) -> Done<()> {
        const OPERATION: &str = "keep artifacts";
        for artifact in artifacts {
            let seq = self.seq(artifact.job)?;
            let sql = "INSERT OR REPLACE INTO artifacts (job, lease, name, attempt, at, blob, size, sha256, \
                       content_type, missing, queue, owner) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
            let (blob, sha256, content_type, missing) = match &artifact.content {
                ArtifactContent::Kept { blob, sha256, content_type, .. } => {
                    (Some(blob), Some(sha256), Some(content_type), None)
                }
                ArtifactContent::Missing { why } => (None, None, None, Some(why)),
                // Nothing else is ever put in the place of what was removed.
                ArtifactContent::Removed { .. } => continue,
            };
            let (lease, at) = (artifact.lease.0 as i64, artifact.at.as_micros());
            let (attempt, size) = (artifact.attempt, artifact.size() as i64);
            let values = params![
                seq,
                lease,
                artifact.name,
                attempt,
                at,
                blob,
                size,
                sha256,
                content_type,
                missing,
                queue,
                user
            ];
            self.statement(OPERATION, sql)?.execute(values).map_err(during(OPERATION))?;
        }
        Ok(())
    }

    pub(crate) fn select_artifacts(&mut self, filter: &ArtifactFilter) -> Done<Vec<Artifact>> {
        const OPERATION: &str = "read artifacts";
        let Some(seq) = self.find_seq(filter.job)? else { return Ok(Vec::new()) };
        let (job, lease) = (filter.job, filter.lease);
        let read = |row: &Row<'_>| artifact(row, job, lease);
        if let Some(name) = &filter.name {
            let sql = format!("SELECT {COLUMNS} FROM artifacts WHERE job = ?1 AND lease = ?2 AND name = ?3");
            return self.rows(OPERATION, &sql, params![seq, lease.0 as i64, name], read);
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM artifacts WHERE job = ?1 AND lease = ?2 AND name > ?3 ORDER BY name LIMIT ?4"
        );
        let after = filter.after.as_deref().unwrap_or_default();
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        self.rows(OPERATION, &sql, params![seq, lease.0 as i64, after, limit], read)
    }

    pub(crate) fn select_artifact_runs(&mut self, job: JobId) -> Done<Vec<ArtifactRun>> {
        const OPERATION: &str = "count artifacts";
        let Some(seq) = self.find_seq(job)? else { return Ok(Vec::new()) };
        let sql = "SELECT lease, max(attempt), count(blob), sum(size), count(missing) FROM artifacts \
                   WHERE job = ?1 GROUP BY lease ORDER BY lease DESC";
        self.rows(OPERATION, sql, [seq], |row| {
            let number = |at: usize| row.get::<_, i64>(at).map_err(during(OPERATION)).map(i64::unsigned_abs);
            Ok(ArtifactRun {
                lease: Lease(number(0)?),
                attempt: u32::try_from(number(1)?).unwrap_or(u32::MAX),
                files: number(2)?,
                bytes: number(3)?,
                missing: number(4)?,
            })
        })
    }

    pub(crate) fn take_old_blobs(&mut self, old: ExpireArtifacts, now: Timestamp) -> Done<Vec<String>> {
        const OPERATION: &str = "remove old artifacts";
        let sql = "SELECT job, lease, name, blob FROM artifacts WHERE blob IS NOT NULL AND at < ?1 ORDER BY at LIMIT ?2";
        let limit = i64::try_from(old.limit).unwrap_or(i64::MAX);
        let old = self.rows(OPERATION, sql, params![old.before.as_micros(), limit], |row| {
            let fail = during(OPERATION);
            let number = |at: usize| row.get::<_, i64>(at).map_err(&fail);
            let text = |at: usize| row.get::<_, String>(at).map_err(&fail);
            Ok((number(0)?, number(1)?, text(2)?, text(3)?))
        })?;
        let sql = "UPDATE artifacts SET blob = NULL, size = 0, removed = ?4 WHERE job = ?1 AND lease = ?2 AND name = ?3";
        let mut blobs = Vec::new();
        for (job, lease, name, blob) in old {
            let values = params![job, lease, name, now.as_micros()];
            self.statement(OPERATION, sql)?.execute(values).map_err(during(OPERATION))?;
            blobs.push(blob);
        }
        Ok(blobs)
    }

    pub(crate) fn sum_artifacts(&self, of: ArtifactsOf<'_>) -> Done<u64> {
        const OPERATION: &str = "add up artifacts";
        let (sql, name) = match of {
            ArtifactsOf::Queue(name) => {
                ("SELECT coalesce(sum(size), 0) FROM artifacts WHERE queue = ?1", name)
            }
            ArtifactsOf::User(name) => {
                ("SELECT coalesce(sum(size), 0) FROM artifacts WHERE owner = ?1", name)
            }
        };
        let sum = self.statement(OPERATION, sql)?.query_row([name], |row| row.get::<_, i64>(0));
        sum.map(i64::unsigned_abs).map_err(during(OPERATION))
    }

    pub(crate) fn select_known_blobs(&self, blobs: &[String]) -> Done<Vec<String>> {
        const OPERATION: &str = "look for blobs";
        let sql = "SELECT ?1 WHERE EXISTS (SELECT 1 FROM artifacts WHERE blob = ?1) \
                   OR EXISTS (SELECT 1 FROM outputs WHERE blob = ?1)";
        let keys = blobs.iter().map(|blob| [blob]);
        self.rows_of_each(OPERATION, sql, keys, |row| row.get(0).map_err(during(OPERATION)))
    }
}

fn artifact(row: &Row<'_>, job: JobId, lease: Lease) -> Done<Artifact> {
    let fail = during("read artifacts");
    let text = |at: usize| row.get::<_, Option<String>>(at).map_err(&fail);
    let content = match (text(3)?, text(5)?, text(6)?, text(7)?) {
        (Some(blob), Some(sha256), Some(content_type), None) => {
            let size = row.get::<_, i64>(4).map_err(&fail)?.unsigned_abs();
            ArtifactContent::Kept { blob, size, sha256, content_type }
        }
        (None, _, _, Some(why)) => ArtifactContent::Missing { why },
        (None, _, _, None) => match row.get::<_, Option<i64>>(8).map_err(&fail)? {
            Some(at) => ArtifactContent::Removed { at: Timestamp::from_micros(at) },
            None => return Err(corrupt(format!("artifact of {job}"), "it is neither kept nor missing")),
        },
        _ => return Err(corrupt(format!("artifact of {job}"), "it is neither kept nor missing")),
    };
    Ok(Artifact {
        job,
        lease,
        name: row.get(0).map_err(&fail)?,
        attempt: row.get(1).map_err(&fail)?,
        at: Timestamp::from_micros(row.get(2).map_err(&fail)?),
        content,
    })
}
