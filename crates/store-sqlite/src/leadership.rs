//! The leases of leaders. Only the process that has the file open can lead, so they live in a temporary table of its
//! connection: a renewal writes nothing to the disk, and the next process leads at once.

use muster_domain::{LeaderLease, Role, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::during;
use crate::tx::{Done, SqliteTx};

/// Makes the table on the connection that writes.
pub(crate) fn prepare(connection: &Connection) -> Done<()> {
    let sql = "CREATE TEMPORARY TABLE leader_leases \
               (role TEXT PRIMARY KEY, holder TEXT NOT NULL, term INTEGER NOT NULL, expires_at INTEGER NOT NULL)";
    connection.execute_batch(sql).map_err(during("open"))
}

impl SqliteTx<'_> {
    pub(crate) fn select_leader_leases(&self, roles: &[Role]) -> Done<Vec<LeaderLease>> {
        let fail = during("read leader leases");
        let sql = "SELECT holder, term, expires_at FROM temp.leader_leases WHERE role = ?1";
        let mut statement = self.statement("read leader leases", sql)?;
        let mut leases = Vec::with_capacity(roles.len());
        for role in roles {
            let found = statement.query_row([role.name()], |row| {
                Ok(LeaderLease {
                    role: *role,
                    holder: row.get(0)?,
                    term: row.get::<_, i64>(1)?.unsigned_abs(),
                    expires_at: Timestamp::from_micros(row.get(2)?),
                })
            });
            leases.push(found.optional().map_err(&fail)?.unwrap_or_else(|| LeaderLease::vacant(*role)));
        }
        Ok(leases)
    }

    pub(crate) fn write_leader_leases(&self, leases: &[LeaderLease]) -> Done<()> {
        const OPERATION: &str = "put leader leases";
        let sql = "INSERT OR REPLACE INTO temp.leader_leases (role, holder, term, expires_at) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.statement(OPERATION, sql)?;
        for lease in leases {
            let values =
                params![lease.role.name(), lease.holder, lease.term as i64, lease.expires_at.as_micros()];
            statement.execute(values).map_err(during(OPERATION))?;
        }
        Ok(())
    }
}
