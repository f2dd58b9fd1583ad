//! Webhooks: made, looked at, paused, tried and removed.

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use muster_domain::webhook::ALL_EVENTS;
use muster_domain::{EventKind, Progress, QueueName, Secret, WebhookId};
use muster_protocol::{Webhook, WebhookRequest, WebhookTest, WebhookUpdate};
use muster_store::{Command, Outcome, StoreExt, WebhookCommand, WebhookOutcome, WebhookView};

use crate::app::{App, Shared};
use crate::body::read_body;
use crate::config::Limits;
use crate::error::ApiError;
use crate::extract::{Call, empty, json};
use crate::lenient::{self, lenient_object};
use crate::submission::check_text;
use crate::webhooks::{Parcel, check_url, test_payload};
use crate::{ids, view};

/// Bytes of a secret.
const SECRET: std::ops::RangeInclusive<usize> = 8..=256;

lenient_object! {
    /// A webhook as a client describes it.
    struct WebhookBody {
        url: String = "url",
        secret: String = "secret",
        events: Vec<String> = "events",
        queue_name: String = "queue_name" | "queue",
        job_name: String = "job_name",
    }
}

lenient_object! {
    /// A change of a webhook.
    struct UpdateBody { paused: bool = "paused" }
}

/// The webhook that the path names. A text that is no id names none.
#[derive(Debug)]
pub(crate) struct WebhookPath(WebhookId);

impl FromRequestParts<Shared> for WebhookPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app).await.ok();
        let named = params.as_ref().and_then(|params| params.iter().next()).map(|(_, value)| value);
        named.and_then(|text| text.parse().ok()).map(Self).ok_or_else(ApiError::webhook_not_found)
    }
}

impl WebhookBody {
    fn check(self, app: &App) -> Result<muster_domain::Webhook, ApiError> {
        let limits = &app.config.limits;
        let url = self.url.unwrap_or_default();
        check_url(&url, app.webhooks.reach())?;
        let secret = match self.secret.filter(|secret| !secret.is_empty()) {
            Some(secret) if SECRET.contains(&secret.len()) => secret,
            Some(_) => {
                let message = format!("secret must have {} to {} bytes", SECRET.start(), SECRET.end());
                return Err(ApiError::invalid_field("secret", message));
            }
            None => ids::secret(),
        };
        for (field, text) in [("queue_name", &self.queue_name), ("job_name", &self.job_name)] {
            check_text(field, text.as_deref().unwrap_or_default(), limits.name)?;
        }
        Ok(muster_domain::Webhook {
            id: ids::webhook(),
            url,
            secret: Secret::new(secret),
            events: check_events(self.events.unwrap_or_default(), limits)?,
            queue: self.queue_name.filter(|name| !name.is_empty()).map(QueueName::new),
            job_name: self.job_name.filter(|name| !name.is_empty()),
            created_at: app.config.clock.now(),
            paused: false,
            retrying: false,
            progress: Progress::default(),
        })
    }
}

fn check_events(mut events: Vec<String>, limits: &Limits) -> Result<Vec<String>, ApiError> {
    if events.len() > limits.tags {
        return Err(ApiError::over_limit("events", limits.tags, "entries"));
    }
    let known = |name: &str| name == ALL_EVENTS || EventKind::NAMES.contains(&name);
    if let Some(unknown) = events.iter().find(|name| !known(name)) {
        let message =
            format!("there is no event {unknown:?}; known are all, {}", EventKind::NAMES.join(", "));
        return Err(ApiError::invalid_field("events", message));
    }
    events.sort_unstable();
    events.dedup();
    Ok(events)
}

async fn change(app: &App, call: &Call, command: WebhookCommand) -> Result<WebhookOutcome, ApiError> {
    match app.batcher.submit_one(call.audited(Command::Webhook(command))).await? {
        Outcome::Webhook(outcome) => Ok(outcome),
        _ => Err(ApiError::internal()),
    }
}

async fn find(app: &App, id: WebhookId) -> Result<WebhookView, ApiError> {
    let found = app.store.webhooks(true).await?.into_iter().find(|view| view.webhook.id == id);
    found.ok_or_else(ApiError::webhook_not_found)
}

/// Makes a webhook. The answer is the only one that shows its secret.
#[utoipa::path(
    post, path = "/webhooks", tag = "webhooks", request_body = WebhookRequest,
    responses(
        (status = 201, description = "The webhook, with its secret", body = Webhook),
        (status = 409, description = "There are as many webhooks as there may be"),
    )
)]
pub(crate) async fn create_webhook(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let webhook = lenient::decode::<WebhookBody>(&bytes, call.reading())?.check(&app)?;
    let WebhookOutcome::Webhook(webhook) = change(&app, &call, WebhookCommand::Create(webhook)).await? else {
        return Err(ApiError::internal());
    };
    tracing::info!(hook = %webhook.id, request_id = %call.request_id, url = webhook.url, "webhook made");
    let secret = webhook.secret.expose().to_owned();
    let cursor = webhook.progress.cursor;
    let shown = view::webhook(&WebhookView { webhook: *webhook, dead_letters: 0 }, cursor);
    json(StatusCode::CREATED, &Webhook { secret: Some(secret), ..shown })
}

/// All webhooks, oldest first.
#[utoipa::path(
    get, path = "/webhooks", tag = "webhooks",
    responses((status = 200, description = "The webhooks", body = Vec<Webhook>))
)]
pub(crate) async fn list_webhooks(State(app): State<Shared>) -> Result<Response, ApiError> {
    let webhooks = app.store.webhooks(true).await?;
    let last = app.store.last_event().await?;
    let shown: Vec<Webhook> = webhooks.iter().map(|hook| view::webhook(hook, last)).collect();
    json(StatusCode::OK, &shown)
}

/// One webhook.
#[utoipa::path(
    get, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 200, description = "The webhook", body = Webhook))
)]
pub(crate) async fn get_webhook(
    State(app): State<Shared>,
    WebhookPath(id): WebhookPath,
) -> Result<Response, ApiError> {
    let found = find(&app, id).await?;
    json(StatusCode::OK, &view::webhook(&found, app.store.last_event().await?))
}

/// Pauses or resumes a webhook.
#[utoipa::path(
    patch, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)),
    request_body = WebhookUpdate,
    responses((status = 200, description = "The webhook", body = Webhook))
)]
pub(crate) async fn update_webhook(
    State(app): State<Shared>,
    WebhookPath(id): WebhookPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    if let Some(paused) = lenient::decode::<UpdateBody>(&bytes, call.reading())?.paused {
        change(&app, &call, WebhookCommand::Pause { id, paused }).await?;
        tracing::info!(hook = %id, request_id = %call.request_id, paused, "webhook changed");
    }
    let found = find(&app, id).await?;
    json(StatusCode::OK, &view::webhook(&found, app.store.last_event().await?))
}

/// Removes a webhook and its dead letters.
#[utoipa::path(
    delete, path = "/webhooks/{id}", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn delete_webhook(
    State(app): State<Shared>,
    WebhookPath(id): WebhookPath,
    call: Call,
) -> Result<Response, ApiError> {
    change(&app, &call, WebhookCommand::Delete { id }).await?;
    tracing::info!(hook = %id, request_id = %call.request_id, "webhook removed");
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Sends a test delivery, also to a paused webhook, and says what came back.
#[utoipa::path(
    post, path = "/webhooks/{id}/test", tag = "webhooks", params(("id" = String, Path)),
    responses((status = 200, description = "What came back", body = WebhookTest))
)]
pub(crate) async fn test_webhook(
    State(app): State<Shared>,
    WebhookPath(id): WebhookPath,
    call: Call,
) -> Result<Response, ApiError> {
    let hook = find(&app, id).await?.webhook;
    let parcel = Parcel {
        url: &hook.url,
        secret: &hook.secret,
        event: "test",
        delivery: format!("{id}.test-{}", call.request_id),
        body: test_payload(app.config.clock.now())?,
    };
    let answered = app.webhooks.send(parcel).await;
    let error = answered.refusal();
    let shown = WebhookTest {
        accepted: error.is_none(),
        status: answered.status.map(|status| status.as_u16()),
        error,
        bytes: answered.bytes,
        took_ms: u64::try_from(answered.took.as_millis()).unwrap_or(u64::MAX),
    };
    json(StatusCode::OK, &shown)
}
