//! How a command that failed speaks and exits: what went wrong, with which value, what to do next.

use std::fmt;
use std::io;

use muster_client::ClientError;
use muster_server::ServerError;

use crate::exit;
use crate::output::note;

/// Wrong arguments or configuration; exits with 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Help and version are answers, everything else is wrong usage. A reader that left changes nothing.
pub(crate) fn explain(error: &clap::Error) -> u8 {
    let _ = error.print();
    if error.use_stderr() { exit::USAGE } else { exit::OK }
}

/// Tells people about the failure and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> u8 {
    if is_broken_pipe(error) {
        return exit::OK;
    }
    if let Some(usage) = error.downcast_ref::<clap::Error>() {
        return explain(usage);
    }
    for (depth, cause) in error.chain().enumerate() {
        note(&if depth == 0 { cause.to_string() } else { format!("because: {cause}") });
        if speaks_for_its_causes(cause) {
            break;
        }
    }
    if let Some(hint) = error.chain().find_map(|cause| cause.downcast_ref().and_then(hint)) {
        note(hint);
    }
    if error.chain().any(is_usage) { exit::USAGE } else { exit::FAILURE }
}

/// Whether the fault lies in how the program was called.
fn is_usage(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<UsageError>() || matches!(error.downcast_ref(), Some(ServerError::Unprotected { .. }))
}

/// Our own errors say in one line what those below them say.
fn speaks_for_its_causes(error: &(dyn std::error::Error + 'static)) -> bool {
    error.is::<ClientError>()
        || error.is::<ServerError>()
        || error.is::<muster_store::StoreError>()
        || error.is::<muster_worker_agent::WorkerError>()
}

/// The reader of our output has left: nothing to complain about.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn hint(error: &ClientError) -> Option<&'static str> {
    match error {
        ClientError::Unreachable { .. } | ClientError::TimedOut { .. } => {
            Some("start one with `muster up`, or name another with --url or MUSTER_URL")
        }
        ClientError::Refused { status, .. } if status.as_u16() == 429 => {
            Some("try again when some have ended; `muster queue ls` shows the limits of the queues")
        }
        ClientError::InvalidUrl { .. } => {
            Some("write for example http://localhost:8080 or https://muster.example")
        }
        ClientError::Decode { .. } => Some("is this really a Muster scheduler, and of the same version?"),
        ClientError::Interrupted { .. }
        | ClientError::Untrusted { .. }
        | ClientError::Certificates(_)
        | ClientError::Refused { .. }
        | ClientError::Encode { .. }
        | ClientError::InvalidHeader { .. }
        | ClientError::InvalidPath { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn exit_codes_of_failures() {
        let usage = anyhow::Error::new(UsageError("x".into()));
        assert_eq!(report(&usage), 2);
        assert_eq!(report(&anyhow::anyhow!("x")), 1);
        let pipe = Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("writing").unwrap_err();
        assert_eq!(report(&pipe), 0);
    }
}
