//! Where the tasks of a gang are to be: together under one value of a label, or spread over its values.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TopologyMode {
    /// All workers of the gang carry the same value.
    #[default]
    Pack,
    /// The tasks are shared out as evenly as possible over the values.
    Spread,
}

impl TopologyMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Spread => "spread",
        }
    }
}

impl fmt::Display for TopologyMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a gang wants of the labels of its workers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Topology {
    pub label: String,
    #[serde(default)]
    pub mode: TopologyMode,
    /// The gang waits rather than start otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}
