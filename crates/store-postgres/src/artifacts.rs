//! Artifacts of attempts.

use muster_domain::{Artifact, ArtifactContent, JobId, Lease, Timestamp};
use muster_store::{ArtifactFilter, ArtifactRun, ArtifactsOf, ExpireArtifacts};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::{corrupt, during};
use crate::row::storable;
use crate::tx::{Done, PostgresTx};

const COLUMNS: &str = "name, attempt, at, blob, size, sha256, content_type, missing, removed";

impl PostgresTx {
    pub(crate) async fn write_artifacts(
        &mut self,
        artifacts: &[Artifact],
        queue: &str,
        user: &str,
    ) -> Done<()> {
        const OPERATION: &str = "keep artifacts";
        let sql = "INSERT INTO artifacts (job, lease, name, attempt, at, blob, size, sha256, content_type, missing, \
                   queue, owner) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) \
                   ON CONFLICT (job, lease, name) DO UPDATE SET attempt = excluded.attempt, at = excluded.at, \
                   blob = excluded.blob, size = excluded.size, sha256 = excluded.sha256, \
                   content_type = excluded.content_type, missing = excluded.missing, queue = excluded.queue, \
                   owner = excluded.owner, removed = NULL";
        let (queue, user) = (storable(queue), storable(user));
        for artifact in artifacts {
            self.learn([artifact.job]).await?;
            let Some(seq) = self.known_seqs(&[artifact.job]).first().copied() else { continue };
            let (blob, sha256, content_type, missing) = match &artifact.content {
                ArtifactContent::Kept { blob, sha256, content_type, .. } => {
                    (Some(storable(blob)), Some(storable(sha256)), Some(storable(content_type)), None)
                }
                ArtifactContent::Missing { why } => (None, None, None, Some(storable(why))),
                // Nothing else is ever put in the place of what was removed.
                ArtifactContent::Removed { .. } => continue,
            };
            let (lease, at) = (artifact.lease.0 as i64, artifact.at.as_micros());
            let (attempt, size) = (i64::from(artifact.attempt), artifact.size() as i64);
            let name = storable(&artifact.name);
            let values: [&(dyn ToSql + Sync); 12] = [
                &seq,
                &lease,
                &name,
                &attempt,
                &at,
                &blob,
                &size,
                &sha256,
                &content_type,
                &missing,
                &queue,
                &user,
            ];
            self.execute(OPERATION, sql, &values).await?;
        }
        Ok(())
    }

    pub(crate) async fn select_artifacts(&mut self, filter: &ArtifactFilter) -> Done<Vec<Artifact>> {
        const OPERATION: &str = "read artifacts";
        self.learn([filter.job]).await?;
        let Some(seq) = self.known_seqs(&[filter.job]).first().copied() else { return Ok(Vec::new()) };
        let lease = filter.lease.0 as i64;
        let rows = if let Some(name) = &filter.name {
            let sql = format!("SELECT {COLUMNS} FROM artifacts WHERE job = $1 AND lease = $2 AND name = $3");
            self.query(OPERATION, &sql, &[&seq, &lease, &storable(name)]).await?
        } else {
            let sql = format!(
                "SELECT {COLUMNS} FROM artifacts WHERE job = $1 AND lease = $2 AND name > $3 ORDER BY name LIMIT $4"
            );
            let after = storable(filter.after.as_deref().unwrap_or_default());
            let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
            self.query(OPERATION, &sql, &[&seq, &lease, &after, &limit]).await?
        };
        rows.iter().map(|row| artifact(row, filter.job, filter.lease)).collect()
    }

    pub(crate) async fn select_artifact_runs(&mut self, job: JobId) -> Done<Vec<ArtifactRun>> {
        const OPERATION: &str = "count artifacts";
        self.learn([job]).await?;
        let Some(seq) = self.known_seqs(&[job]).first().copied() else { return Ok(Vec::new()) };
        let sql = "SELECT lease, max(attempt), count(blob), sum(size)::bigint, count(missing) FROM artifacts \
                   WHERE job = $1 GROUP BY lease ORDER BY lease DESC";
        let rows = self.query(OPERATION, sql, &[&seq]).await?;
        let read = |row: &Row| {
            let number =
                |at: usize| row.try_get::<_, i64>(at).map_err(during(OPERATION)).map(i64::unsigned_abs);
            Ok(ArtifactRun {
                lease: Lease(number(0)?),
                attempt: u32::try_from(number(1)?).unwrap_or(u32::MAX),
                files: number(2)?,
                bytes: number(3)?,
                missing: number(4)?,
            })
        };
        rows.iter().map(read).collect()
    }

    pub(crate) async fn take_old_blobs(&mut self, old: ExpireArtifacts, now: Timestamp) -> Done<Vec<String>> {
        const OPERATION: &str = "remove old artifacts";
        let sql = "WITH old AS (SELECT job, lease, name, blob FROM artifacts WHERE blob IS NOT NULL AND at < $1 \
                   ORDER BY at LIMIT $2 FOR UPDATE), gone AS (UPDATE artifacts SET blob = NULL, size = 0, removed = $3 \
                   FROM old WHERE artifacts.job = old.job AND artifacts.lease = old.lease AND artifacts.name = old.name) \
                   SELECT blob FROM old";
        let limit = i64::try_from(old.limit).unwrap_or(i64::MAX);
        let rows = self.query(OPERATION, sql, &[&old.before.as_micros(), &limit, &now.as_micros()]).await?;
        rows.iter().map(|row| row.try_get(0).map_err(during(OPERATION))).collect()
    }

    pub(crate) async fn sum_artifacts(&mut self, of: ArtifactsOf<'_>) -> Done<u64> {
        const OPERATION: &str = "add up artifacts";
        let (sql, name) = match of {
            ArtifactsOf::Queue(name) => {
                ("SELECT coalesce(sum(size), 0)::bigint FROM artifacts WHERE queue = $1", name)
            }
            ArtifactsOf::User(name) => {
                ("SELECT coalesce(sum(size), 0)::bigint FROM artifacts WHERE owner = $1", name)
            }
        };
        let rows = self.query(OPERATION, sql, &[&storable(name)]).await?;
        let sum = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose().map_err(during(OPERATION))?;
        Ok(sum.unwrap_or(0).unsigned_abs())
    }

    pub(crate) async fn select_known_blobs(&mut self, blobs: &[String]) -> Done<Vec<String>> {
        const OPERATION: &str = "look for blobs";
        let sql = "SELECT blob FROM artifacts WHERE blob = ANY($1) \
                   UNION SELECT blob FROM outputs WHERE blob = ANY($1)";
        let rows = self.query(OPERATION, sql, &[&blobs]).await?;
        rows.iter().map(|row| row.try_get(0).map_err(during(OPERATION))).collect()
    }
}

fn artifact(row: &Row, job: JobId, lease: Lease) -> Done<Artifact> {
    let fail = during("read artifacts");
    let text = |at: usize| row.try_get::<_, Option<String>>(at).map_err(&fail);
    let number = |at: usize| row.try_get::<_, i64>(at).map_err(&fail);
    let content = match (text(3)?, text(5)?, text(6)?, text(7)?) {
        (Some(blob), Some(sha256), Some(content_type), None) => {
            ArtifactContent::Kept { blob, size: number(4)?.unsigned_abs(), sha256, content_type }
        }
        (None, _, _, Some(why)) => ArtifactContent::Missing { why },
        (None, _, _, None) => match row.try_get::<_, Option<i64>>(8).map_err(&fail)? {
            Some(at) => ArtifactContent::Removed { at: Timestamp::from_micros(at) },
            None => return Err(corrupt(format!("artifact of {job}"), "it is neither kept nor missing")),
        },
        _ => return Err(corrupt(format!("artifact of {job}"), "it is neither kept nor missing")),
    };
    Ok(Artifact {
        job,
        lease,
        name: row.try_get(0).map_err(&fail)?,
        attempt: u32::try_from(number(1)?).unwrap_or(u32::MAX),
        at: Timestamp::from_micros(number(2)?),
        content,
    })
}
