//! Secrets as sealed boxes: made by the client, opened by workers, never by a scheduler.
//!
//! A value is sealed once for each public key of the fleet, with libsodium's `crypto_box_seal` (X25519, XSalsa20-Poly1305). Inside
//! the box, before the value, lies a header that names the secret, whose it is and its version. A worker compares it with
//! what it expects, so that a box that was stored under another name is refused.
//!
//! Guarantees: an opened value was sealed for exactly the expected [`Context`]; no value and no private key is ever printed by
//! `Debug` or named in an error, and both are overwritten in memory when they are dropped.

mod error;
mod frame;
mod keys;
mod sealing;
mod value;

pub use error::SealError;
pub use frame::Context;
pub use keys::{KeyPair, PublicKey};
pub use sealing::{open, seal};
pub use value::SecretValue;

/// The longest value in bytes. It must fit into a variable of a process, which takes 128 KiB.
pub const MAX_VALUE_BYTES: usize = 32 * 1024;
