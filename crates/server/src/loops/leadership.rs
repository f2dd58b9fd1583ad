//! Asks for leadership again and again: renews what this instance leads, takes over what nobody leads any more.
//!
//! Guarantee: a role whose leader is gone is led again within its lease and two bids. A pass that takes long costs nobody
//! the leadership, since leases are renewed beside the passes.

use std::sync::Arc;
use std::time::Duration;

use muster_domain::{Bid, Role, Span};
use muster_store::{Command, Outcome, StoreExt};
use tokio::time::Instant;

use super::store_time;
use crate::app::App;
use crate::leadership::LEASE;

/// Between two bids.
const PAUSE: Duration = Duration::from_millis(500);
/// How long a bid is waited for; several fit into a lease.
const BOUND: Duration = Duration::from_millis(1_500);

/// Runs until `stop` resolves, and gives up what it leads then.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    loop {
        bid(app, LEASE).await;
        tokio::select! {
            biased;
            () = &mut stop => break,
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
    bid(app, Duration::ZERO).await;
}

/// The roles that this instance would play.
fn roles(app: &App) -> Vec<Role> {
    let plays = |role: &Role| *role != Role::Retention || super::retention::is_on(app);
    Role::ALL.into_iter().filter(plays).collect()
}

async fn bid(app: &App, lease: Duration) {
    let asked = Instant::now();
    match tokio::time::timeout(BOUND, ask(app, lease)).await {
        Ok(Ok(terms)) => {
            for leader in terms.iter().filter(|leader| app.leadership.term(leader.role) != Some(**leader)) {
                tracing::info!(role = leader.role.name(), term = leader.term, "this scheduler leads");
            }
            app.leadership.granted(&terms, asked + lease);
        }
        // What is led is led until its lease ends. Of an outage the log tells once.
        _ if app.health.outage().is_some() => {}
        Ok(Err(error)) => {
            app.metrics.store_error();
            tracing::warn!(%error, "leadership could not be asked for");
        }
        Err(_) => tracing::warn!("leadership could not be asked for in time"),
    }
    for role in Role::ALL {
        app.metrics.leads(role, app.leadership.term(role).is_some());
    }
}

async fn ask(app: &App, lease: Duration) -> Result<Vec<muster_domain::LeaderTerm>, muster_store::StoreError> {
    let clock = &app.config.clock;
    // Leases of all instances are compared, so nobody bids before its clock is known to be theirs.
    if !clock.is_settled() && !store_time::ask(app.store.as_ref(), clock, &app.health).await {
        return Ok(Vec::new());
    }
    let holder = Arc::from(app.instance_id.as_str());
    let bid = Bid { holder, roles: roles(app), lease: Span::from(lease) };
    match app.store.apply_one(clock.now(), Command::Lead(bid)).await?.0 {
        Ok(Outcome::Leads(terms)) => Ok(terms),
        other => {
            let source = format!("a bid was answered with {other:?}").into();
            Err(muster_store::StoreError::Failed { operation: "lead", source })
        }
    }
}
