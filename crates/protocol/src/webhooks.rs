//! Webhooks on the wire: what is asked for, what is shown, and what a receiver gets.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::events::Event;
use crate::jobs::Job;

/// Header of a delivery with the name of the event.
pub const HEADER_WEBHOOK_EVENT: &str = "x-muster-event";
/// Header of a delivery with its id; a repetition has the same one.
pub const HEADER_WEBHOOK_DELIVERY: &str = "x-muster-delivery";
/// Header of a delivery with the time of sending, in seconds since 1970.
pub const HEADER_WEBHOOK_TIMESTAMP: &str = "x-muster-timestamp";
/// Header of a delivery with `v1=` and the HMAC-SHA256 of `timestamp.body` in hexadecimal.
pub const HEADER_WEBHOOK_SIGNATURE: &str = "x-muster-signature";

/// What `POST /webhooks` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct WebhookRequest {
    /// Where to deliver, `http://` or `https://`.
    pub url: String,
    /// What deliveries are signed with; made up when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Names of events, or `all`; the ends of jobs (`done`, `failed`, `cancelled`) when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Only jobs of this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    /// Only jobs of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
}

/// What `PATCH /webhooks/{id}` takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct WebhookUpdate {
    /// A paused webhook gets nothing; what happens meanwhile is delivered when it is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// A webhook and how its deliveries fare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Webhook {
    pub id: String,
    pub url: String,
    /// Shown once, in the answer to the request that made the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    pub events: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    pub paused: bool,
    /// The last event that was delivered, put aside or not wanted.
    pub cursor: u64,
    /// How far the newest event is ahead of the cursor; wanted or not.
    pub lag: u64,
    pub delivered: u64,
    /// Failed attempts since the last that succeeded.
    pub failures: u32,
    /// When the next attempt follows a failed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub next_attempt_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_success_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_error_at: Option<Timestamp>,
    pub dead_letters: u64,
}

/// What came of a test delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookTest {
    /// Whether the receiver accepted it (2xx).
    pub accepted: bool,
    /// The status that came back; absent when nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why it was not accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Length of the answer's body, counted up to 65536. The body itself is not shown.
    #[serde(default)]
    pub bytes: u64,
    pub took_ms: u64,
}

/// An event that could not be delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetter {
    /// The id of the delivery.
    pub id: String,
    pub webhook_id: String,
    pub event_id: u64,
    /// The name of the event.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// When it was given up.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub attempts: u32,
    pub error: String,
    /// It waits to be sent once more.
    pub retrying: bool,
    /// What was to be delivered.
    pub payload: Value,
}

/// How many dead letters a request was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetterCount {
    pub count: usize,
}

/// The body of a delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WebhookPayload {
    pub event: Event,
    /// The job as it is at the time of sending, without its checkpoint; absent when it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}
