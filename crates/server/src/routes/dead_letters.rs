//! Dead letters of webhooks: listed, sent once more, removed.

use axum::extract::State;
use axum::response::Response;
use http::header::HeaderValue;
use http::{HeaderName, StatusCode};
use muster_domain::{DeliveryId, WebhookId};
use muster_protocol::{DeadLetter, DeadLetterCount, HEADER_NEXT_CURSOR};
use muster_store::{Command, LetterChoice, LetterFilter, Outcome, StoreExt, WebhookCommand, WebhookOutcome};

use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::extract::{Call, json};
use crate::params::Params;
use crate::view;

const NEXT_CURSOR: HeaderName = HeaderName::from_static(HEADER_NEXT_CURSOR);

/// Letters of a page unless the request says otherwise.
const PAGE: usize = 100;

fn webhook(params: &Params) -> Result<Option<WebhookId>, ApiError> {
    let named = params.filled("webhook_id").map(str::parse);
    named.transpose().map_err(|_| ApiError::webhook_not_found())
}

fn delivery(field: &'static str, text: &str) -> Result<DeliveryId, ApiError> {
    let message = || format!("{field} {text:?} must be the id of a dead letter, hook-<uuid>.<event>");
    text.parse().map_err(|_| ApiError::bad_request("invalid_parameter", message()).at(field))
}

fn choice(params: &Params) -> Result<LetterChoice, ApiError> {
    let letters = params.list("id").map(|text| delivery("id", text)).collect::<Result<Vec<_>, _>>()?;
    Ok(LetterChoice { hook: webhook(params)?, letters })
}

async fn change(app: &App, call: &Call, command: WebhookCommand) -> Result<Response, ApiError> {
    let Outcome::Webhook(WebhookOutcome::Letters(count)) =
        app.batcher.submit_one(call.audited(Command::Webhook(command))).await?
    else {
        return Err(ApiError::internal());
    };
    json(StatusCode::OK, &DeadLetterCount { count })
}

/// Deliveries that were given up, by webhook and event.
#[utoipa::path(
    get, path = "/webhooks/dead-letters", tag = "webhooks",
    params(
        ("webhook_id" = Option<String>, Query), ("limit" = Option<u32>, Query),
        ("cursor" = Option<String>, Query, description = "The x-next-cursor of the page before"),
    ),
    responses(
        (status = 200, description = "The dead letters", body = Vec<DeadLetter>),
        (status = 404, description = "There is no such webhook"),
    )
)]
pub(crate) async fn list_dead_letters(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let most = app.config.limits.page;
    let limit = call.params.integer::<usize>("limit")?.unwrap_or(PAGE).clamp(1, most);
    let after = call.params.filled("cursor").map(|text| delivery("cursor", text)).transpose()?;
    // One more than asked for tells whether there is a next page.
    let filter =
        LetterFilter { hook: webhook(&call.params)?, after, limit: limit + 1, ..LetterFilter::default() };
    let letters = app.store.dead_letters(filter).await?;
    let shown: Vec<DeadLetter> = letters.iter().take(limit).map(view::dead_letter).collect();
    let mut response = json(StatusCode::OK, &shown)?;
    let next = shown.last().filter(|_| letters.len() > limit);
    if let Some(next) = next.and_then(|letter| HeaderValue::from_str(&letter.id).ok()) {
        response.headers_mut().insert(NEXT_CURSOR, next);
    }
    Ok(response)
}

/// Has dead letters sent once more: those named, those of a webhook, or all.
#[utoipa::path(
    post, path = "/webhooks/dead-letters/retry", tag = "webhooks",
    params(
        ("webhook_id" = Option<String>, Query),
        ("id" = Option<String>, Query, description = "Ids, separated by commas"),
        ("all" = Option<bool>, Query, description = "What is meant when neither of the others is given"),
    ),
    responses(
        (status = 200, description = "How many are sent again", body = DeadLetterCount),
        (status = 404, description = "There is no such webhook"),
    )
)]
pub(crate) async fn retry_dead_letters(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    change(&app, &call, WebhookCommand::Retry(choice(&call.params)?)).await
}

/// Removes dead letters: those named, those of a webhook, or all.
#[utoipa::path(
    delete, path = "/webhooks/dead-letters", tag = "webhooks",
    params(
        ("webhook_id" = Option<String>, Query),
        ("id" = Option<String>, Query, description = "Ids, separated by commas"),
        ("all" = Option<bool>, Query, description = "Needed when neither of the others is given"),
    ),
    responses(
        (status = 200, description = "How many were removed", body = DeadLetterCount),
        (status = 404, description = "There is no such webhook"),
    )
)]
pub(crate) async fn delete_dead_letters(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let choice = choice(&call.params)?;
    if choice == LetterChoice::default() && !call.params.flag("all") {
        let message = "say which dead letters to remove: webhook_id, id, or all=true";
        return Err(ApiError::bad_request("choice_required", message));
    }
    change(&app, &call, WebhookCommand::Forget(choice)).await
}
