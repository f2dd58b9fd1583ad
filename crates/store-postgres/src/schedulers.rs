//! Schedulers, and checkpoints in parts.

use muster_domain::{JobId, Timestamp};
use muster_store::{CheckpointPart, Instance};

use crate::error::during;
use crate::row::storable;
use crate::tx::{Done, PostgresTx};

impl PostgresTx {
    pub(crate) async fn write_part(&mut self, part: &CheckpointPart) -> Done<()> {
        const OPERATION: &str = "save a part of a checkpoint";
        self.learn([part.job]).await?;
        let Some(seq) = self.known_seqs(&[part.job]).first().copied() else { return Ok(()) };
        let sql = "INSERT INTO checkpoint_parts (name, number, job, bytes) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (name, number) DO UPDATE SET job = excluded.job, bytes = excluded.bytes";
        let (name, number) = (part.name.as_ref(), i64::from(part.number));
        self.execute(OPERATION, sql, &[&name, &number, &seq, &part.bytes]).await.map(|_| ())
    }

    pub(crate) async fn leave_parts(&mut self, id: JobId, name: &str) -> Done<()> {
        const OPERATION: &str = "keep the parts of a checkpoint";
        self.learn([id]).await?;
        let Some(seq) = self.known_seqs(&[id]).first().copied() else { return Ok(()) };
        let sql = "DELETE FROM checkpoint_parts WHERE job = $1 AND name <> $2";
        self.execute(OPERATION, sql, &[&seq, &name]).await.map(|_| ())
    }

    pub(crate) async fn select_parts_length(&mut self, id: JobId, name: &str) -> Done<u64> {
        const OPERATION: &str = "count the parts of a checkpoint";
        self.learn([id]).await?;
        let Some(seq) = self.known_seqs(&[id]).first().copied() else { return Ok(0) };
        let sql = "SELECT coalesce(sum(length(bytes)), 0)::bigint FROM checkpoint_parts \
                   WHERE job = $1 AND name = $2";
        let rows = self.query(OPERATION, sql, &[&seq, &name]).await?;
        let kept = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose().map_err(during(OPERATION))?;
        Ok(kept.unwrap_or(0).unsigned_abs())
    }

    pub(crate) async fn select_part(&mut self, name: &str, number: u32) -> Done<Option<Vec<u8>>> {
        const OPERATION: &str = "read a part of a checkpoint";
        let sql = "SELECT bytes FROM checkpoint_parts WHERE name = $1 AND number = $2";
        let rows = self.query(OPERATION, sql, &[&name, &i64::from(number)]).await?;
        rows.first().map(|row| row.try_get(0)).transpose().map_err(during(OPERATION))
    }

    pub(crate) async fn write_instance(&mut self, instance: &Instance) -> Done<()> {
        let sql = "INSERT INTO schedulers (id, url, seen_at) VALUES ($1, $2, $3) \
                   ON CONFLICT (id) DO UPDATE SET url = excluded.url, seen_at = excluded.seen_at";
        let (id, url) = (storable(&instance.id), storable(&instance.url));
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&id, &url, &instance.seen_at.as_micros()];
        self.execute("note a scheduler", sql, &values).await.map(|_| ())
    }

    pub(crate) async fn select_instances(&mut self) -> Done<Vec<Instance>> {
        const OPERATION: &str = "read schedulers";
        let rows = self.query(OPERATION, "SELECT id, url, seen_at FROM schedulers ORDER BY id", &[]).await?;
        let read = |row: &tokio_postgres::Row| {
            let fail = during(OPERATION);
            Ok(Instance {
                id: row.try_get(0).map_err(&fail)?,
                url: row.try_get(1).map_err(&fail)?,
                seen_at: Timestamp::from_micros(row.try_get(2).map_err(&fail)?),
            })
        };
        rows.iter().map(read).collect()
    }
}
