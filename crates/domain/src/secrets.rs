//! Secrets as the scheduler knows them: sealed, with a name and somebody who may use them. It cannot open them.
//!
//! Guarantee: who may use or change a secret is decided by [`may_use`] and [`may_change`] and nowhere else.

use serde::{Deserialize, Serialize};

use crate::access::{Principal, UserRole};
use crate::ids::QueueName;
use crate::time::Timestamp;

/// The most secrets that one job gets.
pub const MAX_SECRETS_OF_A_JOB: usize = 16;
/// The most keys that a secret is sealed to.
pub const MAX_BOXES: usize = 256;
/// Bytes of the name of a secret or a variable.
pub const MAX_SECRET_NAME: usize = 128;

/// A value that is sealed to one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedBox {
    pub key: String,
    pub sealed: String,
}

/// A public key that values can be sealed to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SealingKey {
    pub id: String,
    pub public_key: String,
}

/// A secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSecret {
    pub name: String,
    /// Jobs of this queue may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Otherwise jobs of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Grows by 1 with each change.
    pub version: u64,
    pub boxes: Vec<SealedBox>,
    pub updated_at: Timestamp,
}

/// A secret that a job gets, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretUse {
    pub name: String,
    pub variable: String,
    /// The variable names a file with the value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub file: bool,
}

/// Why somebody may not use or change a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretDenied {
    #[error("the secret {name:?} is for jobs of the queue {queue}")]
    OtherQueue { name: String, queue: QueueName },
    #[error("the secret {name:?} belongs to another user")]
    OtherUser { name: String },
    #[error("secrets of queues are changed by operators")]
    NotOperator,
}

/// Whether `principal` may submit a job of `queue` that gets the secret. Who may submit to the queue is decided elsewhere.
pub fn may_use(
    principal: &Principal,
    secret: &SealedSecret,
    queue: Option<&QueueName>,
) -> Result<(), SecretDenied> {
    match &secret.queue {
        Some(own) if queue == Some(own) => Ok(()),
        Some(own) => Err(SecretDenied::OtherQueue { name: secret.name.clone(), queue: own.clone() }),
        None => may_own(principal, secret),
    }
}

/// Whether `principal` may store, replace or remove the secret.
pub fn may_change(principal: &Principal, secret: &SealedSecret) -> Result<(), SecretDenied> {
    match principal {
        Principal::User { role: UserRole::Operator | UserRole::Admin, .. } => Ok(()),
        Principal::User { .. } if secret.queue.is_some() => Err(SecretDenied::NotOperator),
        _ => may_own(principal, secret),
    }
}

fn may_own(principal: &Principal, secret: &SealedSecret) -> Result<(), SecretDenied> {
    let own = match principal {
        Principal::Local => true,
        Principal::User { name, .. } => secret.owner.as_deref() == Some(name),
        Principal::Stranger(_)
        | Principal::Keyless(_)
        | Principal::Worker { .. }
        | Principal::Joiner
        | Principal::Job(_) => false,
    };
    if own { Ok(()) } else { Err(SecretDenied::OtherUser { name: secret.name.clone() }) }
}

/// Whether a text can be the name of a secret.
pub fn is_secret_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first && text.len() <= MAX_SECRET_NAME && text.bytes().all(allowed)
}

/// Whether a secret can be handed over in a variable of this name. Those of the scheduler itself cannot be replaced.
pub fn is_secret_variable(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    first && text.len() <= MAX_SECRET_NAME && text.bytes().all(allowed) && !text.starts_with("MUSTER_")
}

/// The variable of a secret for which none was named.
pub fn usual_variable(name: &str, file: bool) -> String {
    let plain = name.replace(['-', '.'], "_");
    if file { format!("{plain}_FILE") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Unproven;

    fn secret(queue: Option<&str>, owner: Option<&str>) -> SealedSecret {
        SealedSecret {
            name: "token".into(),
            queue: queue.map(QueueName::new),
            owner: owner.map(str::to_owned),
            version: 1,
            boxes: Vec::new(),
            updated_at: Timestamp::from_micros(0),
        }
    }

    fn user(name: &str, role: UserRole) -> Principal {
        Principal::User { name: name.into(), role, queues: None }
    }

    #[test]
    fn a_secret_is_used_by_its_owner_or_in_its_queue() {
        let (ml, hr) = (QueueName::new("ml"), QueueName::new("hr"));
        let (of_queue, of_ada) = (secret(Some("ml"), None), secret(None, Some("ada")));
        let cases = [
            (Principal::Local, &of_queue, Some(&ml), true),
            (Principal::Local, &of_queue, Some(&hr), false),
            (Principal::Local, &of_queue, None, false),
            (Principal::Local, &of_ada, None, true),
            (user("ada", UserRole::User), &of_ada, Some(&hr), true),
            (user("eve", UserRole::User), &of_ada, None, false),
            (user("eve", UserRole::Operator), &of_ada, None, false),
            (user("eve", UserRole::Admin), &of_ada, None, false),
            (user("eve", UserRole::User), &of_queue, Some(&ml), true),
            (Principal::Stranger(Unproven::OwnerUnknown { scheduler: 1 }), &of_ada, None, false),
        ];
        for (principal, secret, queue, allowed) in cases {
            assert_eq!(
                may_use(&principal, secret, queue).is_ok(),
                allowed,
                "{principal:?} {secret:?} {queue:?}"
            );
        }
    }

    #[test]
    fn a_secret_is_changed_by_its_owner_and_by_operators() {
        let (of_queue, of_ada) = (secret(Some("ml"), None), secret(None, Some("ada")));
        let cases = [
            (Principal::Local, true, true),
            (user("ada", UserRole::User), false, true),
            (user("eve", UserRole::User), false, false),
            (user("eve", UserRole::Operator), true, true),
            (user("eve", UserRole::Admin), true, true),
        ];
        for (principal, queues, adas) in cases {
            assert_eq!(may_change(&principal, &of_queue).is_ok(), queues, "{principal:?}");
            assert_eq!(may_change(&principal, &of_ada).is_ok(), adas, "{principal:?}");
        }
    }

    #[test]
    fn names_and_variables() {
        for good in ["HF_TOKEN", "db", "a-b.c", "_x", "0"] {
            assert!(is_secret_name(good), "{good}");
        }
        for bad in ["", "-a", ".a", "a b", "a/b", "ä", "a=b", &"x".repeat(129)] {
            assert!(!is_secret_name(bad), "{bad}");
        }
        assert!(is_secret_variable("HF_TOKEN") && is_secret_variable("_x1"));
        for bad in ["", "1x", "a-b", "a b", "MUSTER_TOKEN", "a=b"] {
            assert!(!is_secret_variable(bad), "{bad}");
        }
        assert_eq!(usual_variable("db.pass-word", false), "db_pass_word");
        assert_eq!(usual_variable("db", true), "db_FILE");
    }
}
