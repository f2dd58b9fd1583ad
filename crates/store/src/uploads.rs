//! Commands on uploads: what is sent, what names it, and when it may go.
//!
//! The bytes lie in the blob store. Here is written down which uploads there are, so that no chunk is removed that an upload was
//! told to be there, and no upload that a job names.

use muster_domain::{JobId, SetId, Timestamp, UploadRef};

/// A change of what is known of uploads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadCommand {
    /// Somebody sends it. From now on chunks that are there stay there for it. Refused while old ones are removed.
    Declare {
        upload: UploadRef,
        files: u64,
        bytes: u64,
    },
    /// All of its chunks are there.
    Complete(UploadRef),
    /// Nobody may declare an upload until then, or until the end of the sweep.
    BeginSweep {
        sweeper: String,
        until: Timestamp,
    },
    EndSweep {
        sweeper: String,
    },
    /// Those of them that nothing names and that nobody asked for since then are no longer there.
    Forget {
        uploads: Vec<UploadRef>,
        unused_since: Timestamp,
    },
    /// What named an upload is gone.
    DropUses(Vec<UploadUse>),
}

/// What became of an [`UploadCommand`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UploadOutcome {
    /// Whether it is complete already.
    Declared {
        complete: bool,
    },
    Completed(UploadView),
    /// False when another one sweeps.
    Sweeping(bool),
    Forgotten(Vec<UploadRef>),
    Done,
}

/// What is known of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadView {
    pub upload: UploadRef,
    pub complete: bool,
    pub files: u64,
    pub bytes: u64,
    /// When somebody sent it or named it last.
    pub used_at: Timestamp,
}

/// A job or a set that names an upload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UploadUse {
    pub upload: UploadRef,
    pub job: Option<JobId>,
    pub set: Option<SetId>,
}
