//! Typed identifiers. None of them is interchangeable with a bare string or number.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! prefixed_id {
    ($name:ident, $prefix:literal, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// The text before the UUID.
            pub const PREFIX: &'static str = $prefix;

            /// Makes a version-4 id from random bytes that the caller supplies.
            pub fn from_random(bytes: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }

            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.hyphenated())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            /// Accepts the prefixed form and the bare hyphenated UUID.
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let bare = text.strip_prefix($prefix).unwrap_or(text);
                if bare.len() != 36 {
                    return Err(InvalidId { expected: $prefix, text: text.to_owned() });
                }
                let uuid = Uuid::try_parse(bare)
                    .map_err(|_| InvalidId { expected: $prefix, text: text.to_owned() })?;
                Ok(Self(uuid))
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

prefixed_id!(JobId, "job-", "A job, written `job-<uuid>`.");
prefixed_id!(SetId, "set-", "A pipeline or an array, written `set-<uuid>`.");
prefixed_id!(WebhookId, "hook-", "A webhook, written `hook-<uuid>`.");
prefixed_id!(
    CredentialId,
    "cred-",
    "A token, a session, a join token or the key of a worker, written `cred-<uuid>`."
);
prefixed_id!(GangId, "gang-", "A gang, written `gang-<uuid>`.");

/// A text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id of the form {expected}<uuid>")]
pub struct InvalidId {
    pub expected: &'static str,
    pub text: String,
}

macro_rules! name_type {
    ($name:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(name: impl Into<String>) -> Self {
                Self(Arc::from(name.into()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            pub fn into_string(self) -> String {
                self.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

name_type!(WorkerId, "The name a worker chose for itself.");
name_type!(QueueName, "The name of a queue.");

/// The fencing number of a claim. It only grows over the life of a job; 0 means never claimed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lease(pub u64);

impl Lease {
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_ids_round_trip_and_accept_the_bare_form() {
        let id = JobId::from_random([7; 16]);
        assert!(id.to_string().starts_with("job-"));
        assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        assert_eq!(id.to_string()[4..].parse::<JobId>().unwrap(), id);
        assert_eq!(id.as_uuid().get_version_num(), 4);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "job-", "job-1", "next", "gang-67e55044-10b1-426f-9247-bb680e5fe0c8", "job-\u{0}"] {
            assert!(text.parse::<JobId>().is_err(), "{text:?}");
        }
    }
}
