//! Workers on the wire.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::containers::ContainerEngine;
use crate::devices::{Gpu, GpuState};
use crate::jobs::Resources;
use crate::secrets::SealingKey;

/// What a worker says whose jobs run as the users who submitted them.
pub const RUN_AS_SUBMITTER: &str = "submitter";

/// Whether a worker was heard of lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    Active,
    Offline,
}

/// What `POST /workers/register` takes. `status` and the times are accepted and ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct RegisterRequest {
    pub id: String,
    pub exec_addr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Its GPUs one by one. Their number and memory then stand in for those in `resources`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<Gpu>,
    /// Where it is, such as `rack` and `zone`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How many jobs the worker runs at once; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Ports that the worker keeps free for gangs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How it isolates jobs: `cgroup-v2`, `cgroup-v1` or `none`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Whose user its jobs run as: `worker`, `user:` and a name, or `submitter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
    /// The public keys that secrets for this worker can be sealed to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sealing_keys: Vec<SealingKey>,
    /// What runs its containers; without it, it gets no job that names an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainerEngine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub last_heartbeat: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub registered_at: Option<Timestamp>,
}

/// A registered worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    pub id: String,
    pub exec_addr: String,
    pub resources: Resources,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    pub status: WorkerStatus,
    #[schema(value_type = String, format = DateTime)]
    pub last_heartbeat: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub registered_at: Timestamp,

    // Additions to the original object.
    /// Its GPUs one by one, and who holds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuState>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// A job has the worker for itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How it isolates jobs: `cgroup-v2`, `cgroup-v1` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Whose user its jobs run as: `worker`, `user:` and a name, or `submitter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<String>,
    /// What runs its containers, if it runs any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers: Option<ContainerEngine>,
    /// Resources held by reserved, running and stopping jobs.
    #[serde(default)]
    pub used: Resources,
    /// How many jobs it holds.
    #[serde(default)]
    pub running: u32,
    /// Set while the worker gets no work because job after job failed on it at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<Quarantine>,
}

/// Why a worker gets no work, and until when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Quarantine {
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    /// When one job will be sent to try it again.
    #[schema(value_type = String, format = DateTime)]
    pub probe_at: Timestamp,
    /// The jobs that failed, each with how.
    pub evidence: Vec<String>,
    /// Its key was revoked: it gets nothing until it joins again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
}
