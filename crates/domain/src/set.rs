//! Sets of jobs that were submitted together under one id: pipelines and arrays.

use serde::{Deserialize, Serialize};

use crate::ids::SetId;
use crate::rule::Rule;
use crate::time::Timestamp;

/// What a set came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetKind {
    /// Steps that need each other.
    Pipeline,
    /// Elements of one job.
    Array,
}

impl SetKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pipeline => "pipeline",
            Self::Array => "array",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pipeline, Self::Array].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// A step as it was written down; its jobs know the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOutline {
    pub name: String,
    /// The steps that it needs, each with its rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<(String, Rule)>,
}

/// A pipeline or an array. Its state is that of its jobs and is never kept here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSet {
    pub id: SetId,
    /// Order of submission, given by the store; 0 before that.
    pub seq: u64,
    pub kind: SetKind,
    pub name: Option<String>,
    pub created_at: Timestamp,
    /// How many jobs it has.
    pub size: u32,
    /// At most this many run at once.
    pub max_parallel: Option<u32>,
    pub idempotency_key: Option<String>,
    /// The steps of a pipeline, in the order in which they were written.
    pub outline: Vec<StepOutline>,
}
