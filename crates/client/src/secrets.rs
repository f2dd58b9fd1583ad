//! Calls on secrets. What is sent and read is sealed; no value passes here.

use http::Method;
use muster_protocol::{FleetKey, SecretRequest, SecretSummary};

use crate::base_url::encode;
use crate::call::{Call, Client, refused};
use crate::error::ClientError;

fn path(name: &str) -> String {
    format!("/secrets/{}", encode(name))
}

impl Client {
    /// The public keys of the fleet.
    pub async fn fleet_keys(&self) -> Result<Vec<FleetKey>, ClientError> {
        self.exchange(Call::new(Method::GET, "/secrets/keys")).await
    }

    /// All secrets by name, without their values.
    pub async fn secrets(&self) -> Result<Vec<SecretSummary>, ClientError> {
        self.exchange(Call::new(Method::GET, "/secrets")).await
    }

    pub async fn secret(&self, name: &str) -> Result<SecretSummary, ClientError> {
        self.exchange(Call::new(Method::GET, path(name))).await
    }

    /// Stores a sealed value.
    pub async fn put_secret(&self, name: &str, sealed: &SecretRequest) -> Result<SecretSummary, ClientError> {
        self.exchange(Call::new(Method::PUT, path(name)).json(sealed)?).await
    }

    pub async fn delete_secret(&self, name: &str) -> Result<(), ClientError> {
        let (status, body) = self.whole(Call::new(Method::DELETE, path(name))).await?;
        if status.is_success() { Ok(()) } else { Err(refused(status, &body)) }
    }
}
