//! Sealing a value to the keys of a fleet, and opening it with one of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dryoc::classic::crypto_box::{crypto_box_seal, crypto_box_seal_open};
use dryoc::constants::CRYPTO_BOX_SEALBYTES;
use muster_protocol::SealedBox;
use zeroize::Zeroizing;

use crate::MAX_VALUE_BYTES;
use crate::error::SealError;
use crate::frame::{self, Context};
use crate::keys::{KeyPair, PublicKey};
use crate::value::SecretValue;

/// One box for each key.
pub fn seal(
    value: &SecretValue,
    context: &Context,
    recipients: &[PublicKey],
) -> Result<Vec<SealedBox>, SealError> {
    if recipients.is_empty() {
        return Err(SealError::NoRecipient);
    }
    match value.bytes().len() {
        0 => return Err(SealError::Empty),
        bytes if bytes > MAX_VALUE_BYTES => return Err(SealError::TooLong { bytes, most: MAX_VALUE_BYTES }),
        _ => {}
    }
    let frame = frame::write(context, value);
    let seal_to = |key: &PublicKey| {
        let mut sealed = vec![0; frame.len() + CRYPTO_BOX_SEALBYTES];
        crypto_box_seal(&mut sealed, &frame, key.bytes())
            .map_err(|_| SealError::Refused { key: key.id() })?;
        Ok(SealedBox { key: key.id(), sealed: STANDARD.encode(sealed) })
    };
    recipients.iter().map(seal_to).collect()
}

/// The value, opened with the first key that one of the boxes is for.
pub fn open(boxes: &[SealedBox], context: &Context, keys: &[KeyPair]) -> Result<SecretValue, SealError> {
    let name = || context.name.clone();
    let ours = keys.iter().find_map(|pair| {
        let id = pair.public().id();
        Some((pair, boxes.iter().find(|sealed| sealed.key == id)?))
    });
    let Some((pair, found)) = ours else {
        let sealed_to: Vec<&str> = boxes.iter().map(|sealed| sealed.key.as_str()).collect();
        let sealed_to = if sealed_to.is_empty() { "other keys".to_owned() } else { sealed_to.join(", ") };
        let own = keys.iter().map(|pair| pair.public().id()).collect();
        return Err(SealError::NotForUs { name: name(), sealed_to, own });
    };
    let damaged = || SealError::Damaged { name: name(), key: found.key.clone() };
    let sealed = STANDARD.decode(&found.sealed).map_err(|_| damaged())?;
    let length = sealed.len().checked_sub(CRYPTO_BOX_SEALBYTES).ok_or_else(damaged)?;
    let mut opened = Zeroizing::new(vec![0; length]);
    crypto_box_seal_open(&mut opened, &sealed, pair.public().bytes(), pair.private())
        .map_err(|_| damaged())?;
    frame::read(&opened, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(name: &str, version: u64) -> Context {
        Context { name: name.into(), queue: Some("ml".into()), owner: None, version }
    }

    fn pair(byte: u8) -> KeyPair {
        KeyPair::from_private([byte; 32])
    }

    fn sealed(name: &str, version: u64, keys: &[&KeyPair]) -> Vec<SealedBox> {
        let keys: Vec<PublicKey> = keys.iter().map(|pair| pair.public().clone()).collect();
        seal(&SecretValue::new(b"open\nsesame\0\xff".to_vec()), &context(name, version), &keys).unwrap()
    }

    #[test]
    fn each_recipient_opens_it_and_nobody_else() {
        let (one, two, other) = (pair(1), pair(2), pair(3));
        let boxes = sealed("token", 1, &[&one, &two]);
        for own in [&one, &two] {
            let keys = [other.clone(), own.clone()];
            let value = open(&boxes, &context("token", 1), &keys).unwrap();
            assert_eq!(value.bytes(), b"open\nsesame\0\xff");
        }
        let error = open(&boxes, &context("token", 1), std::slice::from_ref(&other)).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, SealError::NotForUs { .. }) && text.contains("\"token\""), "{text}");
        assert!(text.contains(&one.public().id()) && text.contains(&other.public().id()), "{text}");
        let none = open(&[], &context("token", 1), &[]).unwrap_err().to_string();
        assert!(none.ends_with("and this worker has no key"), "{none}");
    }

    #[test]
    fn a_box_is_good_for_one_name_one_place_and_one_version() {
        let one = pair(1);
        let boxes = sealed("token", 3, &[&one]);
        let keys = [one];
        let elsewhere = Context { queue: None, ..context("token", 3) };
        let owned = Context { owner: Some("eve".into()), ..context("token", 3) };
        for wrong in [context("other", 3), context("token", 2), elsewhere, owned] {
            let error = open(&boxes, &wrong, &keys).unwrap_err();
            assert!(matches!(error, SealError::Swapped { .. }), "{error}");
            assert!(!error.to_string().contains("sesame"), "{error}");
        }
        assert!(open(&boxes, &context("token", 3), &keys).is_ok());
    }

    #[test]
    fn a_damaged_box_is_refused() {
        let one = pair(1);
        let mut boxes = sealed("token", 1, &[&one]);
        let mut bytes = STANDARD.decode(&boxes[0].sealed).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        let keys = [one];
        for text in [STANDARD.encode(&bytes), STANDARD.encode(&bytes[..20]), "?".to_owned()] {
            boxes[0].sealed = text;
            let error = open(&boxes, &context("token", 1), &keys).unwrap_err();
            assert!(matches!(error, SealError::Damaged { .. }), "{error}");
        }
    }

    #[test]
    fn values_have_bounds_and_need_a_key() {
        let key = [pair(1).public().clone()];
        let of = |length| SecretValue::new(vec![b'x'; length]);
        let seal_of = |length, keys| seal(&of(length), &context("token", 1), keys).map(drop);
        assert_eq!(seal_of(MAX_VALUE_BYTES, &key), Ok(()));
        assert_eq!(seal_of(0, &key), Err(SealError::Empty));
        let (bytes, most) = (MAX_VALUE_BYTES + 1, MAX_VALUE_BYTES);
        assert_eq!(seal_of(bytes, &key), Err(SealError::TooLong { bytes, most }));
        assert_eq!(seal_of(1, &[]), Err(SealError::NoRecipient));
        assert_eq!(format!("{:?}", of(3)), "SecretValue(***)");
    }
}
