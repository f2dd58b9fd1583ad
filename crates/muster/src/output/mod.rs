//! What people and programs see. Data goes to standard output, everything else to standard error.

mod access;
mod columns;
mod details;
mod gangs;
mod history;
pub(crate) mod human;
pub(crate) mod json;
mod mistakes;
mod overview;
pub(crate) mod quantities;
mod queues;
mod screen;
mod secrets;
mod sets;
pub(crate) mod sim;
pub(crate) mod status;
mod style;
mod table;
mod tree;
mod usage;
mod webhooks;
pub(crate) mod worker_details;

pub(crate) use access::{audit_line, credentials, users};
pub(crate) use columns::{JobTable, sort};
pub(crate) use details::job_details;
pub(crate) use gangs::{GangDocument, gang_details, gang_ended, gang_list};
pub(crate) use history::{attempt_end, event_line, timeline};
pub(crate) use mistakes::mistakes;
pub(crate) use overview::overview;
pub(crate) use queues::{queue_details, queues};
pub(crate) use screen::{Screen, after_key, note, text};
pub(crate) use secrets::{fleet_keys, secret_details, secrets};
pub(crate) use sets::{Progress, array_details, changes, failed_indices, pipeline_tree, set_ended, set_list};
pub(crate) use usage::{attempt_usage, usage_table};
pub(crate) use webhooks::{dead_letters, webhook_details, webhooks};
