//! Rules that say who goes first, who may pass, who must stop. Each rule has its own file.
//!
//! Guarantees: a rule is a function of what it is given; two boards with equal input decide alike.

mod name;
mod settings;

pub use name::{PolicyName, UnknownPolicy};
pub use settings::Policy;
