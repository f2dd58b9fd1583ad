//! A cluster in one thread: the real store and its rules, under workers, a network and a clock that are made
//! up, and that go wrong as a seed says.
//!
//! Guarantees: the same seed gives the same run. After every transaction that said that something happened
//! the executable invariants hold, attempts are what the [`books`] say, and what may take only so long has
//! not taken longer; the first breach ends the run with the steps that led to it.

mod books;
mod broken;
mod cluster;
mod faults;
mod happening;
mod ledger;
mod live;
mod mail;
mod plan;
mod quotas;
mod random;
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
pub use seeds::{Runs, runs};
