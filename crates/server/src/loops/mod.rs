//! The background loops. A pass that one instance at a time makes carries the term under which it leads, and the store
//! refuses it when the role was taken over.

mod backoff;
mod blob_sweep;
mod blob_watch;
mod leadership;
mod log_retention;
mod output_moves;
mod planner;
mod probe;
mod reaper;
mod retention;
pub(crate) mod store_time;
mod uploads;
mod webhooks;

pub(crate) use blob_sweep::run as sweep_blobs;
pub(crate) use blob_watch::run as watch_blobs;
pub(crate) use leadership::run as lead;
pub(crate) use log_retention::run as retain_logs;
pub(crate) use output_moves::run as move_output;
pub(crate) use planner::run as plan;
pub(crate) use probe::run as probe;
pub(crate) use reaper::run as reap;
pub(crate) use retention::run as retain;
pub(crate) use store_time::run as keep_time;
pub(crate) use uploads::run as tidy_uploads;
pub(crate) use webhooks::run as deliver;
