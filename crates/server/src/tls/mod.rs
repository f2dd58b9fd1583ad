//! TLS of a scheduler: the certificate it shows, and the handshake of each connection.
//!
//! Guarantees: a certificate is shown only with the key that fits it; one that is replaced on disk is shown to new
//! connections within seconds, and one that cannot be used leaves the former in place; connections that are open go on.

mod handshake;
mod reload;
mod self_signed;

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use muster_tls::{Fingerprint, Identity, TlsError, provider};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

use crate::config::{ServerConfig, TlsConfig};
use crate::error::ServerError;

/// What a scheduler without HTTP/2 speaks.
const PROTOCOL: &[u8] = b"http/1.1";
/// What anybody beyond owner and group may do with a file.
const READ_BY_OTHERS: u32 = 0o004;

/// The files of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Pair {
    fn read(&self) -> Result<Identity, TlsError> {
        Identity::read(&self.certificate, &self.key)
    }
}

/// The certificate that new connections are shown.
#[derive(Debug)]
struct Shown(RwLock<Identity>);

impl Shown {
    fn now(&self) -> Identity {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, identity: Identity) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = identity;
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now().key)
    }
}

/// TLS of one scheduler.
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    shown: Arc<Shown>,
    pair: Pair,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("pair", &self.pair).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the certificate that is configured, or makes one. `None` for a scheduler without TLS.
    pub(crate) fn open(
        config: &ServerConfig,
        listening: Option<SocketAddr>,
    ) -> Result<Option<Arc<Self>>, ServerError> {
        let pair = match &config.tls {
            TlsConfig::Off => return Ok(None),
            TlsConfig::Files { certificate, key } => {
                Pair { certificate: certificate.clone(), key: key.clone() }
            }
            TlsConfig::SelfSigned => self_signed::find_or_make(config, listening)?,
        };
        warn_of_readers(&pair.key);
        let tls = Self::new(pair)?;
        tracing::info!(fingerprint = %tls.fingerprint(), certificate = %tls.pair.certificate.display(), "TLS is on");
        Ok(Some(Arc::new(tls)))
    }

    fn new(pair: Pair) -> Result<Self, TlsError> {
        let shown = Arc::new(Shown(RwLock::new(pair.read()?)));
        let builder = rustls::ServerConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| TlsError::Setup(error.to_string()))?;
        let resolver = Arc::clone(&shown) as Arc<dyn ResolvesServerCert>;
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self { acceptor: Arc::new(config).into(), shown, pair })
    }

    /// The certificate that is shown now.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.shown.now().fingerprint
    }
}

/// No refusal: secrets that Kubernetes mounts are readable for all in their container.
fn warn_of_readers(key: &Path) {
    if std::fs::metadata(key).is_ok_and(|found| found.mode() & READ_BY_OTHERS != 0) {
        tracing::warn!(path = %key.display(), "every user of this machine can read the key of the certificate: chmod 600");
    }
}
