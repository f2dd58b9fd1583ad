//! Output of ended attempts that has moved out of the files of a scheduler: small output lies in the database itself, larger
//! output in the blob store, under a key that the database names.

use muster_domain::{JobId, Lease, Timestamp};

use crate::error::StoreError;

/// Where the bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputContent {
    Inline(Vec<u8>),
    /// The key of an object.
    Blob(String),
    /// They were too old or took too much space.
    Removed,
}

/// What one attempt wrote, under one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedOutput {
    pub job: JobId,
    pub lease: Lease,
    pub attempt: u32,
    /// How much the process wrote to its standard output and error in all.
    pub written: [u64; 2],
    /// How much of it is kept.
    pub kept: u64,
    /// When it grew last.
    pub grown_at: Timestamp,
    /// Nobody has more of it.
    pub whole: bool,
    /// What lies where in the content, as the scheduler writes and reads it.
    pub facts: String,
    pub content: OutputContent,
}

impl MovedOutput {
    /// Of two copies the one with the greater length counts.
    pub fn length(&self) -> u64 {
        self.written[0].saturating_add(self.written[1])
    }

    pub fn blob(&self) -> Option<&str> {
        match &self.content {
            OutputContent::Blob(key) => Some(key),
            OutputContent::Inline(_) | OutputContent::Removed => None,
        }
    }
}

/// What became of output that was to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moved {
    /// It is named now. `replaced` is the object of the shorter copy that was there before.
    Kept { replaced: Option<String> },
    /// A copy that is at least as long is there already.
    There,
    /// The job is gone.
    NoJob,
}

/// Moved output of jobs that have ended goes; how long it was stays known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpireOutput {
    /// What grew last before this time; any when absent.
    pub before: Option<Timestamp>,
    /// Enough of the oldest to free so many bytes; all when absent.
    pub excess: Option<u64>,
    /// Runs at the most.
    pub limit: usize,
}

impl ExpireOutput {
    /// The runs that go, of those that are in question, the oldest first.
    pub fn enough(&self, found: Vec<ExpiredOutput>) -> Vec<ExpiredOutput> {
        let Some(excess) = self.excess else { return found };
        let mut freed = 0;
        let needed = |one: &ExpiredOutput| {
            let more = freed < excess;
            freed += one.bytes;
            more
        };
        found.into_iter().take_while(needed).collect()
    }
}

/// Output that went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiredOutput {
    /// The number of its job.
    pub seq: u64,
    pub lease: Lease,
    pub bytes: u64,
    pub blob: Option<String>,
}

/// What a backend provides for moved output.
#[expect(async_fn_in_trait, reason = "only our backends implement it, each with a concrete type")]
pub trait OutputTx {
    /// The moved output of these jobs, by job and lease.
    async fn outputs(&mut self, jobs: &[JobId]) -> Result<Vec<MovedOutput>, StoreError>;
    /// Inserts or replaces, by job and lease. The jobs exist.
    async fn put_outputs(&mut self, outputs: &[MovedOutput]) -> Result<(), StoreError>;
    /// Takes the content from what is in question of jobs that have ended, as far as [`ExpireOutput::enough`] says.
    async fn expire_outputs(&mut self, wanted: ExpireOutput) -> Result<Vec<ExpiredOutput>, StoreError>;
    /// Bytes of all moved output.
    async fn output_bytes(&mut self) -> Result<u64, StoreError>;
}
