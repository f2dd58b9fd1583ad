//! What errors of the engine mean.

use std::error::Error as _;

use bollard::errors::Error;

/// The engine's own words.
pub(super) fn words(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        Error::DockerStreamError { error } => error.trim().to_owned(),
        other => {
            // The outermost error says only that there was one.
            let mut text = other.to_string();
            let mut cause = other.source();
            while let Some(inner) = cause {
                let inner_text = inner.to_string();
                if !text.contains(&inner_text) {
                    text = format!("{text}: {inner_text}");
                }
                cause = inner.source();
            }
            text
        }
    }
}

/// The status that the engine answered with, if it answered.
pub(super) fn status(error: &Error) -> Option<u16> {
    match error {
        Error::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// Whether the engine has answered, and said no.
pub(super) fn is_answer(error: &Error) -> bool {
    matches!(
        error,
        Error::DockerResponseServerError { .. }
            | Error::DockerStreamError { .. }
            | Error::DockerContainerWaitError { .. }
    )
}

/// Whether the engine refused because it is about to end.
pub(super) fn is_shutdown(error: &Error) -> bool {
    let said = words(error).to_lowercase();
    said.contains("shutting down")
        || said.contains("grpc: the client connection is closing")
        || said.contains("containerd: ")
}
