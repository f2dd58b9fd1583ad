//! The verifier: decides by one rule whether a certificate is believed, and names the one that is not.
//!
//! Guarantee: under every rule the server must sign the handshake with the key of the certificate it shows. A pinned
//! certificate without its key is worth nothing.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::error::Untrusted;
use crate::fingerprint::Fingerprint;
use crate::pem::fingerprint_of;
use crate::trust::Pins;

type Authorities = Option<Arc<WebPkiServerVerifier>>;

/// What makes a certificate believed.
#[derive(Debug)]
pub(crate) enum Rule {
    Anyone,
    Signed(Authorities),
    Named { authorities: Authorities, pins: Pins },
    Pinned(Fingerprint),
}

#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) rule: Rule,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let seen = fingerprint_of(end_entity);
        let ask = |authorities: &Authorities| match authorities {
            Some(authorities) => {
                authorities.verify_server_cert(end_entity, intermediates, server_name, &[], now).map(|_| ())
            }
            None => Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
        };
        let judged = match &self.rule {
            Rule::Anyone => Ok(()),
            Rule::Pinned(pinned) if *pinned == seen => Ok(()),
            Rule::Pinned(pinned) => Err(Untrusted::NotPinned { pinned: *pinned, seen }),
            Rule::Named { pins, .. } if pins.contain(&seen) => Ok(()),
            Rule::Named { authorities, .. } => ask(authorities).map_err(|error| explain(error, seen)),
            // The name is looked at last, so that all the rest was found good.
            Rule::Signed(authorities) => match ask(authorities).map_err(|error| explain(error, seen)) {
                Ok(()) | Err(Untrusted::WrongName { .. }) => Ok(()),
                Err(untrusted) => Err(untrusted),
            },
        };
        match judged {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(untrusted) => {
                Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(untrusted)))))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn explain(error: Error, seen: Fingerprint) -> Untrusted {
    match error {
        // An authority of the same name as one that is trusted, but with another key, is another one.
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            Untrusted::UnknownIssuer { seen }
        }
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
            Untrusted::WrongName {
                expected: expected.to_str().into_owned(),
                presented: names(&presented),
                seen,
            }
        }
        Error::InvalidCertificate(CertificateError::NotValidForName) => {
            Untrusted::WrongName { expected: "this name".to_owned(), presented: names(&[]), seen }
        }
        other => Untrusted::Refused { reason: other.to_string(), seen },
    }
}

/// They come as `DnsName("muster.example")` and `IpAddress(127.0.0.1)`.
fn names(presented: &[String]) -> String {
    if presented.is_empty() {
        return "other names".to_owned();
    }
    let bare = |name: &String| {
        let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
        inner.unwrap_or(name).trim_matches('"').to_owned()
    };
    presented.iter().map(bare).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "verifier_tests.rs"]
mod tests;
