//! Accounts, credentials and the audit log on the wire.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What `POST /auth/login` takes.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct LoginRequest {
    pub user: String,
    pub password: String,
}

/// What `POST /auth/password` takes.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct PasswordChange {
    pub old: String,
    pub new: String,
}

/// A credential in the one answer that shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Issued {
    /// What its holder shows as `Authorization: Bearer`. It is not shown again.
    pub token: String,
    #[serde(flatten)]
    pub credential: Credential,
}

/// A token, a session, a join token or the key of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Credential {
    pub id: String,
    /// `token`, `session`, `join` or `worker`.
    pub kind: String,
    pub name: String,
    /// The user that it speaks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The worker that it speaks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The most that it may do, where that is less than its user may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The queues that it may submit to, where those are fewer than its user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// The tags that workers may have; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// How often a join token may still be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Timestamp>,
    /// To the minute or so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub used_at: Option<Timestamp>,
}

/// Who the caller is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// `local`, `user`, `worker`, `job`, `join` or `nobody`.
    pub kind: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The queues that it may submit to; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// The name of the credential that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// How the caller has logged in, where it shows a session: `password` or `oidc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
}

/// What `POST /users` takes.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct UserRequest {
    pub name: String,
    /// `viewer`, `user`, `operator` or `admin`; `user` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Without one the user has tokens only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// The queues that it may submit to; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
}

/// What `PATCH /users/{name}` takes; what is absent stays.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct UserUpdate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Ends the sessions of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// Lets the user submit to all queues again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_queues: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Who the user is at the login provider: what its ID tokens call `sub`. An empty text ends the link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc_subject: Option<String>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    pub name: String,
    pub role: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    pub has_password: bool,
    /// Who it is at the login provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oidc_subject: Option<String>,
    pub disabled: bool,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
}

/// What `POST /tokens` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TokenRequest {
    pub name: String,
    /// Whose it is; the caller's when absent. Only an admin makes tokens of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The most that it may do; all that its user may when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues: Option<Vec<String>>,
    /// Seconds until it ends; it does not end when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
}

/// What `POST /join-tokens` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct JoinTokenRequest {
    pub name: String,
    /// How many workers may use it; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// The tags that these workers may have; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Seconds until it ends; a day when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
}

/// What `POST /workers/join` takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct JoinRequest {
    pub worker_id: String,
}

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    pub id: u64,
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    /// Who did it.
    pub by: String,
    /// The name of the credential that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Such as `token.create` or `login.refused`.
    pub action: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

/// Objects that hold what nobody may see: they are never printed.
macro_rules! not_shown {
    ($($name:ident),*) => {
        $(impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        })*
    };
}

not_shown!(LoginRequest, PasswordChange, Issued, UserRequest, UserUpdate);
