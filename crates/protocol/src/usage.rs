//! What an attempt used of its machine, as measured by the worker that ran it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What one attempt used, with everything that it started. What could not be measured is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Usage {
    /// CPU time in the program, over all its processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_user_ms: Option<u64>,
    /// CPU time in the kernel on behalf of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_system_ms: Option<u64>,
    /// The most memory that it held at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Read from block devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Written to block devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// The most GPU memory that it held at a time, over all its GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_gpu_memory_bytes: Option<u64>,
}
