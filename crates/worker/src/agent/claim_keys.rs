//! Names of claims, so that jobs can be asked for again when the answer that brought them was lost.
//!
//! Guarantee: a key is used until the scheduler has answered under it, so that nothing that was claimed is
//! forgotten by both sides.

use std::collections::VecDeque;

use muster_client::ClientError;

/// The name of one claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClaimKey {
    pub(super) key: String,
    /// It was sent before.
    pub(super) again: bool,
    /// When it was sent first: no lease under it is younger than that.
    pub(super) since_ns: u64,
}

/// The claims that were sent and not answered.
#[derive(Debug, Default)]
pub(super) struct ClaimKeys {
    unanswered: VecDeque<ClaimKey>,
}

impl ClaimKeys {
    /// The key of the next claim: one without an answer, or else a new one.
    pub(super) fn next(&mut self, now_ns: u64) -> ClaimKey {
        self.unanswered.pop_front().unwrap_or_else(|| ClaimKey {
            key: format!("{:032x}", rand::random::<u128>()),
            again: false,
            since_ns: now_ns,
        })
    }

    /// No answer came: the key must be sent again.
    pub(super) fn unanswered(&mut self, claim: ClaimKey) {
        self.unanswered.push_back(ClaimKey { again: true, ..claim });
    }
}

/// Whether nobody can tell what the scheduler has done. A broken server or a proxy may have acted before it failed.
pub(super) fn is_unanswered(error: &ClientError) -> bool {
    match error {
        // Nothing was sent to a scheduler that is not trusted, but the key may have been sent before.
        ClientError::Unreachable { .. }
        | ClientError::Untrusted { .. }
        | ClientError::TimedOut { .. }
        | ClientError::Interrupted { .. }
        | ClientError::Decode { .. } => true,
        ClientError::Refused { status, .. } => status.is_server_error(),
        ClientError::InvalidUrl { .. }
        | ClientError::Certificates(_)
        | ClientError::Encode { .. }
        | ClientError::InvalidHeader { .. }
        | ClientError::InvalidPath { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_unless_one_was_not_answered() {
        let mut keys = ClaimKeys::default();
        let (first, second) = (keys.next(1), keys.next(2));
        assert!(first.key != second.key && !first.again && !second.again);
        keys.unanswered(first.clone());
        let again = keys.next(3);
        assert_eq!((again.key, again.again, again.since_ns), (first.key, true, 1));
        assert!(!keys.next(4).again);
    }
}
