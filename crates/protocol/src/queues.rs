//! Queues on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// At most `starts` jobs start in each `seconds`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RateLimit {
    pub starts: u32,
    pub seconds: f64,
}

/// Amounts of some kinds of resources; one that is absent is not spoken of.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Quota {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vram_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u64>,
    /// Named counters, such as licences.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

impl Quota {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
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
    /// The queue above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its part when queues compete; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// What is its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominal: Option<Quota>,
    /// The most that it, with all below it, may use beyond what is theirs; no limit when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub borrow: Option<Quota>,
    /// The most of its own that others may use; all of it when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lend: Option<Quota>,
    /// The most jobs of it and of the queues below it that run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running: Option<u32>,
    /// The same for the jobs of each user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_running_per_user: Option<u32>,
    /// At most this many jobs of each user may wait; a submit beyond it is answered with 429.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queued_per_user: Option<u64>,
    /// The users who may submit; everyone where neither it nor a queue above it names any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub submitters: Vec<String>,
    /// The users who change the jobs of others in it, pause it, and set how its users share it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub admins: Vec<String>,
    /// The users who see the jobs of others in it; everyone where neither it nor a queue above it names any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub viewers: Vec<String>,
    /// Jobs that wait: pending (delayed and held ones too) and blocked.
    pub queued: u64,
    pub running: u64,
    /// Jobs that run in it and in the queues below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_below: Option<u64>,
    /// What its jobs use.
    #[serde(skip_serializing_if = "Quota::is_empty")]
    pub used: Quota,
    /// What its jobs and those of the queues below it use.
    #[serde(skip_serializing_if = "Quota::is_empty")]
    pub used_below: Quota,
    /// What it uses beyond its own.
    #[serde(skip_serializing_if = "Quota::is_empty")]
    pub borrowed: Quota,
    /// What others use of its own.
    #[serde(skip_serializing_if = "Quota::is_empty")]
    pub lent: Quota,
    /// Its weighted dominant share: 0.25 is a quarter. The queue with the lower one goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
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
    /// The queue above it, which is made if it is not there.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    pub parent: Option<Option<String>>,
    /// From 0.001 to 1000000.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<f64>)]
    pub weight: Option<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<Quota>)]
    pub nominal: Option<Option<Quota>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<Quota>)]
    pub borrow: Option<Option<Quota>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<Quota>)]
    pub lend: Option<Option<Quota>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    pub max_running: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<u32>)]
    pub max_running_per_user: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<u64>)]
    pub max_queued_per_user: Option<Option<u64>>,
    /// The users who may submit; `null` or an empty list lets the queue above it decide, and without one everyone.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    pub submitters: Option<Option<Vec<String>>>,
    /// The users who change the jobs of others in it, pause it, and set how its users share it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    pub admins: Option<Option<Vec<String>>>,
    /// The users who see the jobs of others in it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    pub viewers: Option<Option<Vec<String>>>,
}

/// Tells `null` from an absent field.
#[expect(clippy::option_option, reason = "absent, null and a value are three things here")]
fn given<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(from).map(Some)
}
