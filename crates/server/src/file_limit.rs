//! How many files the process may have open: each connection is one.
//!
//! Guarantee: connections never take the last file descriptors, so that accepting, the store and logs go on.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::config::ServerConfig;

/// Raises the limit as far as it goes. Not for programs that start jobs: those would inherit it, and programs that use
/// `select` fail with descriptors beyond 1024.
pub fn raise_file_limit() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Bounds the connections by the limit of open files, and what is a part of them.
pub(crate) fn fit(config: &mut ServerConfig) {
    let Ok((files, _)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let allowed = bound(config.bounds.connections, files);
    if allowed < config.bounds.connections {
        tracing::info!(files, connections = allowed, "the limit of open files bounds the connections");
        config.bounds.fit(allowed);
    }
}

/// A quarter of the files is for everything else.
fn bound(wanted: usize, files: u64) -> usize {
    wanted.min(usize::try_from(files - files / 4).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_everything_else() {
        assert_eq!(bound(10_000, 1_024), 768);
        assert_eq!(bound(10_000, 20_000), 10_000);
        assert_eq!(bound(10_000, u64::MAX), 10_000);
        assert_eq!(bound(10_000, 0), 1);
    }
}
