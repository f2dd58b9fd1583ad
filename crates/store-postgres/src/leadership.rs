//! One instance at a time runs a loop: an advisory lock, held by a transaction that does nothing else.
//!
//! The connection is taken out of the pool and closed when the leadership is dropped, on any thread and
//! also outside a runtime; the server then rolls the transaction back, which frees the lock. The same
//! happens when the process is killed.

use deadpool_postgres::Client;
use muster_store::{Leadership, Role};

use crate::error::during;
use crate::tx::{Done, PostgresTx, Scope};

/// Tries to take the lock of `role`; the connection goes back to the pool when another instance has it.
pub(crate) async fn lead(client: Client, role: Role) -> Done<Option<Leadership>> {
    let mut tx = PostgresTx::new(client, Scope::Write);
    let rows = tx.query("lead", "SELECT pg_try_advisory_xact_lock($1)", &[&role.lock_id()]).await?;
    let granted = rows.first().map(|row| row.try_get(0)).transpose().map_err(during("lead"))?;
    if granted == Some(true) {
        return Ok(Some(Leadership::holding(tx.detach())));
    }
    tx.roll_back().await;
    Ok(None)
}
