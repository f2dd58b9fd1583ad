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

const MIGRATIONS: &[Migration] =
    &[Migration { version: 1, name: "initial", sql: include_str!("../migrations/0001_initial.sql") }];

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
