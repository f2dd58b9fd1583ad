//! Calls on workers: the list, registration, heartbeat and the exchange that carries a worker's whole business.

use std::time::Duration;

use http::Method;
use muster_protocol::{RegisterRequest, SyncRequest, SyncResponse, Worker};

use crate::base_url::encode;
use crate::call::{Call, Client, refused};
use crate::error::ClientError;

/// What the scheduler and the network may take beyond the wait that a sync asks for.
const SYNC_SLACK: Duration = Duration::from_secs(15);

impl Client {
    /// Every registered worker, with what it holds.
    pub async fn workers(&self) -> Result<Vec<Worker>, ClientError> {
        self.exchange(Call::new(Method::GET, "/workers")).await
    }

    /// Ends the quarantine of a worker.
    pub async fn release_worker(&self, worker_id: &str) -> Result<Worker, ClientError> {
        self.exchange(Call::new(Method::POST, format!("/workers/{}/release", encode(worker_id)))).await
    }

    /// Makes the worker known, or changes what is known of it.
    pub async fn register_worker(&self, request: &RegisterRequest) -> Result<Worker, ClientError> {
        self.exchange(Call::new(Method::POST, "/workers/register").json(request)?).await
    }

    /// Reports, heartbeats and claims in one exchange. A 404 means that the worker is not registered.
    pub async fn sync_worker(
        &self,
        worker_id: &str,
        request: &SyncRequest,
    ) -> Result<SyncResponse, ClientError> {
        let path = format!("/workers/{}/sync", encode(worker_id));
        let timeout = Duration::from_millis(request.wait_ms).saturating_add(SYNC_SLACK);
        self.exchange(Call::new(Method::POST, path).json(request)?.timeout(timeout)).await
    }

    /// Shows the scheduler that the worker is alive.
    pub async fn heartbeat_worker(&self, worker_id: &str) -> Result<(), ClientError> {
        let path = format!("/workers/{}/heartbeat", encode(worker_id));
        let (status, body) = self.whole(Call::new(Method::POST, path)).await?;
        if status.is_success() { Ok(()) } else { Err(refused(status, &body)) }
    }
}
