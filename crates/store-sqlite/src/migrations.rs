//! Brings a file of any earlier version up to date, one numbered step after another.
//!
//! Each step and its record commit together, so that an interrupted upgrade goes on where it stopped. A
//! step that was published never changes; a change of the schema is a new step and a new `schema.sql`.

use muster_store::StoreError;
use rusqlite::{Connection, params};

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
        name: "conditions_without_lists",
        sql: include_str!("../migrations/0010_conditions_without_lists.sql"),
    },
    Migration {
        version: 11,
        name: "finished_tasks",
        sql: include_str!("../migrations/0011_finished_tasks.sql"),
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

const RECORD: &str = "CREATE TABLE IF NOT EXISTS schema_migrations ( \
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL DEFAULT (unixepoch())) STRICT";

/// Applies what is missing. A file that a newer program has written is refused.
pub(crate) fn migrate(connection: &mut Connection) -> Done<()> {
    let known = MIGRATIONS.last().map_or(0, |last| last.version);
    let found = version(connection)?;
    if found > known {
        return Err(StoreError::SchemaTooNew { found, known });
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        apply(connection, migration)?;
    }
    Ok(())
}

/// The version of the file; 0 when it is empty.
fn version(connection: &Connection) -> Done<i64> {
    let fail = during("read the schema version");
    let sql = "SELECT count(*) FROM sqlite_master WHERE name = 'schema_migrations'";
    let recorded: i64 = connection.query_row(sql, [], |row| row.get(0)).map_err(&fail)?;
    if recorded == 0 {
        return Ok(0);
    }
    let sql = "SELECT coalesce(max(version), 0) FROM schema_migrations";
    connection.query_row(sql, [], |row| row.get(0)).map_err(&fail)
}

fn apply(connection: &mut Connection, migration: &Migration) -> Done<()> {
    let fail = during("migrate");
    let transaction = connection.transaction().map_err(&fail)?;
    transaction.execute_batch(RECORD).map_err(&fail)?;
    transaction.execute_batch(migration.sql).map_err(&fail)?;
    let record = "INSERT INTO schema_migrations (version, name) VALUES (?1, ?2)";
    transaction.execute(record, params![migration.version, migration.name]).map_err(&fail)?;
    transaction.commit().map_err(&fail)?;
    tracing::info!(version = migration.version, name = migration.name, "the schema was upgraded");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every table with its columns, every index with its definition, and the rows that a new file has.
    fn describe(connection: &Connection) -> Vec<String> {
        let texts = |sql: &str| -> Vec<String> {
            let mut statement = connection.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let mut lines = texts(
            "SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c.\"notnull\" || ' ' || c.pk || ' ' \
             || coalesce(c.dflt_value, '') FROM sqlite_master m, pragma_table_xinfo(m.name) c \
             WHERE m.type = 'table' AND m.name NOT IN ('schema_migrations', 'sqlite_sequence') \
             ORDER BY m.name, c.name",
        );
        let indexes =
            texts("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql NOT NULL ORDER BY name");
        lines.extend(indexes.iter().map(|sql| sql.split_whitespace().collect::<Vec<_>>().join(" ")));
        lines.extend(texts("SELECT kind || ' ' || last FROM numbers ORDER BY kind"));
        lines
    }

    #[test]
    fn upgrading_step_by_step_gives_the_current_schema() {
        let mut upgraded = Connection::open_in_memory().unwrap();
        for migration in MIGRATIONS {
            apply(&mut upgraded, migration).unwrap();
        }
        let current = Connection::open_in_memory().unwrap();
        current.execute_batch(include_str!("../schema.sql")).unwrap();
        let (upgraded, current) = (describe(&upgraded), describe(&current));
        assert!(upgraded.len() > 50, "the description is complete: {upgraded:?}");
        assert_eq!(upgraded, current);
    }

    #[test]
    fn jobs_that_wait_keep_their_order_when_they_get_ranks() {
        let mut connection = Connection::open_in_memory().unwrap();
        for migration in &MIGRATIONS[..7] {
            apply(&mut connection, migration).unwrap();
        }
        for (seq, priority) in [(1, 0), (2, 7), (3, i32::MIN), (4, 7), (5, i32::MAX), (6, -1), (7, 0)] {
            let sql = "INSERT INTO jobs (seq, id, status, priority, shape, attempts, lease, preemption_epoch, \
                reservation_epoch, created_at, ready_at, spec) \
                VALUES (?1, ?2, 'pending', ?3, 0, 0, 0, 0, 0, 0, 0, '{}')";
            connection.execute(sql, params![seq, [seq as u8; 16], priority]).unwrap();
        }
        migrate(&mut connection).unwrap();
        let mut statement = connection.prepare("SELECT seq, rank FROM jobs ORDER BY rank, seq").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows: Vec<(i64, i64)> = rows.map(Result::unwrap).collect();
        assert_eq!(rows.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), [5, 2, 4, 1, 7, 6, 3]);
        // What the planner gives a job of priority 7 and one of priority 0 that have had no service.
        assert_eq!((rows[1].1, rows[3].1), (((1 << 31) - 8) << 8 | 1, ((1 << 31) - 1) << 8 | 1));
    }

    #[test]
    fn versions_count_up_from_one() {
        let versions: Vec<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=MIGRATIONS.len() as i64).collect::<Vec<_>>());
    }

    #[test]
    fn a_second_run_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        let changes = connection.total_changes();
        let before = describe(&connection);
        migrate(&mut connection).unwrap();
        assert_eq!(connection.total_changes(), changes);
        assert_eq!(describe(&connection), before);
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        connection.execute("INSERT INTO schema_migrations (version, name) VALUES (99, 'later')", []).unwrap();
        let error = migrate(&mut connection).unwrap_err();
        assert!(
            matches!(error, StoreError::SchemaTooNew { found: 99, known } if known == MIGRATIONS.len() as i64),
            "{error}"
        );
    }
}
