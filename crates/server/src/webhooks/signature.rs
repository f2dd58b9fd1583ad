//! The signature of a delivery: HMAC-SHA256 of the time of sending, a dot and the body.
//!
//! Guarantee: the time is signed with the body, so that a receiver can refuse old copies.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use muster_domain::Secret;
use sha2::Sha256;

/// The value of the header, such as `v1=5257a8...`.
pub(super) fn sign(secret: &Secret, timestamp: i64, body: &[u8]) -> String {
    // A key of any length is accepted.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) else {
        return String::new();
    };
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body);
    let mut text = String::from("v1=");
    for byte in mac.finalize().into_bytes() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_known() {
        // Made with: printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
        let signature = sign(&Secret::new("key"), 1_700_000_000, br#"{"a":1}"#);
        assert_eq!(signature, "v1=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03");
        assert_ne!(signature, sign(&Secret::new("key"), 1_700_000_001, br#"{"a":1}"#));
        assert_ne!(signature, sign(&Secret::new("yek"), 1_700_000_000, br#"{"a":1}"#));
    }
}
