//! What `GET /metrics` shows: counters moved by committed events, gauges read from the store at scrape time.
//!
//! Guarantee: a counter moves only after the change it counts is on disk, and once.

mod blobs;
mod bounds;
mod catalogue;
mod gangs;
mod output;
mod queues;
mod room;
mod scrape;
mod usage;
mod webhooks;

pub(crate) use bounds::Open;
pub(crate) use catalogue::Metrics;
