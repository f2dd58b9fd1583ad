//! What a job finds when it starts, besides its command: a directory, its standard input.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An upload, by the space that it lies in and the digest of what it consists of.
///
/// Whoever knows a digest learns nothing by it: an upload is found only in the space of those who sent it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UploadRef {
    pub space: String,
    pub id: String,
}

impl fmt::Display for UploadRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.space, self.id)
    }
}

/// The inputs of a job. They are the same for each of its attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// The directory that each attempt runs in a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadRef>,
    /// What each attempt reads from its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<UploadRef>,
    /// A literal standard input on its way in. It is kept as an upload before the job is taken in, and never with the job.
    #[serde(skip)]
    pub stdin_text: Option<Arc<str>>,
}

impl Inputs {
    /// In a box, as a specification has it; nothing when there are none.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Everything that is to be fetched for it.
    pub fn uploads(&self) -> impl Iterator<Item = &UploadRef> {
        self.upload.iter().chain(&self.stdin)
    }
}
