//! When failed attempts are repeated.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// When failed attempts are repeated, and after which delay.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Retry {
    /// Delay after the first failed attempt; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_seconds: Option<f64>,
    /// Growth of the delay with each attempt; 2 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The longest delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<f64>,
    /// Up to this part of the delay is taken off or put on, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// Only these exit codes are worth another attempt; any when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_codes: Option<Vec<i32>>,
    /// Only these signals are worth another attempt, by name or number; any when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signals: Option<Vec<String>>,
    /// Whether a lost worker is worth another attempt; it is when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<bool>,
    /// Whether a timeout is worth another attempt; it is when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<bool>,
    /// Whether an attempt that ran out of memory is worth another; it is when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom: Option<bool>,
    /// How much more memory the next attempt asks for after one that ran out of it: 2 doubles; as much as before when
    /// absent. Never more than a worker has, or than the quotas of the queue allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_memory_factor: Option<f64>,
    /// The most, in MiB, that it may ask for because of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_memory_max_mb: Option<u64>,
    /// Exit codes after which the job runs again without the attempt being counted; 75 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requeue_exit_codes: Option<Vec<i32>>,
}
