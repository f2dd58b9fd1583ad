//! The store that keeps everything in memory and nothing on disk. It must be asked for.

use crate::engine::Policy;

/// Everything in memory; gone with the process.
#[derive(Debug)]
pub struct MemoryStore {
    policy: Policy,
}

impl MemoryStore {
    pub const fn new(policy: Policy) -> Self {
        Self { policy }
    }

    pub const fn policy(&self) -> Policy {
        self.policy
    }
}
