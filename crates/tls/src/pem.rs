//! Certificates and keys from files in PEM.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{Error, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};

use crate::error::TlsError;
use crate::fingerprint::Fingerprint;
use crate::trust::provider;

/// All certificates of a file, in their order; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<_>, Error> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::NoCertificate { path: path.to_owned() }),
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(path, &error)),
    }
}

/// The first private key of a file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    match PrivateKeyDer::from_pem_slice(&read(path)?) {
        Ok(key) => Ok(key),
        Err(Error::NoItemsFound) => Err(TlsError::NoKey { path: path.to_owned() }),
        Err(error) => Err(wrong(path, &error)),
    }
}

/// What a server shows and proves: a certificate with those of its authorities, and its key.
#[derive(Debug, Clone)]
pub struct Identity {
    pub key: Arc<CertifiedKey>,
    pub fingerprint: Fingerprint,
}

impl Identity {
    /// Reads a certificate and its key, which must fit.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let first = chain.first().map(fingerprint_of);
        let fingerprint = first.ok_or_else(|| TlsError::NoCertificate { path: certificate.to_owned() })?;
        let fitted = CertifiedKey::from_der(chain, private_key(key)?, &provider());
        let fitted = fitted.map_err(|source| match source {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::OtherKey { certificate: certificate.to_owned(), key: key.to_owned() }
            }
            rustls::Error::InvalidCertificate(_) => {
                TlsError::Unusable { path: certificate.to_owned(), source }
            }
            _ => TlsError::UnusableKey { path: key.to_owned(), source },
        })?;
        Ok(Self { key: Arc::new(fitted), fingerprint })
    }
}

/// The SHA-256 of a certificate.
pub fn fingerprint_of(certificate: &CertificateDer<'_>) -> Fingerprint {
    Fingerprint::from_sha256(Sha256::digest(certificate.as_ref()).into())
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn wrong(path: &Path, error: &Error) -> TlsError {
    TlsError::Pem { path: path.to_owned(), detail: error.to_string() }
}
