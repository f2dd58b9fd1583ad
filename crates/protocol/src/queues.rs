//! Queues on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// At most `starts` jobs start in each `seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RateLimit {
    pub starts: u32,
    pub seconds: f64,
}

/// A queue: `GET /queues`, `GET /queues/{name}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Queue {
    pub name: String,
    /// Nothing of a paused queue starts.
    pub paused: bool,
    /// At most this many jobs may wait; a submit beyond it is answered with 429.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queued: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateLimit>,
    /// Jobs that wait: pending (delayed and held ones too) and blocked.
    pub queued: u64,
    pub running: u64,
}

/// What `PUT /queues/{name}` takes. A field that is absent stays as it is; `null` removes a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct QueueUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<u64>)]
    pub max_queued: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<RateLimit>)]
    pub rate: Option<Option<RateLimit>>,
}

/// Tells `null` from an absent field.
#[expect(clippy::option_option, reason = "absent, null and a value are three things here")]
fn given<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}
