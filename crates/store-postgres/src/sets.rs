//! Pipelines and arrays.

use muster_domain::{JobSet, SetId, SetKind, Status, Timestamp};
use muster_store::{SetCount, SetFilter};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::error::{corrupt, during};
use crate::row::{from_json, sql_limit, storable, storable_option, to_json};
use crate::tx::{Done, PostgresTx};

const COLUMNS: &str = "seq, id, kind, name, created_at, size, max_parallel, idempotency_key, outline";

fn uuids(ids: &[SetId]) -> Vec<Uuid> {
    ids.iter().map(SetId::as_uuid).collect()
}

impl PostgresTx {
    pub(crate) async fn insert_new_sets(&mut self, sets: &mut [JobSet]) -> Done<()> {
        const OPERATION: &str = "insert sets";
        let sql = "INSERT INTO sets (id, kind, name, created_at, size, max_parallel, idempotency_key, outline) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING seq";
        for set in sets {
            let outline = to_json(&set.outline)?;
            let values: [&(dyn ToSql + Sync); 8] = [
                &set.id.as_uuid(),
                &set.kind.as_str(),
                &storable_option(&set.name),
                &set.created_at.as_micros(),
                &i64::from(set.size),
                &set.max_parallel.map(i64::from),
                &storable_option(&set.idempotency_key),
                &outline,
            ];
            let rows = self.query(OPERATION, sql, &values).await?;
            let seq = rows.first().map(|row| row.try_get::<_, i64>(0)).transpose();
            set.seq = seq.map_err(during(OPERATION))?.unwrap_or_default() as u64;
        }
        Ok(())
    }

    pub(crate) async fn select_and_lock_sets(&mut self, ids: &[SetId]) -> Done<Vec<JobSet>> {
        let sql = format!("SELECT {COLUMNS} FROM sets WHERE id = ANY($1) ORDER BY id FOR UPDATE");
        let rows = self.query("lock sets", &sql, &[&uuids(ids)]).await?;
        rows.iter().map(read_set).collect()
    }

    pub(crate) async fn write_sets(&mut self, sets: &[JobSet]) -> Done<()> {
        let sql = "UPDATE sets SET size = $2, outline = $3 WHERE seq = $1";
        for set in sets {
            let outline = to_json(&set.outline)?;
            self.execute("update sets", sql, &[&(set.seq as i64), &i64::from(set.size), &outline]).await?;
        }
        Ok(())
    }

    pub(crate) async fn select_sets(&mut self, filter: &SetFilter) -> Done<Vec<JobSet>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM sets WHERE ($1::uuid[] IS NULL OR id = ANY($1)) \
             AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR idempotency_key = $3) \
             AND ($4::bigint IS NULL OR seq < $4) ORDER BY seq DESC LIMIT $5::bigint"
        );
        let ids = (!filter.ids.is_empty()).then(|| uuids(&filter.ids));
        let kind = filter.kind.map(SetKind::as_str);
        let key = filter.idempotency_key.as_deref().map(storable);
        let before = filter.before_seq.map(|before| i64::try_from(before).unwrap_or(i64::MAX));
        let limit = filter.limit.map(sql_limit);
        let rows = self.query("list sets", &sql, &[&ids, &kind, &key, &before, &limit]).await?;
        rows.iter().map(read_set).collect()
    }

    pub(crate) async fn count_members(&mut self, ids: &[SetId]) -> Done<Vec<SetCount>> {
        let sql = "SELECT set_id, step, status, \
                   status = 'cancelled' AND coalesce(reason, '') LIKE '{\"Skipped\"%' AS skipped, \
                   count(*), min(started_at), max(done_at) FROM jobs \
                   WHERE set_id = ANY($1) GROUP BY set_id, step, status, skipped";
        let rows = self.query("count members", sql, &[&uuids(ids)]).await?;
        rows.iter().map(read_count).collect()
    }

    pub(crate) async fn remove_empty_sets(&mut self, before: Timestamp, limit: usize) -> Done<u32> {
        let sql = "DELETE FROM sets WHERE seq IN (SELECT seq FROM sets WHERE created_at < $1 \
                   AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.set_id = sets.id) LIMIT $2)";
        let values: [&(dyn ToSql + Sync); 2] = [&before.as_micros(), &sql_limit(limit)];
        Ok(self.execute("delete empty sets", sql, &values).await? as u32)
    }
}

fn read_set(row: &Row) -> Done<JobSet> {
    let fail = during("read a set");
    let id = SetId::from_uuid(row.try_get(1).map_err(&fail)?);
    let kind: String = row.try_get(2).map_err(&fail)?;
    let outline: String = row.try_get(8).map_err(&fail)?;
    Ok(JobSet {
        seq: row.try_get::<_, i64>(0).map_err(&fail)? as u64,
        kind: SetKind::parse(&kind).ok_or_else(|| corrupt(id.to_string(), format!("kind {kind:?}")))?,
        name: row.try_get(3).map_err(&fail)?,
        created_at: Timestamp::from_micros(row.try_get(4).map_err(&fail)?),
        size: row.try_get::<_, i64>(5).map_err(&fail)? as u32,
        max_parallel: row.try_get::<_, Option<i64>>(6).map_err(&fail)?.map(|limit| limit as u32),
        idempotency_key: row.try_get(7).map_err(&fail)?,
        outline: from_json(&outline, &id.to_string())?,
        id,
    })
}

fn read_count(row: &Row) -> Done<SetCount> {
    let fail = during("count members");
    let set = SetId::from_uuid(row.try_get(0).map_err(&fail)?);
    let status: String = row.try_get(2).map_err(&fail)?;
    let time = |column: usize| {
        let micros = row.try_get::<_, Option<i64>>(column).map_err(&fail)?;
        Ok(micros.map(Timestamp::from_micros))
    };
    Ok(SetCount {
        set,
        step: row.try_get(1).map_err(&fail)?,
        status: Status::parse(&status)
            .ok_or_else(|| corrupt(set.to_string(), format!("status {status:?}")))?,
        skipped: row.try_get(3).map_err(&fail)?,
        jobs: row.try_get::<_, i64>(4).map_err(&fail)? as u64,
        first_start: time(5)?,
        last_end: time(6)?,
    })
}
