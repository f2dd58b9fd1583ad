//! What can be wrong with certificates: those in files, and those that a server shows.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::fingerprint::Fingerprint;

/// Why certificates or keys of our own cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not in PEM: {detail}", path.display())]
    Pem { path: PathBuf, detail: String },
    #[error("{} has no certificate: a line BEGIN CERTIFICATE is expected", path.display())]
    NoCertificate { path: PathBuf },
    #[error("{} has no private key: a line BEGIN PRIVATE KEY is expected", path.display())]
    NoKey { path: PathBuf },
    #[error("{} has a certificate that cannot be used: {source}", path.display())]
    Unusable { path: PathBuf, source: rustls::Error },
    #[error("the key in {} cannot be used: {source}", path.display())]
    UnusableKey { path: PathBuf, source: rustls::Error },
    #[error(
        "the key in {} is not that of the first certificate in {}; the certificate of the server comes first, those of \
         authorities after it", key.display(), certificate.display()
    )]
    OtherKey { certificate: PathBuf, key: PathBuf },
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// Why the certificate that a server showed is not believed. Each variant tells what was seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("its certificate is {seen}, but {pinned} is pinned")]
    NotPinned { pinned: Fingerprint, seen: Fingerprint },
    #[error("no trusted CA has signed its certificate, {seen}")]
    UnknownIssuer { seen: Fingerprint },
    #[error("its certificate, {seen}, is for {presented} and not for {expected}")]
    WrongName { expected: String, presented: String, seen: Fingerprint },
    #[error("its certificate, {seen}, is refused: {reason}")]
    Refused { reason: String, seen: Fingerprint },
}

impl Untrusted {
    /// The certificate that the server showed.
    pub fn seen(&self) -> Fingerprint {
        match self {
            Self::NotPinned { seen, .. }
            | Self::UnknownIssuer { seen }
            | Self::WrongName { seen, .. }
            | Self::Refused { seen, .. } => *seen,
        }
    }
}

/// Looks through everything that led to an error for a certificate that was not believed.
pub fn untrusted<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Untrusted> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref::<rustls::Error>().and_then(inside) {
            return Some(found);
        }
        // An error of the system has the one that it wraps not as its source, but inside.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        cause = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

fn inside(error: &rustls::Error) -> Option<&Untrusted> {
    match error {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) => {
            other.0.downcast_ref::<Untrusted>()
        }
        _ => None,
    }
}
