//! Gangs as the command line sees them: what their tasks come to together.

mod rounds;
mod spread;
mod state;

pub(crate) use rounds::{Narrator, Round, rounds};
pub(crate) use spread::choose;
pub(crate) use state::{exit_code, is_final, reason, state};
