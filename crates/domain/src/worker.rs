//! Workers as the scheduler knows them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::health::Health;
use crate::ids::WorkerId;
use crate::resources::Resources;
use crate::time::{Span, Timestamp};

/// Whether a worker was heard of lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerStatus {
    Active,
    Offline,
}

impl WorkerStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Offline => "offline",
        }
    }
}

/// A registered worker: what it has in all, and when it last spoke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub id: WorkerId,
    pub exec_addr: String,
    /// What the machine has in all; what is free is always derived from the jobs it holds.
    pub resources: Resources,
    pub tags: BTreeSet<String>,
    /// How many jobs it runs at once; unlimited when it did not say.
    pub slots: Option<u32>,
    pub hostname: Option<String>,
    pub version: Option<String>,
    pub status: WorkerStatus,
    pub last_heartbeat: Timestamp,
    pub registered_at: Timestamp,
    /// How jobs fared on it lately.
    #[serde(default)]
    pub health: Health,
}

impl Worker {
    /// Takes over a repeated registration, keeping the time of the first one and what is known
    /// about how jobs fared on it.
    #[must_use]
    pub fn re_registered(self, earlier: &Self) -> Self {
        Self { registered_at: earlier.registered_at, health: earlier.health.clone(), ..self }
    }

    /// A sign of life: the worker is active again, whatever it was.
    pub fn heard(&mut self, now: Timestamp) {
        self.status = WorkerStatus::Active;
        self.last_heartbeat = self.last_heartbeat.max(now);
    }

    /// Whether the worker has been silent for strictly longer than `timeout`.
    pub fn is_stale(&self, now: Timestamp, timeout: Span) -> bool {
        self.status == WorkerStatus::Active && now.since(self.last_heartbeat) > timeout
    }
}
