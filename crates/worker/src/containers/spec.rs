//! What the container of an attempt is to be, as agent, keeper and runner hand it on.

use serde::{Deserialize, Serialize};

use super::engine::Reach;

/// A file or directory of the host and where the container finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMount {
    pub source: String,
    pub target: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// Everything that the engine is asked for, apart from command and environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSpec {
    pub reach: Reach,
    /// As the job named it.
    pub image: String,
    /// The exact image, once it is known to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    pub network: String,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub init: bool,
    #[serde(default)]
    pub mounts: Vec<FileMount>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nano_cpus: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shm_bytes: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<i64>,
    /// Name, soft and hard limit.
    #[serde(default)]
    pub ulimits: Vec<(String, i64, i64)>,
    /// What the engine calls its GPUs.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// The polite signal goes to the first process of the job alone.
    #[serde(default)]
    pub leader_only: bool,
}
