//! Queues: what waits and runs in each, and what operators set of them.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use muster_domain::access::Principal;
use muster_domain::{self as domain, QueueName, Span};
use muster_protocol::{Queue, QueueUpdate, RateLimit};
use muster_store::{Command, Outcome, Query, QueueSettings, Reply, StoreExt};
use serde_json::{Map, Value};

use crate::app::{App, Shared};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, empty, json};
use crate::lenient::Reading;
use crate::submission::check_text;
use crate::view::queues as view;

fn entry<'q>(queues: &'q mut BTreeMap<String, Queue>, name: &str) -> &'q mut Queue {
    queues.entry(name.to_owned()).or_insert_with(|| Queue { name: name.to_owned(), ..Queue::default() })
}

async fn all(app: &App) -> Result<BTreeMap<String, Queue>, ApiError> {
    let Reply::Standings(set) = app.store.read(Query::Standings).await? else {
        return Err(ApiError::internal());
    };
    let mut queues: BTreeMap<String, Queue> =
        set.iter().map(|one| (one.queue.name.as_str().to_owned(), view::standing(one))).collect();
    let counts = app.store.counts().await?;
    for (name, count) in &counts.waiting_by_queue {
        entry(&mut queues, name).queued = *count;
    }
    for (name, count) in &counts.held_by_queue {
        entry(&mut queues, name).running = *count;
    }
    Ok(queues)
}

/// All queues that were set or have unfinished jobs. The default queue has an empty name.
#[utoipa::path(
    get, path = "/queues", tag = "queues",
    responses((status = 200, description = "By name", body = Vec<Queue>))
)]
pub(crate) async fn list_queues(State(app): State<Shared>) -> Result<Response, ApiError> {
    let queues: Vec<Queue> = all(&app).await?.into_values().collect();
    json(StatusCode::OK, &queues)
}

/// One queue. One of which nothing is known has no limits and no jobs.
#[utoipa::path(
    get, path = "/queues/{name}", tag = "queues", params(("name" = String, Path)),
    responses((status = 200, description = "The queue", body = Queue))
)]
pub(crate) async fn get_queue(
    State(app): State<Shared>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    check_text("name", &name, app.config.limits.name)?;
    let queue = all(&app).await?.remove(&name);
    json(StatusCode::OK, &queue.unwrap_or_else(|| Queue { name, ..Queue::default() }))
}

/// Sets or changes a queue: pause, bounds on jobs that wait and run, rate of starts, quota, weight and parent.
/// Nothing that runs is stopped by it: what is used beyond a smaller quota goes as it ends.
#[utoipa::path(
    put, path = "/queues/{name}", tag = "queues", request_body = QueueUpdate, params(("name" = String, Path)),
    responses(
        (status = 200, description = "The queue", body = Queue),
        (status = 409, description = "The queue would be below itself, or too deep; the message names the way"),
    )
)]
pub(crate) async fn put_queue(
    State(app): State<Shared>,
    Path(name): Path<String>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    check_text("name", &name, app.config.limits.name)?;
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let mut update = read_update(&bytes, call.reading())?;
    check_rights(&call.identity.principal, &update)?;
    if name.is_empty() {
        return Err(ApiError::invalid_field("name", "a queue must have a name"));
    }
    let rate = update.rate.map(|rate| rate.map(checked).transpose()).transpose()?;
    let access = view::access(&mut update)?;
    let settings = QueueSettings {
        access,
        paused: update.paused,
        max_queued: update.max_queued,
        rate,
        terms: view::terms(update, &app.config.limits)?,
        ..QueueSettings::new(QueueName::new(name))
    };
    let Outcome::Queue(queue) = app.batcher.submit_one(call.audited(Command::PutQueue(settings))).await?
    else {
        return Err(ApiError::internal());
    };
    app.admission.forget();
    tracing::info!(queue = %queue.name, paused = queue.paused, "queue set");
    let shown = all(&app).await?.remove(queue.name.as_str());
    json(StatusCode::OK, &shown.unwrap_or_else(|| view::queue(&queue)))
}

/// Forgets a queue and its limits. It must have no jobs that have not ended, and no queues below it.
#[utoipa::path(
    delete, path = "/queues/{name}", tag = "queues", params(("name" = String, Path)),
    responses(
        (status = 204, description = "The queue is forgotten"),
        (status = 409, description = "Jobs are in it or queues below it; the message names one"),
    )
)]
pub(crate) async fn delete_queue(
    State(app): State<Shared>,
    Path(name): Path<String>,
    call: Call,
) -> Result<Response, ApiError> {
    check_text("name", &name, app.config.limits.name)?;
    let command = call.audited(Command::RemoveQueue { name: QueueName::new(&name) });
    app.batcher.submit_one(command).await?;
    app.admission.forget();
    tracing::info!(queue = name, "queue removed");
    Ok(empty(StatusCode::NO_CONTENT))
}

const KEYS: [&str; 14] = [
    "paused",
    "max_queued",
    "rate",
    "parent",
    "weight",
    "nominal",
    "borrow",
    "lend",
    "max_running",
    "max_running_per_user",
    "max_queued_per_user",
    "submitters",
    "admins",
    "viewers",
];
const RATE_KEYS: [&str; 2] = ["starts", "seconds"];
const QUOTA_KEYS: [&str; 5] = ["cpus", "memory_mb", "vram_mb", "gpus", "counters"];

/// An admin of a queue sets how its users share it. What it takes from others, and whom it lets in, is an operator's.
fn check_rights(principal: &Principal, update: &QueueUpdate) -> Result<(), ApiError> {
    if principal.may_speak_for_others() {
        return Ok(());
    }
    let allowed = QueueUpdate {
        paused: update.paused,
        max_running_per_user: update.max_running_per_user,
        max_queued_per_user: update.max_queued_per_user,
        ..QueueUpdate::default()
    };
    if allowed == *update {
        return Ok(());
    }
    let message = "an admin of a queue sets paused, max_running_per_user and max_queued_per_user; ask an operator for the rest";
    Err(ApiError::not_yours("queue", message.to_owned()))
}

/// `null` means something here, so that this body is not read as the others are; it is refused as they are.
fn read_update(bytes: &[u8], reading: Reading) -> Result<QueueUpdate, ApiError> {
    let fields: Map<String, Value> = serde_json::from_slice(bytes).map_err(|_| ApiError::invalid_body())?;
    for (key, value) in fields.iter().filter(|_| reading == Reading::Strict) {
        let inner: &[&str] = match key.as_str() {
            key if !KEYS.contains(&key) => return Err(ApiError::unknown_field("", key, &KEYS)),
            "rate" => &RATE_KEYS,
            "nominal" | "borrow" | "lend" => &QUOTA_KEYS,
            _ => continue,
        };
        let mut names = value.as_object().into_iter().flat_map(Map::keys);
        if let Some(unknown) = names.find(|name| !inner.contains(&name.as_str())) {
            return Err(ApiError::unknown_field(key, unknown, inner));
        }
    }
    serde_json::from_value(Value::Object(fields.clone())).map_err(|_| {
        let alone = |(key, value): (&String, &Value)| {
            let field = Map::from_iter([(key.clone(), value.clone())]);
            let error = serde_json::from_value::<QueueUpdate>(Value::Object(field)).err()?;
            Some(ApiError::wrong_field(key, format!("{key}: {error}")))
        };
        fields.iter().find_map(alone).unwrap_or_else(ApiError::invalid_body)
    })
}

fn checked(rate: RateLimit) -> Result<domain::RateLimit, ApiError> {
    if rate.starts == 0 || !(0.001..=1e8).contains(&rate.seconds) {
        let message = "rate needs starts of at least 1 and seconds from 0.001 to 100000000";
        return Err(ApiError::invalid_field("rate", message));
    }
    Ok(domain::RateLimit { starts: rate.starts, per: Span::from_micros((rate.seconds * 1e6) as u64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(body: &str) -> String {
        read_update(body.as_bytes(), Reading::Strict).unwrap_err().message.into_owned()
    }

    #[test]
    fn unknown_fields_and_wrong_types_are_named() {
        assert_eq!(refused(r#"{"pause":true}"#), "unknown field \"pause\"; did you mean paused?");
        assert!(refused(r#"{"nominal":{"gpu":1}}"#).contains("\"gpu\" in nominal; did you mean gpus?"));
        assert!(refused(r#"{"rate":{"start":1}}"#).contains("did you mean starts?"));
        assert!(refused(r#"{"paused":false,"weight":"x"}"#).contains("weight"));
        assert_eq!(refused("[]"), "invalid request body");
        let old = read_update(br#"{"pause":true,"weight":null}"#, Reading::Lenient).unwrap();
        assert_eq!(old.weight, Some(None));
    }

    #[test]
    fn every_field_is_known() {
        let nothing: Map<String, Value> = KEYS.iter().map(|key| ((*key).to_owned(), Value::Null)).collect();
        let update: QueueUpdate = serde_json::from_value(Value::Object(nothing)).unwrap();
        let written = serde_json::to_value(&update).unwrap();
        // `paused` has no third state: null is absence.
        assert_eq!(written.as_object().unwrap().len(), KEYS.len() - 1);
    }
}
