//! Calls to log in through an OIDC provider.

use http::{Method, StatusCode};
use muster_protocol::{AuthMethods, DeviceLogin, DeviceProgress, DeviceQuestion};

use crate::call::{Call, Client};
use crate::error::ClientError;

impl Client {
    /// How one may log in. A scheduler that does not say knows passwords only.
    pub async fn auth_methods(&self) -> Result<AuthMethods, ClientError> {
        match self.exchange(Call::new(Method::GET, "/auth/methods")).await {
            Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {
                Ok(AuthMethods { password: true, oidc: None })
            }
            told => told,
        }
    }

    /// Begins a login of a terminal.
    pub async fn begin_device_login(&self) -> Result<DeviceLogin, ClientError> {
        self.exchange(Call::new(Method::POST, "/auth/oidc/device")).await
    }

    /// Asks whether a login of a terminal is done.
    pub async fn device_login(&self, handle: &str) -> Result<DeviceProgress, ClientError> {
        let question = DeviceQuestion { handle: handle.to_owned() };
        self.exchange(Call::new(Method::POST, "/auth/oidc/device/token").json(&question)?).await
    }
}
