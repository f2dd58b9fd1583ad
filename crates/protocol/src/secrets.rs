//! Secrets on the wire: sealed boxes, what is known of them, and how jobs ask for them. No value is ever among it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A value that is sealed to one public key of the fleet (libsodium's `crypto_box_seal`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedBox {
    /// The id of the public key.
    pub key: String,
    /// The box in base64.
    pub sealed: String,
}

/// What `PUT /secrets/{name}` takes: a value that the client has sealed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SecretRequest {
    /// Jobs of this queue may use the secret. Either a queue or an owner is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The user who owns the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// 1 for a new secret, and one more than the present version otherwise.
    #[schema(minimum = 1)]
    pub version: u64,
    /// One box for each key.
    #[schema(min_items = 1)]
    pub boxes: Vec<SealedBox>,
}

/// What is known of a secret. Neither the value nor its sealed form is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretSummary {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Grows by 1 with each change.
    pub version: u64,
    /// The ids of the keys that it is sealed to.
    pub keys: Vec<String>,
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Timestamp,
}

/// A public key of a worker, under its id: the first 16 hexadecimal digits of the SHA-256 of the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealingKey {
    pub id: String,
    /// 32 bytes in base64 (X25519).
    pub public_key: String,
}

/// A public key of the fleet, with those who have the private half.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetKey {
    pub id: String,
    /// 32 bytes in base64 (X25519).
    pub public_key: String,
    pub workers: Vec<String>,
}

/// A secret that a job asks for: its name, or its name and how it is to be handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SecretWish {
    #[schema(title = "Name")]
    Name(String),
    #[schema(title = "Use")]
    Use(SecretUse),
}

/// How a job gets a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretUse {
    pub name: String,
    /// As a file in memory, which the variable names; otherwise the variable holds the value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub file: bool,
    /// The variable; the name of the secret when absent, with `_FILE` at its end for a file.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// A secret in a claim: what the worker needs to open it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SealedSecret {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub version: u64,
    /// Those for the keys that the claiming worker has announced.
    pub boxes: Vec<SealedBox>,
}
