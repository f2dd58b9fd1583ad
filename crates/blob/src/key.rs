//! The name of an object.
//!
//! Guarantee: a key is also a relative path that stays inside, and a URL path that needs no escapes.

use std::fmt;

/// Letters, digits, `.`, `_`, `-` and `/`; no empty segment and none of dots only. Of two keys, `a` and `a/b`, a directory
/// can keep only one: whoever makes keys sees to it that none is a folder of others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobKey(String);

/// A name that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no key of an object: a key has up to 512 letters, digits, '.', '_', '-', in segments between '/'"
)]
pub struct InvalidKey(String);

const LONGEST: usize = 512;
/// What file systems take for one name.
const LONGEST_SEGMENT: usize = 200;

impl BlobKey {
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        let good = |segment: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !segment.is_empty()
                && segment.len() <= LONGEST_SEGMENT
                && segment.bytes().all(plain)
                && segment.bytes().any(|byte| byte != b'.')
        };
        if text.len() > LONGEST || !text.split('/').all(good) {
            return Err(InvalidKey(text.chars().take(80).collect()));
        }
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_inside() {
        for good in ["a", "artifacts/job-1/2/3f", "a.b/_c-d", ".hidden"] {
            assert_eq!(BlobKey::new(good).unwrap().as_str(), good);
        }
        let long = "a/".repeat(300);
        for wrong in ["", "/a", "a/", "a//b", "..", "a/../b", "a/./b", "a b", "\u{e4}", "a%2e", "a\\b", &long]
        {
            assert!(BlobKey::new(wrong).is_err(), "{wrong}");
        }
    }
}
