//! What a program was told about whom to believe, and the settings of rustls that follow.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, RootCertStore};

use crate::error::TlsError;
use crate::fingerprint::Fingerprint;
use crate::pem;
use crate::verifier::{Rule, Verifier};

/// Whom a client believes: a server with one certificate, or any that an authority vouches for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// Authorities beside those that the machine trusts.
    pub ca_file: Option<PathBuf>,
    /// The one certificate that is accepted; then no authority counts, nor the name, nor the time.
    pub fingerprint: Option<Fingerprint>,
}

impl Trust {
    /// Reads what it needs from files.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        if let Some(fingerprint) = self.fingerprint {
            return client_config(Verification::Pinned(fingerprint));
        }
        self.client_config_with(Pins::default())
    }

    /// For a scheduler that reads from others: one of `pins`, or whoever an authority vouches for.
    pub fn client_config_with(&self, pins: Pins) -> Result<ClientConfig, TlsError> {
        client_config(Verification::Named { roots: roots(self.ca_file.as_deref())?, pins })
    }
}

/// Certificates that are accepted as they are; shared, and may change at any time.
#[derive(Debug, Clone, Default)]
pub struct Pins(Arc<RwLock<BTreeSet<Fingerprint>>>);

impl Pins {
    /// Takes these in place of the former ones.
    pub fn replace(&self, pins: BTreeSet<Fingerprint>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pins;
    }

    pub(crate) fn contain(&self, fingerprint: &Fingerprint) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(fingerprint)
    }
}

/// What is asked of a server's certificate.
#[derive(Debug)]
pub enum Verification {
    /// Nothing: the connection is encrypted, with whomever it is.
    Nobody,
    /// That an authority signed it.
    Signed(RootCertStore),
    /// That an authority signed it for that name; or that it is pinned.
    Named { roots: RootCertStore, pins: Pins },
    /// That it is this one.
    Pinned(Fingerprint),
}

/// The settings of a client. In every case the server proves that it has the key of the certificate.
pub fn client_config(verification: Verification) -> Result<ClientConfig, TlsError> {
    let provider = provider();
    let rule = match verification {
        Verification::Nobody => Rule::Anyone,
        Verification::Signed(roots) => Rule::Signed(authorities(roots, &provider)?),
        Verification::Named { roots, pins } => {
            Rule::Named { authorities: authorities(roots, &provider)?, pins }
        }
        Verification::Pinned(fingerprint) => Rule::Pinned(fingerprint),
    };
    let verifier = Verifier { rule, algorithms: provider.signature_verification_algorithms };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| TlsError::Setup(error.to_string()))?;
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

/// The cryptography that all of our programs use.
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The authorities of this machine and those of the file.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = system_roots();
    if let Some(path) = ca_file {
        roots.roots.extend(roots_of(path)?.roots);
    }
    Ok(roots)
}

/// The authorities that the machine trusts; `SSL_CERT_FILE` and `SSL_CERT_DIR` take their place. There may be none.
pub fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be read vouches for nobody; that is all there is to say about it.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// The authorities of a file. Each must be usable, since somebody chose them.
pub fn roots_of(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in pem::certificates(path)? {
        let added = roots.add(certificate);
        added.map_err(|source| TlsError::Unusable { path: path.to_owned(), source })?;
    }
    Ok(roots)
}

/// `None` when there is no authority: then nobody is believed, which is no reason not to start.
fn authorities(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<WebPkiServerVerifier>>, TlsError> {
    if roots.is_empty() {
        return Ok(None);
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    builder.build().map(Some).map_err(|error| TlsError::Setup(error.to_string()))
}
