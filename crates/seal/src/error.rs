//! Why a value cannot be sealed, or a box not opened. No message holds a value or a private key.

/// What is wrong with a key, a value or a box.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("a key has 32 bytes in base64, and this one has not")]
    KeyFormat,
    #[error("the key {given} is announced under the id {announced}, which is the id of another key")]
    KeyId { given: String, announced: String },
    #[error("there is no key to seal the secret to")]
    NoRecipient,
    #[error("the value is empty")]
    Empty,
    #[error("the value has {bytes} bytes, and a secret has {most} at most")]
    TooLong { bytes: usize, most: usize },
    #[error("the secret cannot be sealed to the key {key}")]
    Refused { key: String },
    #[error("the secret {name:?} is sealed to {sealed_to}, and this worker has {}", keys(.own))]
    NotForUs { name: String, sealed_to: String, own: Vec<String> },
    #[error("the box of the secret {name:?} for the key {key} is damaged")]
    Damaged { name: String, key: String },
    #[error("the box that was stored as {expected} was sealed as {found}: it was swapped or copied")]
    Swapped { expected: String, found: String },
}

fn keys(ids: &[String]) -> String {
    if ids.is_empty() { "no key".to_owned() } else { format!("only {}", ids.join(", ")) }
}
