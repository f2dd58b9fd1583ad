//! What people and programs see. Data goes to standard output, everything else to standard error.

mod columns;
mod details;
mod history;
pub(crate) mod human;
pub(crate) mod json;
mod quantities;
mod screen;
mod style;
mod table;

pub(crate) use columns::{JobTable, sort};
pub(crate) use details::job_details;
pub(crate) use history::{attempt_end, event_line, timeline};
pub(crate) use screen::{Screen, after_key, note, text};
