//! The keys that leave a terminal.

use std::str::FromStr;

/// A sequence of keys; empty when there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetachKeys(Vec<u8>);

impl Default for DetachKeys {
    /// Ctrl-P Ctrl-Q, as with containers.
    fn default() -> Self {
        Self(vec![0x10, 0x11])
    }
}

impl DetachKeys {
    /// Nothing that is typed leaves.
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }
}

impl FromStr for DetachKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let keys: Option<Vec<u8>> = text.split(',').map(key).collect();
        match keys {
            Some(keys) if keys.len() >= 2 => Ok(Self(keys)),
            Some(_) => {
                Err("one key alone could not be typed any more: write two or more, as ctrl-p,ctrl-q".into())
            }
            None => {
                Err("write keys with commas between them, as ctrl-p,ctrl-q or ~,. ; none turns them off"
                    .into())
            }
        }
    }
}

/// `ctrl-a` to `ctrl-z` and a few signs, or one letter.
fn key(text: &str) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    if let Some(held) = lower.strip_prefix("ctrl-") {
        return match held.as_bytes() {
            [letter @ b'a'..=b'z'] => Some(letter - b'a' + 1),
            [b'@'] => Some(0),
            [b'['] => Some(27),
            [b'\\'] => Some(28),
            [b']'] => Some(29),
            [b'^'] => Some(30),
            [b'_'] => Some(31),
            _ => None,
        };
    }
    match text.as_bytes() {
        [sign] if sign.is_ascii_graphic() => Some(*sign),
        _ => None,
    }
}

/// Looks for the keys in what is typed, and keeps back the beginning of them.
#[derive(Debug)]
pub(super) struct DetachFilter {
    keys: Vec<u8>,
    matched: usize,
}

/// What is left of something typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Bytes(Vec<u8>),
    /// The keys were among it; this came before them.
    Detach(Vec<u8>),
}

impl DetachFilter {
    pub(super) fn new(keys: DetachKeys) -> Self {
        Self { keys: keys.0, matched: 0 }
    }

    pub(super) fn pass(&mut self, bytes: &[u8]) -> Typed {
        if self.keys.is_empty() {
            return Typed::Bytes(bytes.to_vec());
        }
        let mut passed = Vec::with_capacity(bytes.len());
        for byte in bytes {
            if *byte == self.keys[self.matched] {
                self.matched += 1;
                if self.matched == self.keys.len() {
                    self.matched = 0;
                    return Typed::Detach(passed);
                }
                continue;
            }
            passed.extend(&self.keys[..self.matched]);
            self.matched = usize::from(*byte == self.keys[0]);
            if self.matched == 0 {
                passed.push(*byte);
            }
        }
        Typed::Bytes(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        assert_eq!("ctrl-p,ctrl-q".parse(), Ok(DetachKeys::default()));
        assert_eq!("~,.".parse(), Ok(DetachKeys(b"~.".to_vec())));
        assert_eq!("none".parse(), Ok(DetachKeys(Vec::new())));
        for wrong in ["ctrl-p", "", "ctrl-1,a", "ab,c"] {
            assert!(wrong.parse::<DetachKeys>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_keys_are_found_across_pieces_and_the_rest_passes() {
        let mut filter = DetachFilter::new(DetachKeys::default());
        assert_eq!(filter.pass(b"ab\x10"), Typed::Bytes(b"ab".to_vec()));
        assert_eq!(filter.pass(b"c"), Typed::Bytes(b"\x10c".to_vec()));
        assert_eq!(filter.pass(b"\x10\x10"), Typed::Bytes(b"\x10".to_vec()));
        assert_eq!(filter.pass(b"\x11 lost"), Typed::Detach(Vec::new()));
        let mut none = DetachFilter::new("none".parse().unwrap());
        assert_eq!(none.pass(b"\x10\x11"), Typed::Bytes(b"\x10\x11".to_vec()));
    }
}
