//! What was done with a store, and how long it took, counted for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Put,
    Get,
    Delete,
    List,
}

impl Operation {
    pub const ALL: [Self; 4] = [Self::Put, Self::Get, Self::Delete, Self::List];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Delete => "delete",
            Self::List => "list",
        }
    }
}

/// Counters that only grow.
#[derive(Debug, Default)]
pub struct Figures {
    done: [AtomicU64; 4],
    failed: [AtomicU64; 4],
    micros: [AtomicU64; 4],
    written: AtomicU64,
    read: AtomicU64,
}

impl Figures {
    pub(crate) fn note(&self, operation: Operation, failed: bool, took: Duration) {
        let counter = if failed { &self.failed } else { &self.done };
        counter[operation as usize].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.micros[operation as usize].fetch_add(micros, Ordering::Relaxed);
    }

    pub(crate) fn note_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn note_read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn done(&self, operation: Operation) -> u64 {
        self.done[operation as usize].load(Ordering::Relaxed)
    }

    pub fn failed(&self, operation: Operation) -> u64 {
        self.failed[operation as usize].load(Ordering::Relaxed)
    }

    /// How long all operations of a kind took together.
    pub fn took(&self, operation: Operation) -> Duration {
        Duration::from_micros(self.micros[operation as usize].load(Ordering::Relaxed))
    }

    pub fn bytes_written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}
