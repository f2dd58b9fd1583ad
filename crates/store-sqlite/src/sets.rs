//! Pipelines and arrays.

use muster_domain::{JobSet, SetId, SetKind, Status, Timestamp};
use muster_store::{SetCount, SetFilter};
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};
use uuid::Uuid;

use crate::error::{corrupt, during};
use crate::row::{from_json, to_json};
use crate::tx::{Done, SqliteTx};

const COLUMNS: &str = "seq, id, kind, name, created_at, size, max_parallel, idempotency_key, outline";

fn id_bytes(id: SetId) -> [u8; 16] {
    id.as_uuid().into_bytes()
}

impl SqliteTx<'_> {
    pub(crate) fn insert_new_sets(&mut self, sets: &mut [JobSet]) -> Done<()> {
        const OPERATION: &str = "insert sets";
        let first = self.number_sets(sets.len())?;
        let sql = format!("INSERT INTO sets ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
        let mut statement = self.statement(OPERATION, &sql)?;
        for (seq, set) in (first..).zip(sets) {
            set.seq = seq as u64;
            let outline = to_json(&set.outline)?;
            let inserted = statement.execute(params![
                seq,
                id_bytes(set.id),
                set.kind.as_str(),
                set.name,
                set.created_at.as_micros(),
                set.size,
                set.max_parallel,
                set.idempotency_key,
                outline,
            ]);
            inserted.map_err(during(OPERATION))?;
        }
        Ok(())
    }

    pub(crate) fn select_sets_by_id(&self, ids: &[SetId]) -> Done<Vec<JobSet>> {
        let sql = format!("SELECT {COLUMNS} FROM sets WHERE id = ?1");
        self.rows_of_each("read sets", &sql, ids.iter().map(|id| [id_bytes(*id)]), read_set)
    }

    pub(crate) fn write_sets(&self, sets: &[JobSet]) -> Done<()> {
        let sql = "UPDATE sets SET size = ?2, outline = ?3 WHERE seq = ?1";
        let mut statement = self.statement("update sets", sql)?;
        for set in sets {
            let outline = to_json(&set.outline)?;
            statement.execute(params![set.seq as i64, set.size, outline]).map_err(during("update sets"))?;
        }
        Ok(())
    }

    pub(crate) fn select_sets(&self, filter: &SetFilter) -> Done<Vec<JobSet>> {
        let mut conditions = vec!["true".to_owned()];
        let mut values: Vec<Value> = Vec::new();
        let mut add = |condition: &str, value: Value| {
            values.push(value);
            conditions.push(condition.replace('?', &format!("?{}", values.len())));
        };
        if let Some(kind) = filter.kind {
            add("kind = ?", kind.as_str().to_owned().into());
        }
        if let Some(key) = &filter.idempotency_key {
            add("idempotency_key = ?", key.clone().into());
        }
        if let Some(before) = filter.before_seq {
            add("seq < ?", i64::try_from(before).unwrap_or(i64::MAX).into());
        }
        if !filter.ids.is_empty() {
            let ids: Vec<String> =
                filter.ids.iter().map(|id| format!("x'{}'", id.as_uuid().simple())).collect();
            conditions.push(format!("id IN ({})", ids.join(", ")));
        }
        let limit = filter.limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
        let sql = format!(
            "SELECT {COLUMNS} FROM sets WHERE {} ORDER BY seq DESC LIMIT {limit}",
            conditions.join(" AND ")
        );
        self.rows("list sets", &sql, params_from_iter(values.iter()), read_set)
    }

    pub(crate) fn count_members(&self, ids: &[SetId]) -> Done<Vec<SetCount>> {
        let sql = "SELECT set_id, step, status, status = 'cancelled' AND reason LIKE '{\"Skipped\"%', \
                   count(*), min(started_at), max(done_at) FROM jobs INDEXED BY jobs_of_step \
                   WHERE set_id = ?1 GROUP BY set_id, step, status, 4";
        self.rows_of_each("count members", sql, ids.iter().map(|id| [id_bytes(*id)]), read_count)
    }

    pub(crate) fn remove_empty_sets(&self, before: Timestamp, limit: usize) -> Done<u32> {
        const OPERATION: &str = "delete empty sets";
        let sql = "DELETE FROM sets WHERE seq IN (SELECT seq FROM sets WHERE created_at < ?1 \
                   AND NOT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_by_set WHERE jobs.set_id = sets.id) LIMIT ?2)";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.statement(OPERATION, sql)?;
        let removed = statement.execute(params![before.as_micros(), limit]).map_err(during(OPERATION))?;
        Ok(removed as u32)
    }
}

fn read_set(row: &Row<'_>) -> Done<JobSet> {
    let fail = during("read a set");
    let id = SetId::from_uuid(Uuid::from_bytes(row.get(1).map_err(&fail)?));
    let kind: String = row.get(2).map_err(&fail)?;
    let outline: String = row.get(8).map_err(&fail)?;
    Ok(JobSet {
        seq: row.get::<_, i64>(0).map_err(&fail)? as u64,
        kind: SetKind::parse(&kind).ok_or_else(|| corrupt(id.to_string(), format!("kind {kind:?}")))?,
        name: row.get(3).map_err(&fail)?,
        created_at: Timestamp::from_micros(row.get(4).map_err(&fail)?),
        size: row.get(5).map_err(&fail)?,
        max_parallel: row.get(6).map_err(&fail)?,
        idempotency_key: row.get(7).map_err(&fail)?,
        outline: from_json(&outline, &id.to_string())?,
        id,
    })
}

fn read_count(row: &Row<'_>) -> Done<SetCount> {
    let fail = during("count members");
    let set = SetId::from_uuid(Uuid::from_bytes(row.get(0).map_err(&fail)?));
    let status: String = row.get(2).map_err(&fail)?;
    let time = |column| {
        row.get::<_, Option<i64>>(column).map(|micros| micros.map(Timestamp::from_micros)).map_err(&fail)
    };
    Ok(SetCount {
        set,
        step: row.get(1).map_err(&fail)?,
        status: Status::parse(&status)
            .ok_or_else(|| corrupt(set.to_string(), format!("status {status:?}")))?,
        skipped: row.get::<_, Option<bool>>(3).map_err(&fail)?.unwrap_or(false),
        jobs: row.get::<_, i64>(4).map_err(&fail)? as u64,
        first_start: time(5)?,
        last_end: time(6)?,
    })
}
