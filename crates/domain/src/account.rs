//! Accounts and credentials: who exists, and what proves that a caller is who it says.
//!
//! Guarantees: what a caller shows is never kept, only its digest; a credential gives no more than the account behind it has at
//! that moment; after its end, or without its account, it gives nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::{Principal, UserRole};
use crate::by;
use crate::ids::{CredentialId, QueueName, WorkerId};
use crate::time::Timestamp;
use crate::webhook::Secret;

/// The longest name of a user or a credential, in bytes.
pub const MAX_NAME: usize = 64;

/// Somebody who may use the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub name: String,
    pub role: UserRole,
    /// The queues that it may submit to; `None` means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<QueueName>>,
    /// The hash of the password, with its salt and its cost; without one it cannot log in with a password, but have tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Who it is at the provider through which it logs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcSubject>,
    /// It can do nothing until it is enabled again.
    #[serde(default)]
    pub disabled: bool,
    pub created_at: Timestamp,
}

/// A person at an OIDC provider. Names can change hands there; a subject of an issuer never does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OidcSubject {
    pub issuer: String,
    pub subject: String,
}

/// What changes of an account; `None` leaves it as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountChange {
    pub role: Option<UserRole>,
    pub queues: Option<Option<Vec<QueueName>>>,
    pub password: Option<Secret>,
    pub disabled: Option<bool>,
    pub oidc: Option<Option<OidcSubject>>,
}

impl Account {
    pub fn apply(&mut self, change: &AccountChange) {
        if let Some(role) = change.role {
            self.role = role;
        }
        if let Some(queues) = &change.queues {
            self.queues.clone_from(queues);
        }
        if let Some(password) = &change.password {
            self.password = Some(password.clone());
        }
        if let Some(disabled) = change.disabled {
            self.disabled = disabled;
        }
        if let Some(oidc) = &change.oidc {
            self.oidc.clone_from(oidc);
        }
    }

    /// Whether it can still manage accounts.
    pub const fn is_acting_admin(&self) -> bool {
        matches!(self.role, UserRole::Admin) && !self.disabled
    }
}

/// How a user has logged in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginMethod {
    #[default]
    Password,
    /// At an OIDC provider.
    Oidc,
}

impl LoginMethod {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Password => "password",
            Self::Oidc => "oidc",
        }
    }
}

/// Whom a credential speaks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Bearer {
    /// A program of a user. It may have less than its user.
    Token {
        user: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<UserRole>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        queues: Option<Vec<QueueName>>,
    },
    /// A user who has logged in.
    Session {
        user: String,
        #[serde(default)]
        method: LoginMethod,
    },
    /// Machines that may become workers, so many times; with these tags only, if any are named.
    Join {
        uses: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tags: Option<Vec<String>>,
    },
    Worker {
        worker: WorkerId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tags: Option<Vec<String>>,
    },
}

impl Bearer {
    /// The user that it speaks for, if it is one.
    pub fn user(&self) -> Option<&str> {
        match self {
            Self::Token { user, .. } | Self::Session { user, .. } => Some(user),
            Self::Join { .. } | Self::Worker { .. } => None,
        }
    }

    /// How its user has logged in, if it is a session.
    pub const fn method(&self) -> Option<LoginMethod> {
        if let Self::Session { method, .. } = self { Some(*method) } else { None }
    }

    pub fn worker(&self) -> Option<&WorkerId> {
        if let Self::Worker { worker, .. } = self { Some(worker) } else { None }
    }

    /// Its kind, for people.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Token { .. } => "token",
            Self::Session { .. } => "session",
            Self::Join { .. } => "join",
            Self::Worker { .. } => "worker",
        }
    }
}

/// Something that a caller shows to prove who it is. What it shows is not in here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    pub id: CredentialId,
    pub name: String,
    pub bearer: Bearer,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// To the minute or so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_at: Option<Timestamp>,
}

/// Why a credential proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Worthless {
    #[error("it was revoked, or never existed")]
    Unknown,
    #[error("it ended at {}", .at.to_rfc3339())]
    Expired { at: Timestamp },
    #[error("the account behind it no longer exists")]
    NoAccount,
    #[error("the account behind it is disabled")]
    Disabled,
    #[error("it is used up")]
    UsedUp,
}

impl Credential {
    /// Whom it proves to call, at this moment.
    pub fn principal(&self, account: Option<&Account>, now: Timestamp) -> Result<Principal, Worthless> {
        if let Some(at) = self.expires_at.filter(|at| *at <= now) {
            return Err(Worthless::Expired { at });
        }
        match &self.bearer {
            Bearer::Token { role, queues, .. } => user(account, *role, queues.as_deref()),
            Bearer::Session { .. } => user(account, None, None),
            Bearer::Join { uses: 0, .. } => Err(Worthless::UsedUp),
            Bearer::Join { .. } => Ok(Principal::Joiner),
            Bearer::Worker { worker, tags } => {
                Ok(Principal::Worker { id: worker.clone(), tags: tags.clone() })
            }
        }
    }
}

/// The user behind an account, with no more than `role` and `queues`.
fn user(
    account: Option<&Account>,
    role: Option<UserRole>,
    queues: Option<&[QueueName]>,
) -> Result<Principal, Worthless> {
    let account = account.ok_or(Worthless::NoAccount)?;
    if account.disabled {
        return Err(Worthless::Disabled);
    }
    let both = match (&account.queues, queues) {
        (None, None) => None,
        (Some(own), None) => Some(own.clone()),
        (None, Some(given)) => Some(given.to_vec()),
        (Some(own), Some(given)) => Some(given.iter().filter(|queue| own.contains(queue)).cloned().collect()),
    };
    let role = role.map_or(account.role, |role| role.min(account.role));
    Ok(Principal::User { name: account.name.clone(), role, queues: both })
}

/// Whether a text can be the name of a user or a credential: letters, digits and `.-_@`, so that it reads the same in
/// addresses, files and logs.
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@');
    !text.is_empty() && text.len() <= MAX_NAME && text.chars().all(fits)
}

/// Whether a text can be the name of a user: one of those that stand for others in events cannot.
pub fn is_user_name(text: &str) -> bool {
    is_name(text) && !by::RESERVED.contains(&text)
}

/// One line of the audit log: who did what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    pub by: Actor,
    /// What was done or tried, such as `login.refused`.
    pub action: String,
    /// What it was done to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

/// Who is behind a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// A user, a worker, `local` or `scheduler`.
    pub name: String,
    /// The credential that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
