//! Webhooks as the API shows them. The secret is not among it.

use muster_domain as domain;
use muster_domain::webhook::DEFAULT_EVENTS;
use muster_protocol as wire;
use muster_store::WebhookView;
use serde_json::Value;

use crate::clock::to_wire;

pub(crate) fn webhook(view: &WebhookView, last_event: u64) -> wire::Webhook {
    let hook = &view.webhook;
    let progress = &hook.progress;
    let events = match hook.events.as_slice() {
        [] => DEFAULT_EVENTS.iter().map(|name| (*name).to_owned()).collect(),
        named => named.to_vec(),
    };
    wire::Webhook {
        id: hook.id.to_string(),
        url: hook.url.clone(),
        secret: None,
        events,
        queue_name: hook.queue.as_ref().map(|queue| queue.as_str().to_owned()),
        job_name: hook.job_name.clone(),
        created_at: to_wire(hook.created_at),
        paused: hook.paused,
        cursor: progress.cursor,
        lag: last_event.saturating_sub(progress.cursor),
        delivered: progress.delivered,
        failures: progress.failures,
        next_attempt_at: progress.not_before.map(to_wire),
        last_success_at: progress.last_success.map(to_wire),
        last_error: progress.last_error.clone(),
        last_error_at: progress.last_error_at.map(to_wire),
        dead_letters: view.dead_letters,
    }
}

pub(crate) fn dead_letter(letter: &domain::DeadLetter) -> wire::DeadLetter {
    wire::DeadLetter {
        id: letter.delivery().to_string(),
        webhook_id: letter.hook.to_string(),
        event_id: letter.event,
        kind: letter.kind.clone(),
        job_id: letter.job.map(|id| id.to_string()),
        at: to_wire(letter.at),
        attempts: letter.attempts,
        error: letter.error.clone(),
        retrying: letter.retry,
        payload: serde_json::from_str(&letter.body).unwrap_or(Value::Null),
    }
}
