//! The history of a job, as `GET /jobs/{id}/events` and the live stream show it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// Details of an event; the keys depend on its type.
pub type EventData = BTreeMap<String, Value>;

/// A mark in the stream of events: those after `after` and before `first` are not there (any more).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventGap {
    pub after: u64,
    /// The first one that can be read.
    pub first: u64,
}

/// One thing that happened, written in the same transaction as the change it describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Grows with time; the cursor of the stream.
    pub id: u64,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// What happened, such as `submitted`, `claimed`, `done`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// Who caused it: `ann`, `ann (token ci)`, `worker w1`, `scheduler`, or `local` for the user of the machine. Events of older
    /// versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>)]
    pub data: EventData,
}
