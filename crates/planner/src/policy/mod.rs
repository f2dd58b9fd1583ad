//! Rules that say who goes first, who may pass, who must stop. Each rule has its own file.
//!
//! Guarantees: a rule is a function of what it is given; two boards with equal input decide alike.

mod backfill;
mod name;
mod order;
mod settings;

pub use backfill::{Passing, slack};
pub use name::{PolicyName, UnknownPolicy};
pub use order::{Claim, Key, Standing, rank};
pub use settings::Policy;
