//! Rules that say who goes first, who may pass, who must stop. Each rule has its own file.
//!
//! Guarantees: a rule is a function of what it is given; two boards with equal input decide alike.

mod ageing;
mod allowance;
mod backfill;
mod draining;
mod jobs;
mod level;
mod name;
mod order;
mod pools;
mod settings;
mod share;
mod victims;

pub use allowance::{Allowance, Allowances};
pub use backfill::{Passing, slack, turn_in_passing};
pub use draining::Ages;
pub use level::{LAST, Service};
pub use name::{PolicyName, UnknownPolicy};
pub(crate) use order::with_priority;
pub use order::{Claim, Key, Standing, rank};
pub use pools::{Policies, Pool, WrongPools};
pub use settings::Policy;
pub use share::dominant_share;
pub use victims::{Cause, Party, Trial, Victim, cause, choose, cost};
