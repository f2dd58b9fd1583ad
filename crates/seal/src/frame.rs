//! What lies in a box: a line of JSON that says which secret it is, and the value after it.
//!
//! Guarantee: a frame is read only by someone who expects exactly its header.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::error::SealError;
use crate::value::SecretValue;

/// Which secret, whose, and the how many-th value of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub name: String,
    /// The queue whose jobs may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The user who owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub version: u64,
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} version {}", self.name, self.version)?;
        if let Some(queue) = &self.queue {
            write!(f, " of the queue {queue:?}")?;
        }
        if let Some(owner) = &self.owner {
            write!(f, " of {owner:?}")?;
        }
        Ok(())
    }
}

/// Header and value as they go into a box.
pub(crate) fn write(context: &Context, value: &SecretValue) -> Zeroizing<Vec<u8>> {
    // Plain values always have a JSON form, and JSON in one line has no line feed.
    let header = serde_json::to_vec(context).unwrap_or_default();
    let mut frame = Zeroizing::new(Vec::with_capacity(header.len() + 1 + value.bytes().len()));
    frame.extend_from_slice(&header);
    frame.push(b'\n');
    frame.extend_from_slice(value.bytes());
    frame
}

/// The value, if the header is the expected one.
pub(crate) fn read(frame: &[u8], expected: &Context) -> Result<SecretValue, SealError> {
    let end = frame.iter().position(|byte| *byte == b'\n').unwrap_or(frame.len());
    let found: Option<Context> = serde_json::from_slice(&frame[..end]).ok();
    match found {
        Some(found) if found == *expected => {
            Ok(SecretValue::new(frame.get(end + 1..).unwrap_or_default().to_vec()))
        }
        found => Err(SealError::Swapped {
            expected: expected.to_string(),
            found: found.map_or_else(|| "something else".to_owned(), |found| found.to_string()),
        }),
    }
}
