//! The signatures of ID tokens, verified by `ring`, which TLS uses as well.
//!
//! Guarantees: only public keys verify; a key serves its own family of algorithms only; nothing here can sign.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{self as ring_signature, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};

/// The algorithms that are accepted, by the family of the key.
pub(super) const ACCEPTED: [AlgorithmFamily; 3] =
    [AlgorithmFamily::Rsa, AlgorithmFamily::Ec, AlgorithmFamily::Ed];

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| unsupported(),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    key_utils: KeyUtils {
        rsa_pub_components_from_private_key: |_| unsupported(),
        rsa_pub_components_from_public_key: |_| unsupported(),
        ec_pub_components_from_private_key: |_, _| unsupported(),
        ed_pub_components_from_private_key: |_, _| unsupported(),
        compute_digest: |_, _| unsupported(),
    },
};

/// Has the library use it. Call it before anything is verified.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    // There is no other one in these programs.
    ONCE.call_once(|| {
        let _ = PROVIDER.install_default();
    });
}

fn unsupported<T>() -> Result<T> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if !ACCEPTED.contains(&key.family()) || !key.family().algorithms().contains(&algorithm) {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Public { algorithm, key: key.clone() }))
}

struct Public {
    algorithm: Algorithm,
    key: DecodingKey,
}

impl JwtVerifier for Public {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for Public {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (rsa(self.algorithm), self.key.kind()) {
            (Some(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (None, DecodingKeyKind::SecretOrDer(point)) => match self.algorithm {
                Algorithm::ES256 => UnparsedPublicKey::new(&ring_signature::ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature),
                Algorithm::ES384 => UnparsedPublicKey::new(&ring_signature::ECDSA_P384_SHA384_FIXED, point)
                    .verify(message, signature),
                Algorithm::EdDSA => {
                    UnparsedPublicKey::new(&ring_signature::ED25519, point).verify(message, signature)
                }
                _ => return Err(Error::new()),
            },
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::RS256 => Some(&ring_signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Some(&ring_signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Some(&ring_signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Some(&ring_signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Some(&ring_signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Some(&ring_signature::RSA_PSS_2048_8192_SHA512),
        _ => None,
    }
}
