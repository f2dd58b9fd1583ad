//! Clusters in one thread that go wrong as a seed says. There are two, and both check every transaction right after
//! its commit: the executable invariants hold, attempts are what the [`books`] say, no quota is exceeded, nobody was let
//! into room that is kept for others, nothing was heard under a lease that had ended, and what may take only so long has not taken longer. The first breach ends the
//! run with the steps that led to it. The same seed gives the same run.
//!
//! * [`run_live`] runs the scheduler as it is: the server's routes, batcher, dispatcher and loops, several instances on
//!   one store, with crashes, partitions, clocks that are set, slow and lossy ways to the store. It covers what
//!   depends on the order in which the parts of a scheduler, and several of them, do their work: which claims and
//!   reports share a transaction, who leads, what is woken, what is handed over to whom.
//! * [`Cluster`] drives the store's rules alone, one transaction after the other, with made-up schedulers. It is
//!   faster by far for each round of a gang and decides itself what shares a transaction, so that it is always known
//!   who has to pay: it covers gangs of 64 ranks through thousands of rounds.
//!
//! Workers are made up in both, and so is what they run. The real worker is tried in `tests/`.

mod books;
mod broken;
mod cluster;
mod faults;
mod happening;
mod leaders;
mod ledger;
mod live;
mod mail;
mod plan;
mod quotas;
mod random;
mod rooms;
mod scenarios;
mod seeds;
mod state;
mod trail;
mod transactions;
mod watch;
mod worker;

pub use broken::Broken;
pub use cluster::{Cluster, Settings};
pub use faults::Mischief;
pub use live::{LivePlan, LiveReport, run_live};
pub use mail::Network;
pub use plan::{GangPlan, JobPlan};
pub use random::Random;
pub use scenarios::{Scenario, Tally};
pub use seeds::{Runs, fresh_seed, runs, runs_with_fresh};
