//! Leadership: granting it, and refusing what is done under a term that is over.
//!
//! Guarantee: a pass of a leader takes effect only if no other one leads when its transaction commits, since the lease
//! is locked against a takeover until then. What else is in the batch is not concerned.

use std::collections::BTreeSet;

use muster_domain::leadership::Claim;
use muster_domain::{Bid, LeaderLease, LeaderTerm, Rejection, Role, Timestamp};

use crate::applied::Applied;
use crate::command::{Answer, Command, Outcome};
use crate::error::StoreError;
use crate::tx::{LeaseLock, Tx};

/// Whether a batch has to do with leadership at all; most have not.
pub(super) fn concerns(commands: &[Command]) -> bool {
    commands.iter().any(|command| matches!(command, Command::Lead(_) | Command::Led { .. }))
}

/// The part of a batch that is left to do, and the answers to the rest.
pub(super) struct Admitted {
    pub(super) commands: Vec<Command>,
    /// For each command of the whole batch its answer, or `None` when it is left to do.
    answered: Vec<Option<Answer>>,
}

impl Admitted {
    /// The answers to the whole batch, in its order.
    pub(super) fn complete(self, applied: Applied) -> Applied {
        let mut rest = applied.answers.into_iter();
        let answers = self.answered.into_iter().filter_map(|answer| answer.or_else(|| rest.next())).collect();
        Applied { answers, ..applied }
    }
}

/// Answers the bids, and what is done under a term that is over.
pub(super) async fn admit<T: Tx>(
    tx: &mut T,
    now: Timestamp,
    commands: &[Command],
) -> Result<Admitted, StoreError> {
    let mut answered: Vec<Option<Answer>> = vec![None; commands.len()];
    for (answer, command) in answered.iter_mut().zip(commands) {
        if let Command::Lead(bid) = command {
            *answer = Some(Ok(Outcome::Leads(lead(tx, now, bid).await?)));
        }
    }
    let led = |command: &Command| match command {
        Command::Led { leader, .. } => Some(leader.role),
        _ => None,
    };
    // In one order, as all locks are taken.
    let roles: BTreeSet<Role> = commands.iter().filter_map(led).collect();
    let leases = if roles.is_empty() {
        Vec::new()
    } else {
        tx.lock_leader_leases(&roles.into_iter().collect::<Vec<_>>(), LeaseLock::Pass).await?
    };
    let mut left = Vec::with_capacity(commands.len());
    for (answer, command) in answered.iter_mut().zip(commands) {
        match command {
            Command::Led { leader, pass } => match judge(&leases, *leader) {
                Ok(()) => left.push(pass.bare().clone()),
                Err(rejection) => *answer = Some(Err(rejection)),
            },
            Command::Lead(_) => {}
            other => left.push(other.clone()),
        }
    }
    Ok(Admitted { commands: left, answered })
}

fn judge(leases: &[LeaderLease], leader: LeaderTerm) -> Result<(), Rejection> {
    let lost = Rejection::LeadershipLost { role: leader.role.name(), given: leader.term, current: 0 };
    leases.iter().find(|lease| lease.role == leader.role).ok_or(lost)?.admits(leader)
}

/// Grants what is free or the bidder's own. What it leads afterwards.
async fn lead<T: Tx>(tx: &mut T, now: Timestamp, bid: &Bid) -> Result<Vec<LeaderTerm>, StoreError> {
    let known = tx.leader_leases().await?;
    let mut granted = Vec::new();
    for (claim, lock) in [(Claim::Renew, LeaseLock::Renew), (Claim::TakeOver, LeaseLock::TakeOver)] {
        let wanted =
            |lease: &&LeaderLease| bid.roles.contains(&lease.role) && lease.claim(bid, now) == Some(claim);
        let roles: Vec<Role> = known.iter().filter(wanted).map(|lease| lease.role).collect();
        if roles.is_empty() {
            continue;
        }
        let locked = tx.lock_leader_leases(&roles, lock).await?;
        // Another one may have been quicker.
        let still = locked.iter().filter(|lease| lease.claim(bid, now) == Some(claim));
        granted.extend(still.map(|lease| lease.granted(claim, bid, now)));
    }
    if !granted.is_empty() {
        tx.put_leader_leases(&granted).await?;
    }
    let leads = granted.iter().filter(|lease| lease.expires_at > now);
    Ok(leads.map(|lease| LeaderTerm { role: lease.role, term: lease.term }).collect())
}
