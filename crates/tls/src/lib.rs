//! Whom a program of ours believes on the other end of a TLS connection, and how it says that it does not.
//!
//! The client, the scheduler (to its peers and to webhooks) and the PostgreSQL store all build their connections here, so
//! that there is one set of rules. The cryptography is that of rustls with `ring`.

mod error;
mod fingerprint;
mod pem;
mod trust;
mod verifier;

pub use error::{TlsError, Untrusted, untrusted};
pub use fingerprint::{Fingerprint, InvalidFingerprint};
pub use pem::{Identity, fingerprint_of};
pub use trust::{Pins, Trust, Verification, client_config, provider, roots_of, system_roots};
