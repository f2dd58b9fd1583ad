//! What an attempt used of its machine, as measured by the worker that ran it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::jobs::Resources;

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

/// What a job has used, as far as its workers measured it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobUsage {
    /// The last attempt that was measured.
    pub last: Usage,
    /// All attempts together: sums, and the highest peaks.
    pub total: Usage,
    /// The part of the requested CPUs that was used, over all attempts; 1 is all. Absent where no CPUs were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_efficiency: Option<f64>,
    /// The part of the requested memory that the last attempt needed at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_efficiency: Option<f64>,
}

/// One attempt of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// Its number. Attempts that cost nothing have the number of the next one.
    pub attempt: u32,
    /// The lease that it ran under; no other attempt of the job has the same.
    pub lease: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// Absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// How it ended: `done`, `failed`, `timeout`, `worker_lost`, `preempted`, `released`, `asked_for`, `cancelled` or
    /// `stopped` (with its gang). Absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// What there is to say about the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the job asked for at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<Resources>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The digest of the image that it ran; of the last eight attempts that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
}

/// Sums over attempts that have ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct UsageRow {
    /// Who submitted the jobs; empty for jobs without a user. Absent where users are added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Their queue; empty for jobs without one. Absent where queues are added up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_name: Option<String>,
    /// The day (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Jobs that ran and came to their end.
    pub jobs: u64,
    /// Those of them that failed.
    pub jobs_failed: u64,
    pub attempts: u64,
    /// How long the attempts ran.
    pub wall_seconds: f64,
    /// CPU time, as far as it was measured.
    pub cpu_seconds: f64,
    /// Requested CPUs times the time for which they were held.
    pub cpu_requested_seconds: f64,
    /// GPUs times the time for which they were held.
    pub gpu_seconds: f64,
    /// The part of the requested CPU time that was used, over the attempts of which both are known; 1 is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_efficiency: Option<f64>,
    /// The same of memory: the peak of each attempt and its request, weighted by time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_efficiency: Option<f64>,
    /// The most memory that one attempt held at a time.
    pub peak_memory_bytes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// The answer to `GET /usage`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageReport {
    /// The time that is summed up. For users, queues and days it is whole hours.
    #[schema(value_type = String, format = DateTime)]
    pub since: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    pub until: Timestamp,
    /// The largest first: by GPU time, then by requested CPU time, then by time. Days in their order.
    pub rows: Vec<UsageRow>,
    /// All rows together.
    pub total: UsageRow,
    /// False where more jobs ended than are looked at: the rows tell of the latest ones.
    pub complete: bool,
}
