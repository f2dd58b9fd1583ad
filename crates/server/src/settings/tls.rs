//! The flags about TLS.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::TlsConfig;
use crate::error::ServerError;

/// The certificate that a scheduler shows, and whom it believes itself.
#[derive(Debug, Clone, Default, Args)]
pub struct TlsArgs {
    /// The certificate to serve HTTPS with, in PEM, followed by intermediate CA certificates. Read again when it changes;
    /// needs --tls-key
    #[arg(long, value_name = "FILE", env = "MUSTER_TLS_CERT")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", env = "MUSTER_TLS_KEY")]
    pub tls_key: Option<PathBuf>,
    /// Serve HTTPS with a certificate that the scheduler makes once, in the folder tls of the data directory. Clients pin
    /// the fingerprint that it logs (--tls-fingerprint)
    #[arg(long, env = "MUSTER_TLS_SELF_SIGNED")]
    pub tls_self_signed: bool,
    /// CA certificates, in PEM, that are trusted beside those of the system: for reading from other schedulers and for
    /// webhooks
    #[arg(long, value_name = "FILE", env = "MUSTER_CA_FILE")]
    pub ca_file: Option<PathBuf>,
}

/// An empty variable is none.
fn given(path: Option<&PathBuf>) -> Option<&Path> {
    path.map(PathBuf::as_path).filter(|path| !path.as_os_str().is_empty())
}

impl TlsArgs {
    /// Refuses half a pair, and two certificates at once.
    pub(super) fn check(&self) -> Result<(), ServerError> {
        let (certificate, key) = (given(self.tls_cert.as_ref()), given(self.tls_key.as_ref()));
        let wrong = |name: &str, value: &Path, problem: &str| {
            let value = value.display().to_string();
            Err(ServerError::Setting { name: name.to_owned(), value, problem: problem.to_owned() })
        };
        match (certificate, key) {
            (Some(path), None) => {
                wrong("--tls-cert", path, "the key of the certificate is missing: add --tls-key")
            }
            (None, Some(path)) => {
                wrong("--tls-key", path, "the certificate of the key is missing: add --tls-cert")
            }
            (Some(path), Some(_)) if self.tls_self_signed => {
                wrong("--tls-cert", path, "there is --tls-self-signed as well: use one of both")
            }
            (Some(_), Some(_)) | (None, None) => Ok(()),
        }
    }

    pub(super) fn config(&self) -> TlsConfig {
        match (given(self.tls_cert.as_ref()), given(self.tls_key.as_ref())) {
            (Some(certificate), Some(key)) => {
                TlsConfig::Files { certificate: certificate.to_owned(), key: key.to_owned() }
            }
            _ if self.tls_self_signed => TlsConfig::SelfSigned,
            _ => TlsConfig::Off,
        }
    }

    pub(super) fn authorities(&self) -> Option<PathBuf> {
        given(self.ca_file.as_ref()).map(Path::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_comes_with_its_key_or_not_at_all() {
        let args = |certificate: &str, key: &str, tls_self_signed| TlsArgs {
            tls_cert: Some(certificate.into()),
            tls_key: Some(key.into()),
            tls_self_signed,
            ca_file: None,
        };
        let problem = |args: TlsArgs| args.check().unwrap_err().to_string();
        assert!(problem(args("c.pem", "", false)).contains("add --tls-key"));
        assert!(problem(args("", "k.pem", false)).contains("add --tls-cert"));
        assert!(problem(args("c.pem", "k.pem", true)).contains("use one of both"));
        let both = args("c.pem", "k.pem", false);
        assert!(both.check().is_ok());
        assert_eq!(both.config(), TlsConfig::Files { certificate: "c.pem".into(), key: "k.pem".into() });
        assert_eq!(args("", "", true).config(), TlsConfig::SelfSigned);
        assert_eq!(args("", "", false).config(), TlsConfig::Off);
    }
}
