//! Commands on secrets and on the keys that they are sealed to.

use muster_domain::{SealedSecret, SealingKey, WorkerId};

/// The most secrets that are kept.
pub const MAX_SECRETS: usize = 1_000;

/// A change of secrets or keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretCommand {
    /// Takes in a secret; refused when its version does not follow the present one.
    Put(SealedSecret),
    Delete {
        name: String,
    },
    /// All public keys that a worker has; those said before are forgotten.
    Announce {
        worker: WorkerId,
        keys: Vec<SealingKey>,
    },
}

/// What became of a [`SecretCommand`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretOutcome {
    /// The secret as it is now.
    Stored(Box<SealedSecret>),
    Deleted,
    Announced,
}

/// The keys of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerKeys {
    pub worker: WorkerId,
    pub keys: Vec<SealingKey>,
}
