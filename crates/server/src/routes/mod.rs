//! The HTTP API, one file for each resource. The table of routes is in `table`, its document in `openapi`.

mod batch;
mod cancel;
mod checkpoint;
mod claim;
mod docs;
mod events;
mod jobs;
mod listing;
mod logs;
mod openapi;
mod reports;
mod submit;
mod summary;
mod sync;
mod system;
mod table;
mod workers;

pub(crate) use table::router;
