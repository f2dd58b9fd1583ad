//! Artifacts of needed jobs on the wire: what a job asks for, and what its worker fetches.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Artifacts that a job finds when it starts: those of its attempt that succeeded last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ArtifactInput {
    /// An entry of `depends_on`; in a pipeline a step that is needed.
    pub from: String,
    /// A file, a folder, or a pattern with `*`, `?` and `**`; everything when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it goes: the file, or the folder when it ends with `/` or stands for several. Under its own name when absent. Each job
    /// of a step with several has a folder in it, named by its index, and each task of a gang one, named by its rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// All files that a job finds when it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputList {
    pub files: Vec<InputFile>,
}

/// One file that a job finds when it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputFile {
    /// Where it goes: a relative path, with `/` between its parts.
    pub path: String,
    /// The job that left it.
    pub from: String,
    /// Its name there.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// 64 hexadecimal digits.
    pub sha256: String,
}
