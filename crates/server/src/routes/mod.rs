//! The HTTP API, one file for each resource. The table of routes is in `table`, its document in `openapi`.

mod arrays;
mod auth;
mod batch;
mod bulk;
mod cancel;
mod checkpoint;
mod claim;
mod control;
mod credentials;
mod dead_letters;
mod docs;
mod events;
mod explain;
mod gangs;
mod jobs;
mod listing;
mod logs;
mod notice;
mod oidc;
mod openapi;
pub(crate) mod parameters;
mod pipelines;
mod queues;
mod reports;
mod request_schemas;
pub(crate) mod rows;
mod secrets;
mod submit;
mod summary;
mod sync;
mod system;
mod table;
mod users;
mod webhooks;
mod workers;

pub(crate) use table::router;
