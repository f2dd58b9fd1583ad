//! Who runs what, as one pure function of a view of the cluster.
//!
//! Guarantees: deterministic for equal input; no worker gets more than it has, in any dimension,
//! and no GPU is given to two jobs that cannot share it; a single
//! goes only to a worker that asked for work; a gang starts whole or not at all; what fits nowhere never
//! hides what fits.

pub mod board;
mod case;
mod classes;
mod devices;
mod explain;
mod explain_gang;
mod fit;
mod gang;
mod make_room;
mod order;
mod outlook;
mod overview;
mod place;
pub mod policy;
mod promise;
mod prospect;
mod quota;
mod quota_check;
mod reclaim;
mod score;
mod share;
#[cfg(test)]
mod share_fill_tests;
mod strict;
mod suggest;
mod topology;

pub use case::{Aside, Case, Facing, Gate, Owner};
pub use devices::Devices;
pub use explain::{explain, never, reasons};
pub use fit::WorkerView;
pub use gang::{GangCandidate, GangPlacement, place_gangs};
pub use make_room::size;
pub use order::Candidate;
pub use outlook::{Outlook, Sight, Stop, Waiting, outlook};
pub use overview::{Waiter, overview};
pub use place::{Placement, View, place};
pub use promise::Wish;
pub use prospect::{Occupant, Prospect, prospect};
pub use quota::{Held, Ledger, Row};
pub use quota_check::QuotaViolation;
pub use score::Scoring;
pub use share::{Contender, Share, Turns};
