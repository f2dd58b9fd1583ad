//! The leases of leaders: one row for each role.
//!
//! Guarantee: a takeover and a pass under the old term never commit both in that order, since a pass shares the key of
//! the row (`FOR KEY SHARE`) until it ends, and a takeover locks the row whole (`FOR UPDATE`). A renewal changes no
//! key, so that it waits for neither. Takeovers and renewals skip what is locked instead of waiting for it.

use muster_domain::{LeaderLease, Role, Timestamp};
use muster_store::LeaseLock;
use tokio_postgres::Row;

use crate::error::{corrupt, during};
use crate::tx::{Done, PostgresTx};

impl PostgresTx {
    pub(crate) async fn select_leader_leases(&mut self) -> Done<Vec<LeaderLease>> {
        let sql = "SELECT role, holder, term, expires_at FROM leader_leases ORDER BY role";
        self.query("read leader leases", sql, &[]).await?.iter().filter_map(read).collect()
    }

    pub(crate) async fn select_and_lock_leader_leases(
        &mut self,
        roles: &[Role],
        lock: LeaseLock,
    ) -> Done<Vec<LeaderLease>> {
        let strength = match lock {
            LeaseLock::Pass => "FOR KEY SHARE",
            LeaseLock::Renew => "FOR NO KEY UPDATE SKIP LOCKED",
            LeaseLock::TakeOver => "FOR UPDATE SKIP LOCKED",
        };
        let sql = format!(
            "SELECT role, holder, term, expires_at FROM leader_leases WHERE role = ANY($1) ORDER BY role {strength}"
        );
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        self.query("lock leader leases", &sql, &[&names]).await?.iter().filter_map(read).collect()
    }

    pub(crate) async fn write_leader_leases(&mut self, leases: &[LeaderLease]) -> Done<()> {
        let roles: Vec<&str> = leases.iter().map(|lease| lease.role.name()).collect();
        let holders: Vec<&str> = leases.iter().map(|lease| lease.holder.as_str()).collect();
        let terms: Vec<i64> = leases.iter().map(|lease| lease.term as i64).collect();
        let ends: Vec<i64> = leases.iter().map(|lease| lease.expires_at.as_micros()).collect();
        let sql = "UPDATE leader_leases SET holder = new.holder, term = new.term, expires_at = new.expires_at \
                   FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) \
                   AS new (role, holder, term, expires_at) WHERE leader_leases.role = new.role";
        self.execute("put leader leases", sql, &[&roles, &holders, &terms, &ends]).await?;
        Ok(())
    }
}

/// One lease; `None` for a role that this version does not know.
fn read(row: &Row) -> Option<Done<LeaderLease>> {
    let fail = during("read leader leases");
    let lease = || {
        let name: &str = row.try_get(0).map_err(&fail)?;
        let Some(role) = Role::named(name) else { return Ok(None) };
        let term: i64 = row.try_get(2).map_err(&fail)?;
        Ok(Some(LeaderLease {
            role,
            holder: row.try_get(1).map_err(&fail)?,
            term: u64::try_from(term).map_err(|_| corrupt(name, "its term is negative"))?,
            expires_at: Timestamp::from_micros(row.try_get(3).map_err(&fail)?),
        }))
    };
    lease().transpose()
}
