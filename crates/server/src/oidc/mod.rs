//! Login through an OIDC provider: authorization code with PKCE for browsers, device code for terminals.
//!
//! Guarantees: a scheduler keeps nothing of a login under way, so that another one on the same store can finish it; nobody
//! is let in before the signature of the provider, the issuer, the audience, the times and, where a browser has begun it,
//! the nonce of the ID token are found right; a provider that is away costs a login and nothing else.

mod claims;
mod error;
mod exchange;
mod id_token;
mod provider;
mod remembered;
mod sealed;
mod signatures;

pub(crate) use claims::Person;
pub(crate) use error::{OidcError, repeated};
pub(crate) use exchange::{escaped, is_safe};
pub(crate) use id_token::MAX_SUBJECT;
pub(crate) use provider::{Progress, Provider};
pub(crate) use sealed::{Begun, CALLBACK, Carried, Device, LASTS, carried, cookie, local_path};

#[cfg(test)]
pub(crate) mod testing;
