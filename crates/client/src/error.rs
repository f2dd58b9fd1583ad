//! What can go wrong with a call.

use std::time::Duration;

use http::StatusCode;
use muster_tls::{TlsError, Untrusted};

use crate::transport::BoxError;

/// Why a call has no result. After any variant but `Refused`, `Untrusted` and those about our own input the scheduler may
/// or may not have acted on the request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{url:?} is not the URL of a scheduler: {why}")]
    InvalidUrl { url: String, why: &'static str },
    #[error("cannot reach the scheduler at {url}: {}", root_cause(.source))]
    Unreachable { url: String, source: BoxError },
    /// The certificate of the scheduler is not believed; nothing was sent.
    #[error("cannot trust the scheduler at {url}: {problem}; {}", advice(.problem))]
    Untrusted { url: String, problem: Untrusted },
    #[error("{0}")]
    Certificates(TlsError),
    #[error("the scheduler at {url} did not answer within {} ms", .after.as_millis())]
    TimedOut { url: String, after: Duration },
    #[error("the answer of the scheduler at {url} broke off: {}", root_cause(.source))]
    Interrupted { url: String, source: BoxError },
    /// The scheduler answered with an error; `message` is its text.
    #[error("the scheduler answered {status}: {message}")]
    Refused { status: StatusCode, message: String },
    #[error("cannot encode the body of {path}")]
    Encode { path: String, source: serde_json::Error },
    #[error("the answer to {path} is not what was expected: {source}")]
    Decode { path: String, source: serde_json::Error },
    #[error("the {name} has characters that cannot be sent; use letters, digits and simple signs")]
    InvalidHeader { name: &'static str, source: http::header::InvalidHeaderValue },
    #[error("{path:?} is not a path")]
    InvalidPath { path: String, source: http::uri::InvalidUri },
}

impl ClientError {
    /// Whether the same request may succeed later: nothing answered, or the scheduler says it is busy.
    pub fn is_transient(&self) -> bool {
        match self {
            // Nothing was sent, and the certificate may be another one tomorrow: a worker keeps what it has to say.
            Self::Unreachable { .. }
            | Self::Untrusted { .. }
            | Self::TimedOut { .. }
            | Self::Interrupted { .. } => true,
            Self::Refused { status, .. } => {
                status.is_server_error()
                    || *status == StatusCode::REQUEST_TIMEOUT
                    || *status == StatusCode::TOO_MANY_REQUESTS
            }
            Self::InvalidUrl { .. }
            | Self::Certificates(_)
            | Self::Encode { .. }
            | Self::InvalidHeader { .. }
            | Self::Decode { .. }
            | Self::InvalidPath { .. } => false,
        }
    }

    /// The status of an answer that refused the request.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// What a person does about a certificate that is not believed.
fn advice(problem: &Untrusted) -> String {
    let seen = problem.seen();
    match problem {
        Untrusted::NotPinned { .. } => {
            "somebody may be in between. If the scheduler has a new certificate, compare the fingerprint that it logs \
             and pin that one"
                .to_owned()
        }
        Untrusted::UnknownIssuer { .. } => format!(
            "if that is the fingerprint that the scheduler logs, pin it with --tls-fingerprint {seen} \
             (MUSTER_TLS_FINGERPRINT), or name the CA that signed it with --ca-file (MUSTER_CA_FILE)"
        ),
        Untrusted::WrongName { .. } | Untrusted::Refused { .. } => format!(
            "use a URL with a name of the certificate, or pin it with --tls-fingerprint {seen} \
             (MUSTER_TLS_FINGERPRINT) if that is the fingerprint that the scheduler logs"
        ),
    }
}

/// The innermost cause says more to people than the layers of the HTTP stack around it.
fn root_cause(error: &BoxError) -> String {
    let mut cause: &dyn std::error::Error = error.as_ref();
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    if text.contains("InvalidContentType") {
        return "it does not speak TLS: use http://".to_owned();
    }
    text
}
