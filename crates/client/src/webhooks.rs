//! Calls on webhooks and their dead letters.

use std::fmt::Write as _;
use std::time::Duration;

use http::Method;
use muster_protocol::{
    DeadLetter, DeadLetterCount, HEADER_NEXT_CURSOR, Webhook, WebhookRequest, WebhookTest, WebhookUpdate,
};

use crate::base_url::encode;
use crate::call::{Call, Client, decode, refused};
use crate::error::ClientError;

/// What a test may take: the scheduler waits for the receiver as long as it is set to.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Which dead letters: those of a webhook, those named, or all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterChoice {
    pub webhook: Option<String>,
    /// Ids of dead letters; empty means any.
    pub ids: Vec<String>,
}

impl LetterChoice {
    fn query(&self) -> String {
        let mut query = String::from("?all=true");
        // Writing to a string cannot fail.
        if let Some(webhook) = &self.webhook {
            let _ = write!(query, "&webhook_id={}", encode(webhook));
        }
        for id in &self.ids {
            let _ = write!(query, "&id={}", encode(id));
        }
        query
    }
}

fn path(id: &str) -> String {
    format!("/webhooks/{}", encode(id))
}

impl Client {
    /// Every webhook, oldest first.
    pub async fn webhooks(&self) -> Result<Vec<Webhook>, ClientError> {
        self.exchange(Call::new(Method::GET, "/webhooks")).await
    }

    pub async fn webhook(&self, id: &str) -> Result<Webhook, ClientError> {
        self.exchange(Call::new(Method::GET, path(id))).await
    }

    /// Makes a webhook; the answer has its secret, and no other answer does.
    pub async fn create_webhook(&self, request: &WebhookRequest) -> Result<Webhook, ClientError> {
        self.exchange(Call::new(Method::POST, "/webhooks").json(request)?).await
    }

    pub async fn pause_webhook(&self, id: &str, paused: bool) -> Result<Webhook, ClientError> {
        let update = WebhookUpdate { paused: Some(paused) };
        self.exchange(Call::new(Method::PATCH, path(id)).json(&update)?).await
    }

    /// Removes a webhook and its dead letters.
    pub async fn delete_webhook(&self, id: &str) -> Result<(), ClientError> {
        self.accepted(Call::new(Method::DELETE, path(id))).await
    }

    /// Has a test delivery sent and tells what came back.
    pub async fn test_webhook(&self, id: &str) -> Result<WebhookTest, ClientError> {
        let path = format!("{}/test", path(id));
        self.exchange(Call::new(Method::POST, path).timeout(TEST_TIMEOUT)).await
    }

    /// A page of dead letters and the cursor of the next.
    pub async fn dead_letters(
        &self,
        webhook: Option<&str>,
        cursor: Option<&str>,
    ) -> Result<(Vec<DeadLetter>, Option<String>), ClientError> {
        let mut path = String::from("/webhooks/dead-letters?limit=1000");
        for (name, value) in [("webhook_id", webhook), ("cursor", cursor)] {
            if let Some(value) = value {
                let _ = write!(path, "&{name}={}", encode(value));
            }
        }
        let response = self.complete(Call::new(Method::GET, path.clone())).await?;
        if !response.status().is_success() {
            return Err(refused(response.status(), response.body()));
        }
        let next = response.headers().get(HEADER_NEXT_CURSOR).and_then(|value| value.to_str().ok());
        let next = next.map(str::to_owned);
        Ok((decode(&path, response.body())?, next))
    }

    /// Has dead letters sent once more; tells how many.
    pub async fn retry_dead_letters(&self, choice: &LetterChoice) -> Result<usize, ClientError> {
        let path = format!("/webhooks/dead-letters/retry{}", choice.query());
        Ok(self.exchange::<DeadLetterCount>(Call::new(Method::POST, path)).await?.count)
    }

    /// Removes dead letters; tells how many.
    pub async fn delete_dead_letters(&self, choice: &LetterChoice) -> Result<usize, ClientError> {
        let path = format!("/webhooks/dead-letters{}", choice.query());
        Ok(self.exchange::<DeadLetterCount>(Call::new(Method::DELETE, path)).await?.count)
    }
}
