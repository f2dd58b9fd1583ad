//! Fresh identifiers. The only place that asks for randomness.

use muster_domain::{CredentialId, GangId, JobId, SetId, WebhookId};
use uuid::Uuid;

/// The id of a new job.
pub(crate) fn job() -> JobId {
    JobId::from_random(rand::random())
}

/// The id of a new gang.
pub(crate) fn gang() -> GangId {
    GangId::from_random(rand::random())
}

/// The id of a new pipeline or array.
pub(crate) fn set() -> SetId {
    SetId::from_random(rand::random())
}

/// The id of a new webhook.
pub(crate) fn webhook() -> WebhookId {
    WebhookId::from_random(rand::random())
}

/// The id of a new credential.
pub(crate) fn credential() -> CredentialId {
    CredentialId::from_random(rand::random())
}

/// The bits of a new credential.
pub(crate) fn key() -> [u8; 32] {
    rand::random()
}

/// The salt of a new password.
pub(crate) fn salt() -> [u8; 16] {
    rand::random()
}

/// A password that can be read aloud: 100 random bits, in letters and digits that are not mistaken for others.
pub(crate) fn password() -> String {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz23456789a";
    let bits: u128 = rand::random();
    let letter = |at: u32| char::from(LETTERS[(bits >> (5 * at) & 31) as usize]);
    (0..20).map(letter).collect()
}

/// A secret for a webhook: 256 random bits in hexadecimal.
pub(crate) fn secret() -> String {
    let (high, low): (u128, u128) = (rand::random(), rand::random());
    format!("{high:032x}{low:032x}")
}

/// The id of a request.
pub(crate) fn request() -> Uuid {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid()
}

/// The id of this start of the scheduler: the first characters of a UUID.
pub(crate) fn instance() -> String {
    let mut text = request().hyphenated().to_string();
    text.truncate(8);
    text
}
