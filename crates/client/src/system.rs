//! Calls on the scheduler itself.

use std::time::Duration;

use http::Method;
use muster_protocol::{Health, Overview, Summary, Version};

use crate::call::{Call, Client};
use crate::error::ClientError;

/// A scheduler that is there answers this at once, whatever its load.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

impl Client {
    /// Whether somebody answers, and who.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.exchange(Call::new(Method::GET, "/health").timeout(HEALTH_TIMEOUT)).await
    }

    /// How many jobs there are that have not ended, by status and by queue.
    pub async fn summary(&self) -> Result<Summary, ClientError> {
        self.exchange(Call::new(Method::GET, "/summary")).await
    }

    /// The cluster as a whole: what waits for what, and what is free and why.
    pub async fn explain(&self) -> Result<Overview, ClientError> {
        self.exchange(Call::new(Method::GET, "/explain")).await
    }

    pub async fn version(&self) -> Result<Version, ClientError> {
        self.exchange(Call::new(Method::GET, "/version").timeout(HEALTH_TIMEOUT)).await
    }
}
