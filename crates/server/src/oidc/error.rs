//! What can go wrong with a login at a provider, and how it is answered.
//!
//! Guarantee: no message has a code, a token or the secret of the client in it.

use http::StatusCode;

use super::id_token::Unfit;
use crate::error::ApiError;

/// Characters of what a provider says that are repeated.
const SHOWN: usize = 300;

/// Why nobody is let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OidcError {
    #[error("the login provider {issuer} cannot be asked: {cause}")]
    Unreachable { issuer: String, cause: String },
    #[error("the login provider {issuer} answers what cannot be used: {detail}")]
    Nonsense { issuer: String, detail: String },
    #[error("the login provider has refused: {said}")]
    Refused { said: String },
    #[error("the login was denied at the provider")]
    Denied,
    #[error("the code has expired: begin the login again")]
    Expired,
    #[error("the ID token of the login provider is not accepted: {0}")]
    IdToken(#[from] Unfit),
    #[error(
        "the login provider {issuer} has no device login: log in with a browser, or with a token of yours \
         (`muster login --token-stdin`)"
    )]
    NoDeviceLogin { issuer: String },
    #[error("{0}")]
    NotAllowed(String),
    #[error("{0}")]
    NotBegun(String),
}

impl OidcError {
    /// Whether it concerns a person confirmed by the provider, or a forged token: the audit log then has a line.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::IdToken(_) | Self::NotAllowed(_))
    }
}

/// What a provider says, fit to be shown.
pub(crate) fn repeated(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect()
}

impl From<OidcError> for ApiError {
    fn from(error: OidcError) -> Self {
        use StatusCode as S;
        let (status, code) = match &error {
            OidcError::Unreachable { .. } => (S::SERVICE_UNAVAILABLE, "provider_unavailable"),
            OidcError::Nonsense { .. } => (S::BAD_GATEWAY, "provider_answer"),
            OidcError::IdToken(_) => (S::BAD_GATEWAY, "id_token_refused"),
            OidcError::Refused { .. } => (S::BAD_REQUEST, "login_refused"),
            OidcError::Denied => (S::FORBIDDEN, "login_denied"),
            OidcError::Expired => (S::GONE, "login_expired"),
            OidcError::NoDeviceLogin { .. } => (S::CONFLICT, "no_device_login"),
            OidcError::NotAllowed(_) => (S::FORBIDDEN, "no_role"),
            OidcError::NotBegun(_) => (S::BAD_REQUEST, "login_not_begun"),
        };
        if status.is_server_error() {
            tracing::warn!(%error, "a login at the provider failed");
        }
        Self::refused(status, code, error.to_string())
    }
}
