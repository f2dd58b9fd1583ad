//! Login through an OIDC provider on the wire.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::accounts::Issued;

/// How one may log in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AuthMethods {
    /// With a user name and a password.
    pub password: bool,
    /// Through a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oidc: Option<OidcMethod>,
}

/// The provider through which one may log in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct OidcMethod {
    pub issuer: String,
    /// Where a browser begins.
    pub login_url: String,
}

/// A device login that has begun: somebody enters `user_code` at `verification_uri`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DeviceLogin {
    pub user_code: String,
    pub verification_uri: String,
    /// The same address with the code in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_uri_complete: Option<String>,
    /// Seconds until the code expires.
    pub expires_in: u32,
    /// Seconds between two questions whether it is done.
    pub interval: u32,
    /// What to ask with.
    pub handle: String,
}

/// What `POST /auth/oidc/device/token` takes.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DeviceQuestion {
    pub handle: String,
}

/// How far a device login is.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct DeviceProgress {
    /// The session, once somebody has entered the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Issued>,
    /// Ask five seconds less often.
    pub slow_down: bool,
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

not_shown!(DeviceLogin, DeviceQuestion, DeviceProgress);
