//! Calls on queues.

use http::Method;
use muster_protocol::{Queue, QueueUpdate};

use crate::base_url::encode;
use crate::call::{Call, Client, refused};
use crate::error::ClientError;

impl Client {
    /// Every queue that has jobs or limits.
    pub async fn queues(&self) -> Result<Vec<Queue>, ClientError> {
        self.exchange(Call::new(Method::GET, "/queues")).await
    }

    pub async fn queue(&self, name: &str) -> Result<Queue, ClientError> {
        self.exchange(Call::new(Method::GET, format!("/queues/{}", encode(name)))).await
    }

    /// Forgets a queue in which nothing is left.
    pub async fn delete_queue(&self, name: &str) -> Result<(), ClientError> {
        let call = Call::new(Method::DELETE, format!("/queues/{}", encode(name)));
        let (status, body) = self.whole(call).await?;
        if status.is_success() { Ok(()) } else { Err(refused(status, &body)) }
    }

    /// Pauses or resumes the queue, or changes its limits.
    pub async fn update_queue(&self, name: &str, update: &QueueUpdate) -> Result<Queue, ClientError> {
        self.exchange(Call::new(Method::PUT, format!("/queues/{}", encode(name))).json(update)?).await
    }
}
