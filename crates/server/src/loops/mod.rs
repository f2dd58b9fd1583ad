//! The background loops. Each pass of each runs under its own leadership; correctness never rests on it.

mod leader;
mod log_retention;
mod planner;
mod reaper;
mod retention;
pub(crate) mod store_time;
mod webhooks;

pub(crate) use log_retention::run as retain_logs;
pub(crate) use planner::run as plan;
pub(crate) use reaper::run as reap;
pub(crate) use retention::run as retain;
pub(crate) use store_time::run as keep_time;
pub(crate) use webhooks::run as deliver;
