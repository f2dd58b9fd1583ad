//! Sets of jobs on the wire: pipelines (steps that need each other) and arrays (many elements of one job).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::jobs::{DependencyRule, JobStatus, Resources, SubmitRequest};

/// What `POST /arrays` takes: one job and what differs between its elements. Either `indices` or `items`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ArrayRequest {
    #[serde(flatten)]
    pub job: SubmitRequest,
    /// Such as `0-999`, `1,3,5-9` or `0-99:10`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub indices: Option<String>,
    /// One element for each: text, or an object whose fields become variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Value>)]
    pub items: Vec<Value>,
    /// At most this many run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
}

/// What a set came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SetKind {
    #[default]
    Pipeline,
    Array,
}

/// How many jobs are in each state; states without jobs are left out.
pub type Counts = BTreeMap<JobStatus, u64>;

/// A pipeline or an array, in short: `GET /pipelines`, `GET /arrays`, and the answer to their submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobSet {
    pub id: String,
    pub kind: SetKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `running` while any job runs or has run and others remain, `pending` before that; then `failed` if any
    /// job failed, else `cancelled` if any was cancelled, else `done`.
    pub status: JobStatus,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub done_at: Option<Timestamp>,
    pub size: u64,
    #[schema(value_type = BTreeMap<String, u64>)]
    pub counts: Counts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// Set when the submission repeated an earlier one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeated: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A step that another one needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StepNeed {
    pub step: String,
    pub rule: DependencyRule,
}

/// One step of a pipeline, with the state of its jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<StepNeed>,
    /// Judged like the status of the whole.
    pub status: JobStatus,
    pub size: u64,
    #[schema(value_type = BTreeMap<String, u64>)]
    pub counts: Counts,
    /// The jobs of the step, in the order of their index; at most 100 are named here.
    pub jobs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub done_at: Option<Timestamp>,
    /// Why a step of one job failed or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A whole pipeline: `GET /pipelines/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pipeline {
    #[serde(flatten)]
    pub set: JobSet,
    pub steps: Vec<Step>,
}

/// The answer to a change of many jobs: by filter, of a pipeline or of an array.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BulkResult {
    /// Jobs that changed, or would with `dry_run`.
    pub changed: Vec<String>,
    /// Jobs that were running and were told to stop, or would be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stopping: Vec<String>,
    /// Jobs that the filter chose and that could not be changed, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, String>,
    pub dry_run: bool,
}

/// Which jobs a bulk change is about. All given fields must match; at least one is required.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct BulkFilter {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<JobStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// Only say what would change.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Said to those who ask why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What `PATCH /jobs/{id}` takes: changes to a job that waits. A field that is absent stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct JobEdit {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// 0 removes the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
}
