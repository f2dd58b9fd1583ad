//! The OpenAPI document, made from the handlers' own descriptions.
//!
//! Guarantee: every operation lists every status it can answer; what all have in common is added here.

use muster_domain::limits::MAX_ATTEMPTS;
use muster_protocol::{
    ArrayRequest, BatchItem, BatchResult, BulkFilter, BulkResult, CancelResult, Event, GangAssignment,
    GangPeer, GangSubmitted, GangSummary, Health, HeartbeatAction, Job, JobEdit, JobSet, LogAppended, LogGap,
    LogMessage, LogPiece, LogStream, Notice, Overview, Pipeline, Problem, Queue, QueueUpdate,
    RegisterRequest, SubmitRequest, Summary, SyncRequest, SyncResponse, TerminalEnd, TerminalOpen,
    TerminalSize, Version, Why, Worker,
};
use serde_json::{Value, json};
use utoipa::OpenApi;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::{Content, ObjectBuilder, Ref, RefOr, Response, Type};

use crate::config::Limits;
use crate::submission::MAX_AMOUNT;

use super::claim::ClaimAnswer;
use super::request_schemas;
use super::submit::SubmitAnswer;
use super::{
    arrays, artifact_links, artifact_uploads, artifacts, auth, batch, bulk, cancel, checkpoint, claim,
    control, credentials, dead_letters, docs, events, explain, gangs, images, inputs, jobs, listing, logs,
    notice, oidc, pipelines, queues, reports, secrets, submit, summary, sync, system, terminals, uploads,
    usage, users, webhooks, workers,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Muster", description = "Jobs, workers and their output."),
    paths(
        submit::submit_job,
        listing::list_jobs,
        batch::submit_batch,
        bulk::change_many,
        control::hold_job,
        control::unhold_job,
        control::retry_job,
        control::edit_job,
        control::delete_job,
        pipelines::submit_pipeline,
        pipelines::list_pipelines,
        pipelines::get_pipeline,
        pipelines::add_steps,
        pipelines::cancel_pipeline,
        pipelines::retry_pipeline,
        arrays::submit_array,
        arrays::list_arrays,
        arrays::get_array,
        arrays::cancel_array,
        arrays::retry_array,
        queues::list_queues,
        queues::get_queue,
        queues::put_queue,
        queues::delete_queue,
        workers::release_worker,
        claim::claim_next,
        jobs::get_job,
        jobs::why,
        usage::job_attempts,
        usage::usage,
        notice::get_notice,
        gangs::list_gangs,
        gangs::get_gang,
        gangs::cancel_gang,
        gangs::retry_gang,
        gangs::hold_gang,
        gangs::unhold_gang,
        gangs::preempt_gang,
        gangs::preempt_job,
        terminals::exec,
        terminals::attach,
        terminals::join,
        terminals::order,
        gangs::why_gang,
        gangs::gang_events,
        reports::report_done,
        reports::report_fail,
        reports::report_release,
        reports::job_heartbeat,
        reports::report_preempted,
        images::note_image,
        checkpoint::save_checkpoint,
        checkpoint::get_checkpoint,
        artifacts::list_artifacts,
        artifacts::get_artifact,
        artifacts::put_artifact,
        artifact_uploads::offer_artifacts,
        artifact_uploads::complete_artifacts,
        artifact_links::make_link,
        artifact_links::follow_link,
        cancel::cancel_job,
        events::job_events,
        events::stream_events,
        logs::append_log,
        logs::read_logs,
        logs::stream_logs,
        logs::log_runs,
        workers::register,
        workers::worker_heartbeat,
        workers::list_workers,
        summary::summary,
        explain::explain,
        webhooks::create_webhook,
        webhooks::list_webhooks,
        webhooks::get_webhook,
        webhooks::update_webhook,
        webhooks::delete_webhook,
        webhooks::test_webhook,
        secrets::list_secrets,
        secrets::fleet_keys,
        secrets::get_secret,
        secrets::put_secret,
        secrets::delete_secret,
        uploads::upload_limits,
        uploads::declare_upload,
        uploads::send_chunks,
        uploads::complete_upload,
        uploads::get_job_upload,
        uploads::read_job_chunks,
        inputs::list_inputs,
        inputs::get_input,
        dead_letters::list_dead_letters,
        dead_letters::retry_dead_letters,
        dead_letters::delete_dead_letters,
        sync::sync_worker,
        auth::login,
        auth::logout,
        auth::whoami,
        auth::change_password,
        oidc::methods,
        oidc::login,
        oidc::callback,
        oidc::device,
        oidc::device_token,
        users::list_users,
        users::create_user,
        users::change_user,
        users::delete_user,
        credentials::list_tokens,
        credentials::create_token,
        credentials::revoke_token,
        credentials::create_join_token,
        credentials::list_keys,
        credentials::revoke_key,
        credentials::join,
        credentials::rotate_key,
        credentials::audit,
        system::health,
        system::healthz,
        system::readyz,
        system::metrics,
        system::version,
        docs::openapi_document,
        docs::page,
    ),
    components(schemas(
        ArrayRequest,
        BatchItem,
        BulkFilter,
        BulkResult,
        JobEdit,
        JobSet,
        Pipeline,
        TerminalEnd,
        TerminalOpen,
        TerminalSize,
        Queue,
        QueueUpdate,
        BatchResult,
        CancelResult,
        ClaimAnswer,
        Event,
        GangAssignment,
        GangPeer,
        GangSubmitted,
        GangSummary,
        Notice,
        Overview,
        SubmitAnswer,
        Health,
        HeartbeatAction,
        Job,
        LogAppended,
        LogGap,
        LogMessage,
        LogPiece,
        LogStream,
        Problem,
        RegisterRequest,
        SubmitRequest,
        Summary,
        SyncRequest,
        SyncResponse,
        Version,
        Why,
        Worker,
    ))
)]
struct Document;

/// The document as JSON text.
pub(crate) fn document() -> Result<String, serde_json::Error> {
    let mut document = Document::openapi();
    for (path, item) in &mut document.paths.paths {
        for (operation, is_post) in operations(item) {
            add_errors(path, operation, is_post);
        }
    }
    let mut document = serde_json::to_value(&document)?;
    let limits = Limits::default();
    add_limits(&mut document, &limits);
    request_schemas::close(&mut document);
    serde_json::to_string(&document)
}

/// What the checks of submissions and registrations demand beyond types; the limits are the defaults.
fn add_limits(document: &mut Value, limits: &Limits) {
    let name = json!({ "maxLength": limits.name });
    let submit = json!({
        "command": { "minLength": 1, "pattern": r"\S" },
        "name": name,
        "working_dir": { "maxLength": limits.path },
        "queue_name": name,
        "user": name,
        "idempotency_key": name,
        "tags": { "maxItems": limits.tags },
        "max_retries": { "minimum": 1, "maximum": MAX_ATTEMPTS },
        "grace_seconds": { "minimum": 0, "maximum": 40 },
    });
    let register = json!({ "id": { "minLength": 1, "maxLength": limits.name } });
    let amounts = json!({
        "cpus": { "minimum": 0, "maximum": 1_000_000_000 },
        "memory_mb": { "maximum": MAX_AMOUNT },
        "vram_mb": { "maximum": MAX_AMOUNT },
        "gpus": { "maximum": MAX_AMOUNT },
    });
    for (schema, demands) in [
        ("SubmitRequest", submit),
        ("RegisterRequest", register),
        ("Quota", amounts.clone()),
        ("Resources", amounts),
    ] {
        let properties = document.pointer_mut(&format!("/components/schemas/{schema}/properties"));
        let (Some(Value::Object(properties)), Value::Object(demands)) = (properties, demands) else {
            continue;
        };
        for (property, demand) in demands {
            if let (Some(Value::Object(property)), Value::Object(demand)) =
                (properties.get_mut(&property), demand)
            {
                property.extend(demand);
            }
        }
    }
    for (schema, required) in
        [("SubmitRequest", "command"), ("RegisterRequest", "id"), ("WebhookRequest", "url")]
    {
        if let Some(schema) = document.pointer_mut(&format!("/components/schemas/{schema}")) {
            schema["required"] = json!([required]);
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (&mut Operation, bool)> {
    let reads = item.get.iter_mut().map(|operation| (operation, false));
    let changes = item.post.iter_mut().chain(&mut item.put).chain(&mut item.patch).chain(&mut item.delete);
    reads.chain(changes.map(|operation| (operation, true)))
}

/// Where jobs come in, and may be turned away.
const SUBMITS: [&str; 5] = ["/jobs", "/jobs/batch", "/arrays", "/pipelines", "/pipelines/{id}/steps"];

fn add_errors(path: &str, operation: &mut Operation, is_post: bool) {
    let in_path = path.contains('{');
    let mut statuses = vec![
        ("400", "The request is malformed"),
        ("401", "What the caller shows is worthless, or it must show something"),
        ("403", "The caller may not do it, or it comes from a web page of another origin"),
        ("421", "It names a host by which the scheduler is not known"),
        ("503", "The store does not answer"),
    ];
    if in_path || path == "/events" || path == "/notice" {
        statuses.push(("404", "Not found"));
    }
    if operation.request_body.is_some() || is_post {
        statuses.push(("408", "The body did not arrive in time"));
        statuses.push(("413", "The body is too large; the message names the limit"));
    }
    if is_post && in_path {
        statuses.push(("409", "Refused: the job is in another state or held by another"));
    }
    if is_post && SUBMITS.contains(&path) {
        statuses
            .push(("409", "The idempotency key names another job already; the message says what differs"));
        statuses.push(("429", "Too many jobs wait; the message has the numbers"));
    }
    for (status, description) in statuses {
        let entry = operation.responses.responses.entry(status.to_owned());
        let response = entry.or_insert_with(|| RefOr::T(Response::new(description)));
        if let RefOr::T(response) = response {
            add_error_bodies(response);
        }
    }
    let errors =
        operation.responses.responses.iter_mut().filter(|(status, _)| status.starts_with(['4', '5']));
    for (_, response) in errors {
        if let RefOr::T(response) = response {
            add_error_bodies(response);
        }
    }
}

/// Errors are plain text, or a problem object when the client accepts JSON.
fn add_error_bodies(response: &mut Response) {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    response.content.insert("text/plain".to_owned(), Content::new(Some(text)).into());
    let problem = Content::new(Some(Ref::from_schema_name("Problem")));
    response.content.insert("application/problem+json".to_owned(), problem.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_lists_its_errors() {
        let document: Value = serde_json::from_str(&document().unwrap()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.len() >= 26, "{}", paths.len());
        let submit = &paths["/jobs"]["post"]["responses"];
        for status in ["200", "201", "400", "413", "429", "503"] {
            assert!(submit[status].is_object(), "{status}: {submit}");
        }
        let done = &paths["/jobs/{id}/done"]["post"]["responses"];
        assert!(done["404"]["content"]["application/problem+json"].is_object(), "{done}");
        assert!(
            paths["/jobs/{id}/logs"]["post"]["responses"]["409"]["content"]["application/json"].is_object()
        );
    }
}
