//! The keys of a fleet: X25519 key pairs, as text for files and for the API.

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dryoc::classic::crypto_core::crypto_scalarmult_base;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::error::SealError;

/// How many bytes of the hash of a public key make its id.
const ID_BYTES: usize = 8;

/// The key that secrets are sealed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads base64.
    pub fn parse(text: &str) -> Result<Self, SealError> {
        decode(text).map(|bytes| Self(*bytes))
    }

    /// Reads a key that was announced under an id.
    pub fn announced(text: &str, id: &str) -> Result<Self, SealError> {
        let key = Self::parse(text)?;
        if key.id() != id {
            return Err(SealError::KeyId { given: key.to_string(), announced: id.to_owned() });
        }
        Ok(key)
    }

    /// A short name: the beginning of the SHA-256 of the key, in hexadecimal digits.
    pub fn id(&self) -> String {
        let mut id = String::with_capacity(2 * ID_BYTES);
        for byte in Sha256::digest(self.0).iter().take(ID_BYTES) {
            // Writing to a String cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
        id
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

/// A private key with its public half.
#[derive(Clone)]
pub struct KeyPair {
    private: Zeroizing<[u8; 32]>,
    public: PublicKey,
}

impl KeyPair {
    /// The pair of 32 random bytes.
    pub fn from_private(private: [u8; 32]) -> Self {
        let private = Zeroizing::new(private);
        let mut public = [0; 32];
        crypto_scalarmult_base(&mut public, &private);
        Self { private, public: PublicKey(public) }
    }

    /// Reads the base64 of a private key.
    pub fn parse(text: &str) -> Result<Self, SealError> {
        decode(text).map(|bytes| Self::from_private(*bytes))
    }

    /// The private key as base64, for its file.
    pub fn private_text(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(*self.private))
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn private(&self) -> &[u8; 32] {
        &self.private
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public.id())
    }
}

fn decode(text: &str) -> Result<Zeroizing<[u8; 32]>, SealError> {
    let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| SealError::KeyFormat)?);
    let bytes = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| SealError::KeyFormat)?;
    Ok(Zeroizing::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_as_text_and_private_ones_are_not_printed() {
        let pair = KeyPair::from_private([7; 32]);
        let again = KeyPair::parse(&format!(" {}\n", *pair.private_text())).unwrap();
        assert_eq!(again.public(), pair.public());
        assert_eq!(PublicKey::parse(&pair.public().to_string()).unwrap(), *pair.public());
        assert_eq!(format!("{pair:?}"), format!("KeyPair({})", pair.public().id()));
        assert_eq!(pair.public().id().len(), 16);
    }

    #[test]
    fn a_key_under_the_id_of_another_is_refused() {
        let [one, other] = [1, 2].map(|byte| KeyPair::from_private([byte; 32]).public().clone());
        assert_eq!(PublicKey::announced(&one.to_string(), &one.id()), Ok(one.clone()));
        assert!(matches!(PublicKey::announced(&one.to_string(), &other.id()), Err(SealError::KeyId { .. })));
        assert_eq!(PublicKey::parse("AAAA"), Err(SealError::KeyFormat));
        assert_eq!(PublicKey::parse("%"), Err(SealError::KeyFormat));
    }
}
