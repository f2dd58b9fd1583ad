//! GPUs and topology on the wire.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One GPU of a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Gpu {
    /// Its number on the machine, as the driver counts.
    pub index: u32,
    pub vram_mb: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `nvidia`, `amd`, `intel` or another; taken for `nvidia` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
}

/// One GPU of a worker and who holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct GpuState {
    #[serde(flatten)]
    pub gpu: Gpu,
    /// Memory that is taken: all of it by a job that has the device for itself.
    pub used_mb: u64,
    /// The jobs that hold it or a part of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<String>,
}

/// A GPU that a job was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct JobDevice {
    pub index: u32,
    /// The part of its memory that the job was given; absent when the device is the job's own. This is an
    /// account of what was promised: nothing stops a process that takes more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vram_mb: Option<u64>,
}

/// Where the tasks of a gang are to be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Topology {
    /// The label of workers that counts, such as `rack`.
    pub label: String,
    pub mode: TopologyMode,
    /// The gang waits rather than start otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopologyMode {
    /// All with one value of the label.
    #[default]
    Pack,
    /// As many with each value of the label.
    Spread,
}
