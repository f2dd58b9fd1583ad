//! Workers, and the secret that schedulers share.

use muster_domain::{Worker, WorkerId};
use muster_store::row::Stock;

use crate::error::{during, failed};
use crate::row::{self, WORKER_COLUMNS, storable, storable_option, to_json, worker_names};
use crate::tx::{Done, PostgresTx};

const PUT: &str = "INSERT INTO workers (id, exec_addr, resources, tags, slots, hostname, version, status, \
    last_heartbeat, registered_at, health, ports, kept) \
    SELECT id, exec_addr, resources, tags, slots, hostname, version, status, last_heartbeat, registered_at, health, \
    ports, kept \
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], \
    $8::text[], $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[]) AS new (id, exec_addr, resources, \
    tags, slots, hostname, version, status, last_heartbeat, registered_at, health, ports, kept) ORDER BY id \
    ON CONFLICT (id) DO UPDATE SET exec_addr = excluded.exec_addr, resources = excluded.resources, \
    tags = excluded.tags, slots = excluded.slots, hostname = excluded.hostname, version = excluded.version, \
    status = excluded.status, last_heartbeat = excluded.last_heartbeat, registered_at = excluded.registered_at, \
    health = excluded.health, ports = excluded.ports, kept = excluded.kept";

fn column<'w, T>(workers: &'w [Worker], value: impl Fn(&'w Worker) -> T) -> Vec<T> {
    workers.iter().map(value).collect()
}

impl PostgresTx {
    pub(crate) async fn select_and_lock_workers(&mut self, ids: &[WorkerId]) -> Done<Vec<Worker>> {
        let sql = format!("SELECT {WORKER_COLUMNS} FROM workers WHERE id = ANY($1) ORDER BY id FOR UPDATE");
        let rows = self.query("lock workers", &sql, &[&worker_names(ids)]).await?;
        rows.iter().map(row::read_worker).collect()
    }

    pub(crate) async fn select_workers(&mut self) -> Done<Vec<Worker>> {
        let sql = format!("SELECT {WORKER_COLUMNS} FROM workers ORDER BY id");
        let rows = self.query("read workers", &sql, &[]).await?;
        rows.iter().map(row::read_worker).collect()
    }

    pub(crate) async fn write_workers(&mut self, workers: &[Worker]) -> Done<()> {
        let resources =
            workers.iter().map(|worker| to_json(&Stock::from(worker))).collect::<Done<Vec<_>>>()?;
        let tags = workers.iter().map(|worker| to_json(&worker.tags)).collect::<Done<Vec<_>>>()?;
        let health =
            |worker: &Worker| (!worker.health.is_clean()).then(|| to_json(&worker.health)).transpose();
        let ports = |worker: &Worker| (!worker.ports.is_empty()).then(|| to_json(&worker.ports)).transpose();
        let ports = workers.iter().map(ports).collect::<Done<Vec<Option<String>>>>()?;
        let kept = |worker: &Worker| worker.kept.as_ref().map(to_json).transpose();
        let kept = workers.iter().map(kept).collect::<Done<Vec<Option<String>>>>()?;
        let health = workers.iter().map(health).collect::<Done<Vec<Option<String>>>>()?;
        self.execute(
            "put workers",
            PUT,
            &[
                &column(workers, |worker| storable(worker.id.as_str())),
                &column(workers, |worker| storable(&worker.exec_addr)),
                &resources,
                &tags,
                &column(workers, |worker| worker.slots.map(i64::from)),
                &column(workers, |worker| storable_option(&worker.hostname)),
                &column(workers, |worker| storable_option(&worker.version)),
                &column(workers, |worker| worker.status.as_str()),
                &column(workers, |worker| worker.last_heartbeat.as_micros()),
                &column(workers, |worker| worker.registered_at.as_micros()),
                &health,
                &ports,
                &kept,
            ],
        )
        .await?;
        Ok(())
    }

    pub(crate) async fn keep_secret(&mut self, proposal: &str) -> Done<String> {
        const OPERATION: &str = "keep the secret";
        let sql = "INSERT INTO secrets (name, value) VALUES ('tokens', $1) ON CONFLICT DO NOTHING";
        self.execute(OPERATION, sql, &[&proposal]).await?;
        let rows = self.query(OPERATION, "SELECT value FROM secrets WHERE name = 'tokens'", &[]).await?;
        let value = rows.first().map(|row| row.try_get(0)).transpose().map_err(during(OPERATION))?;
        value.ok_or_else(|| failed(OPERATION, "it is not there".to_owned()))
    }
}
