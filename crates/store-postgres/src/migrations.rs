//! Brings a database of any earlier version up to date, one numbered step after another.
//!
//! All missing steps and their records commit together. Instances that start at the same time wait for
//! each other. A step that was published never changes; a change of the schema is a new step and a new
//! `schema.sql`.

use deadpool_postgres::{Client, Object, Transaction};
use muster_store::StoreError;

use crate::error::during;
use crate::tx::Done;

#[derive(Debug)]
struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "initial", sql: include_str!("../migrations/0001_initial.sql") },
    Migration {
        version: 2,
        name: "waiting_and_gates",
        sql: include_str!("../migrations/0002_waiting_and_gates.sql"),
    },
    Migration { version: 3, name: "webhooks", sql: include_str!("../migrations/0003_webhooks.sql") },
    Migration {
        version: 4,
        name: "lists_beside_history",
        sql: include_str!("../migrations/0004_lists_beside_history.sql"),
    },
    Migration { version: 5, name: "gangs", sql: include_str!("../migrations/0005_gangs.sql") },
    Migration { version: 6, name: "kept_room", sql: include_str!("../migrations/0006_kept_room.sql") },
    Migration { version: 7, name: "quotas", sql: include_str!("../migrations/0007_quotas.sql") },
    Migration { version: 8, name: "ranks", sql: include_str!("../migrations/0008_ranks.sql") },
    Migration { version: 9, name: "run_times", sql: include_str!("../migrations/0009_run_times.sql") },
    Migration {
        version: 10,
        name: "finished_tasks",
        sql: include_str!("../migrations/0010_finished_tasks.sql"),
    },
    Migration {
        version: 11,
        name: "leader_leases",
        sql: include_str!("../migrations/0011_leader_leases.sql"),
    },
    Migration { version: 12, name: "leases", sql: include_str!("../migrations/0012_leases.sql") },
    Migration { version: 13, name: "schedulers", sql: include_str!("../migrations/0013_schedulers.sql") },
    Migration { version: 14, name: "records", sql: include_str!("../migrations/0014_records.sql") },
    Migration { version: 15, name: "events_by", sql: include_str!("../migrations/0015_events_by.sql") },
    Migration { version: 16, name: "usage", sql: include_str!("../migrations/0016_usage.sql") },
    Migration { version: 17, name: "artifacts", sql: include_str!("../migrations/0017_artifacts.sql") },
    Migration {
        version: 18,
        name: "artifact_removal",
        sql: include_str!("../migrations/0018_artifact_removal.sql"),
    },
    Migration { version: 19, name: "moved_output", sql: include_str!("../migrations/0019_moved_output.sql") },
];

/// The key under which instances wait for each other; "muster" in ASCII.
const LOCK: i64 = 0x6d75_7374_6572;

const RECORD: &str = "CREATE TABLE IF NOT EXISTS schema_migrations ( \
    version bigint PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())";

/// Applies what is missing. A database that a newer program has upgraded is refused.
pub(crate) async fn migrate(mut client: Client) -> Done<()> {
    let result = migrate_on(&mut client).await;
    if result.is_err() {
        // Whatever state the connection is in, nobody else should get it.
        drop(Object::take(client));
    }
    result
}

async fn migrate_on(client: &mut Client) -> Done<()> {
    let fail = during("migrate");
    let transaction = client.transaction().await.map_err(&fail)?;
    // An upgrade takes as long as it takes. Nobody is told that the record exists already.
    let set_up = format!(
        "SET LOCAL statement_timeout = 0; SET LOCAL client_min_messages = warning; \
         SELECT pg_advisory_xact_lock({LOCK}); {RECORD}"
    );
    transaction.batch_execute(&set_up).await.map_err(&fail)?;
    let known = MIGRATIONS.last().map_or(0, |last| last.version);
    let sql = "SELECT coalesce(max(version), 0) FROM schema_migrations";
    let row = transaction.query_one(sql, &[]).await.map_err(&fail)?;
    let found: i64 = row.try_get(0).map_err(&fail)?;
    if found > known {
        return Err(StoreError::SchemaTooNew { found, known });
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        apply(&transaction, migration).await?;
    }
    transaction.commit().await.map_err(&fail)
}

async fn apply(transaction: &Transaction<'_>, migration: &Migration) -> Done<()> {
    let fail = during("migrate");
    transaction.batch_execute(migration.sql).await.map_err(&fail)?;
    let record = "INSERT INTO schema_migrations (version, name) VALUES ($1, $2)";
    transaction.execute(record, &[&migration.version, &migration.name]).await.map_err(&fail)?;
    tracing::info!(version = migration.version, name = migration.name, "the schema was upgraded");
    Ok(())
}

#[cfg(test)]
mod tests {
    use muster_pg_testkit::{Database, Postgres};

    use super::*;
    use crate::pool::{self, PostgresOptions};

    async fn client(database: &Database<'_>) -> Client {
        let options = PostgresOptions::default();
        let pool = pool::build(pool::configure(&database.url(), &options).unwrap(), &options).unwrap();
        pool.get().await.unwrap()
    }

    /// Every column, every index, every constraint and every setting of a table.
    fn describe(database: &Database<'_>) -> Vec<String> {
        let text = database.execute(
            "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' \
                 || coalesce(column_default, '') || ' ' || coalesce(collation_name, '') \
             FROM information_schema.columns \
             WHERE table_schema = 'public' AND table_name <> 'schema_migrations' \
             UNION ALL SELECT indexdef FROM pg_indexes \
             WHERE schemaname = 'public' AND tablename <> 'schema_migrations' \
             UNION ALL SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) \
             FROM pg_constraint \
             WHERE connamespace = 'public'::regnamespace AND conrelid::regclass::text <> 'schema_migrations' \
             UNION ALL SELECT relname || ' ' || relkind::text || ' ' || coalesce(reloptions::text, '') \
             FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'schema_migrations%' \
             ORDER BY 1",
        );
        text.lines().map(str::to_owned).collect()
    }

    #[tokio::test]
    async fn upgrading_step_by_step_gives_the_current_schema() {
        let upgraded = Postgres::shared().database();
        let mut stepping = client(&upgraded).await;
        for migration in MIGRATIONS {
            let transaction = stepping.transaction().await.unwrap();
            transaction.batch_execute(RECORD).await.unwrap();
            apply(&transaction, migration).await.unwrap();
            transaction.commit().await.unwrap();
        }
        let current = Postgres::shared().database();
        client(&current).await.batch_execute(include_str!("../schema.sql")).await.unwrap();
        let (upgraded, current) = (describe(&upgraded), describe(&current));
        assert!(upgraded.len() > 70, "the description is complete: {upgraded:#?}");
        assert_eq!(upgraded, current);
    }

    #[tokio::test]
    async fn jobs_that_wait_keep_their_order_when_they_get_ranks() {
        let database = Postgres::shared().database();
        let mut client = client(&database).await;
        let transaction = client.transaction().await.unwrap();
        transaction.batch_execute(RECORD).await.unwrap();
        for migration in &MIGRATIONS[..7] {
            apply(&transaction, migration).await.unwrap();
        }
        let jobs = "INSERT INTO jobs (seq, id, status, priority, shape, attempts, lease, preemption_epoch, \
            reservation_epoch, created_at, ready_at, spec) \
            SELECT seq, md5(seq::text)::uuid, 'pending', priority, 0, 0, 0, 0, 0, 0, 0, '{}' FROM (VALUES \
            (1, 0), (2, 7), (3, -2147483648), (4, 7), (5, 2147483647), (6, -1), (7, 0)) AS new (seq, priority)";
        transaction.batch_execute(jobs).await.unwrap();
        apply(&transaction, &MIGRATIONS[7]).await.unwrap();
        let rows = transaction.query("SELECT seq, rank FROM jobs ORDER BY rank, seq", &[]).await.unwrap();
        let rows: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(rows.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [5, 2, 4, 1, 7, 6, 3]);
        assert_eq!((rows[1].1, rows[3].1), (((1 << 31) - 8) << 8 | 1, ((1 << 31) - 1) << 8 | 1));
    }

    #[tokio::test]
    async fn a_second_run_changes_nothing() {
        let database = Postgres::shared().database();
        migrate(client(&database).await).await.unwrap();
        let before = (describe(&database), database.execute("SELECT * FROM schema_migrations"));
        migrate(client(&database).await).await.unwrap();
        assert_eq!((describe(&database), database.execute("SELECT * FROM schema_migrations")), before);
    }

    #[test]
    fn versions_count_up_from_one() {
        let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=MIGRATIONS.len() as i64).collect::<Vec<_>>());
    }
}
