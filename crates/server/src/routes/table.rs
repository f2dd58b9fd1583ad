//! Every path, what it does and the handler behind it.
//!
//! Guarantee: a request reaches a handler only through [`edge`], which asks whether the caller may do what its row says.

use axum::Router;
use axum::middleware::from_fn_with_state;
use muster_domain::access::Action::{
    ChangeJobs, ChangeQueues, ChangeSecrets, ChangeWebhooks, ChangeWorkers, ClaimJobs, FollowLink, Join,
    ManageAccounts, ManageKeys, ManageTokens, OpenTerminal, ReadArtifacts, ReadAudit, ReadCheckpoint,
    ReadCluster, ReadEvents, ReadHealth, ReadInputs, ReadJobs, ReadMetrics, ReadNotice, ReadOutput,
    ReadQueues, ReadSecrets, ReadWebhooks, ReadWorkers, RemoveQueues, ReportJobs, SaveArtifacts,
    SaveCheckpoint, ServeTerminal, SubmitJobs, UseAccount,
};

use crate::app::Shared;
use crate::edge::{self, Edge};
use crate::error::ApiError;

use super::rows::{Routes, Verb};
use super::{
    arrays, artifact_links, artifact_uploads, artifacts, auth, batch, bulk, cancel, checkpoint, claim,
    control, credentials, dead_letters, docs, events, explain, gangs, images, inputs, jobs, listing, logs,
    notice, oidc, pipelines, queues, reports, secrets, submit, summary, sync, system, terminals, uploads,
    usage, users, webhooks, workers,
};

/// The whole API of one scheduler.
pub(crate) fn router(app: Shared) -> Router {
    let (router, rows) = all().into_parts();
    router
        .fallback(|| async { ApiError::page_not_found() })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(from_fn_with_state(Edge::new(app.clone(), rows), edge::wrap))
        .with_state(app)
}

/// Every route with its row.
pub(super) fn all() -> Routes {
    let routes = job_routes(Routes::default());
    let routes = set_routes(routes);
    let routes = worker_routes(routes);
    let routes = queue_and_webhook_routes(routes);
    let routes = secret_routes(routes);
    let routes = upload_routes(routes);
    let routes = access_routes(routes);
    cluster_routes(routes)
}

/// Jobs as people and programs use them.
fn job_routes(routes: Routes) -> Routes {
    routes
        .get("/jobs", ReadJobs, listing::list_jobs)
        .post("/jobs", SubmitJobs, submit::submit_job)
        .post("/jobs/batch", SubmitJobs, batch::submit_batch)
        .post("/jobs/bulk/{verb}", ChangeJobs, bulk::change_many)
        .get("/jobs/{id}", ReadJobs, jobs::get_job)
        .on(Verb::Patch, "/jobs/{id}", ChangeJobs, control::edit_job)
        .on(Verb::Delete, "/jobs/{id}", ChangeJobs, control::delete_job)
        .post("/jobs/{id}/hold", ChangeJobs, control::hold_job)
        .post("/jobs/{id}/unhold", ChangeJobs, control::unhold_job)
        .post("/jobs/{id}/retry", ChangeJobs, control::retry_job)
        .post("/jobs/{id}/cancel", ChangeJobs, cancel::cancel_job)
        .get("/jobs/{id}/events", ReadJobs, events::job_events)
        .get("/jobs/{id}/why", ReadJobs, jobs::why)
        .get("/jobs/{id}/attempts", ReadJobs, usage::job_attempts)
        .get("/jobs/{id}/logs", ReadOutput, logs::read_logs)
        .get("/jobs/{id}/logs/stream", ReadOutput, logs::stream_logs)
        .get("/jobs/{id}/logs/runs", ReadOutput, logs::log_runs)
        .get("/jobs/{id}/artifacts", ReadArtifacts, artifacts::list_artifacts)
        .get("/jobs/{id}/artifacts/{name}", ReadArtifacts, artifacts::get_artifact)
        .on(Verb::Put, "/jobs/{id}/artifacts/{name}", SaveArtifacts, artifacts::put_artifact)
        .post("/jobs/{id}/artifacts/{name}/url", ReadArtifacts, artifact_links::make_link)
        .post("/jobs/{id}/artifact-uploads", SaveArtifacts, artifact_uploads::offer_artifacts)
        .post("/jobs/{id}/artifact-uploads/complete", SaveArtifacts, artifact_uploads::complete_artifacts)
        .get("/artifact-links/{token}/{file}", FollowLink, artifact_links::follow_link)
        .get("/jobs/{id}/exec", OpenTerminal, terminals::exec)
        .get("/jobs/{id}/terminal", OpenTerminal, terminals::attach)
        .post("/jobs/{id}/preempt", ChangeJobs, gangs::preempt_job)
}

/// Pipelines, arrays and gangs.
fn set_routes(routes: Routes) -> Routes {
    routes
        .get("/pipelines", ReadJobs, pipelines::list_pipelines)
        .post("/pipelines", SubmitJobs, pipelines::submit_pipeline)
        .get("/pipelines/{id}", ReadJobs, pipelines::get_pipeline)
        .post("/pipelines/{id}/steps", ChangeJobs, pipelines::add_steps)
        .post("/pipelines/{id}/cancel", ChangeJobs, pipelines::cancel_pipeline)
        .post("/pipelines/{id}/retry", ChangeJobs, pipelines::retry_pipeline)
        .get("/arrays", ReadJobs, arrays::list_arrays)
        .post("/arrays", SubmitJobs, arrays::submit_array)
        .get("/arrays/{id}", ReadJobs, arrays::get_array)
        .post("/arrays/{id}/cancel", ChangeJobs, arrays::cancel_array)
        .post("/arrays/{id}/retry", ChangeJobs, arrays::retry_array)
        .get("/gangs", ReadJobs, gangs::list_gangs)
        .get("/gangs/{id}", ReadJobs, gangs::get_gang)
        .post("/gangs/{id}/cancel", ChangeJobs, gangs::cancel_gang)
        .post("/gangs/{id}/retry", ChangeJobs, gangs::retry_gang)
        .post("/gangs/{id}/hold", ChangeJobs, gangs::hold_gang)
        .post("/gangs/{id}/unhold", ChangeJobs, gangs::unhold_gang)
        .post("/gangs/{id}/preempt", ChangeJobs, gangs::preempt_gang)
        .get("/gangs/{id}/why", ReadJobs, gangs::why_gang)
        .get("/gangs/{id}/events", ReadJobs, gangs::gang_events)
}

/// Workers, and what they say about the jobs that they hold.
fn worker_routes(routes: Routes) -> Routes {
    routes
        .get("/jobs/next", ClaimJobs, claim::claim_next)
        .post("/jobs/{id}/done", ReportJobs, reports::report_done)
        .post("/jobs/{id}/fail", ReportJobs, reports::report_fail)
        .post("/jobs/{id}/release", ReportJobs, reports::report_release)
        .post("/jobs/{id}/heartbeat", ReportJobs, reports::job_heartbeat)
        .post("/jobs/{id}/preempted", ReportJobs, reports::report_preempted)
        .post("/jobs/{id}/image", ReportJobs, images::note_image)
        .get("/jobs/{id}/checkpoint", ReadCheckpoint, checkpoint::get_checkpoint)
        .post("/jobs/{id}/checkpoint", SaveCheckpoint, checkpoint::save_checkpoint)
        .post("/jobs/{id}/logs", ReportJobs, logs::append_log)
        .get("/jobs/{id}/terminals/{session}", ServeTerminal, terminals::join)
        .post("/jobs/{id}/terminals/{session}", ServeTerminal, terminals::order)
        .get("/workers", ReadWorkers, workers::list_workers)
        .post("/workers/register", ClaimJobs, workers::register)
        .post("/workers/{id}/heartbeat", ClaimJobs, workers::worker_heartbeat)
        .post("/workers/{id}/release", ChangeWorkers, workers::release_worker)
        .post("/workers/{id}/sync", ClaimJobs, sync::sync_worker)
        .get("/notice", ReadNotice, notice::get_notice)
}

/// Queues, webhooks and their dead letters.
fn queue_and_webhook_routes(routes: Routes) -> Routes {
    routes
        .get("/queues", ReadQueues, queues::list_queues)
        .get("/queues/{name}", ReadQueues, queues::get_queue)
        .on(Verb::Put, "/queues/{name}", ChangeQueues, queues::put_queue)
        .on(Verb::Delete, "/queues/{name}", RemoveQueues, queues::delete_queue)
        .get("/webhooks", ReadWebhooks, webhooks::list_webhooks)
        .post("/webhooks", ChangeWebhooks, webhooks::create_webhook)
        .get("/webhooks/dead-letters", ReadWebhooks, dead_letters::list_dead_letters)
        .on(Verb::Delete, "/webhooks/dead-letters", ChangeWebhooks, dead_letters::delete_dead_letters)
        .post("/webhooks/dead-letters/retry", ChangeWebhooks, dead_letters::retry_dead_letters)
        .get("/webhooks/{id}", ReadWebhooks, webhooks::get_webhook)
        .on(Verb::Patch, "/webhooks/{id}", ChangeWebhooks, webhooks::update_webhook)
        .on(Verb::Delete, "/webhooks/{id}", ChangeWebhooks, webhooks::delete_webhook)
        .post("/webhooks/{id}/test", ChangeWebhooks, webhooks::test_webhook)
}

/// Secrets and the keys that they are sealed to.
fn secret_routes(routes: Routes) -> Routes {
    routes
        .get("/secrets", ReadSecrets, secrets::list_secrets)
        .get("/secrets/keys", ReadSecrets, secrets::fleet_keys)
        .get("/secrets/{name}", ReadSecrets, secrets::get_secret)
        .on(Verb::Put, "/secrets/{name}", ChangeSecrets, secrets::put_secret)
        .on(Verb::Delete, "/secrets/{name}", ChangeSecrets, secrets::delete_secret)
}

/// Uploads, and what workers fetch of them.
fn upload_routes(routes: Routes) -> Routes {
    routes
        .get("/uploads/limits", SubmitJobs, uploads::upload_limits)
        .post("/uploads", SubmitJobs, uploads::declare_upload)
        .post("/uploads/{id}/chunks", SubmitJobs, uploads::send_chunks)
        .post("/uploads/{id}/complete", SubmitJobs, uploads::complete_upload)
        .get("/jobs/{id}/uploads/{upload}", ReadInputs, uploads::get_job_upload)
        .post("/jobs/{id}/uploads/{upload}/chunks", ReadInputs, uploads::read_job_chunks)
        .get("/jobs/{id}/inputs", ReadInputs, inputs::list_inputs)
        .get("/jobs/{id}/inputs/{name}", ReadInputs, inputs::get_input)
}

/// Users, tokens, keys of workers, and who did what to them.
fn access_routes(routes: Routes) -> Routes {
    routes
        .post("/auth/login", UseAccount, auth::login)
        .post("/auth/logout", UseAccount, auth::logout)
        .get("/auth/whoami", UseAccount, auth::whoami)
        .post("/auth/password", UseAccount, auth::change_password)
        .get("/auth/methods", ReadHealth, oidc::methods)
        .get("/auth/oidc/login", UseAccount, oidc::login)
        .get("/auth/oidc/callback", UseAccount, oidc::callback)
        .post("/auth/oidc/device", UseAccount, oidc::device)
        .post("/auth/oidc/device/token", UseAccount, oidc::device_token)
        .get("/users", ManageAccounts, users::list_users)
        .post("/users", ManageAccounts, users::create_user)
        .on(Verb::Patch, "/users/{name}", ManageAccounts, users::change_user)
        .on(Verb::Delete, "/users/{name}", ManageAccounts, users::delete_user)
        .get("/tokens", ManageTokens, credentials::list_tokens)
        .post("/tokens", ManageTokens, credentials::create_token)
        .on(Verb::Delete, "/tokens/{id}", ManageTokens, credentials::revoke_token)
        .post("/join-tokens", ManageKeys, credentials::create_join_token)
        .get("/worker-keys", ManageKeys, credentials::list_keys)
        .on(Verb::Delete, "/worker-keys/{id}", ManageKeys, credentials::revoke_key)
        .post("/workers/join", Join, credentials::join)
        .post("/workers/{id}/key", ClaimJobs, credentials::rotate_key)
        .get("/audit", ReadAudit, credentials::audit)
}

/// The cluster as a whole, and the scheduler itself.
fn cluster_routes(routes: Routes) -> Routes {
    routes
        .get("/events", ReadEvents, events::stream_events)
        .get("/health", ReadHealth, system::health)
        .get("/healthz", ReadHealth, system::healthz)
        .get("/readyz", ReadHealth, system::readyz)
        .get("/metrics", ReadMetrics, system::metrics)
        .get("/summary", ReadCluster, summary::summary)
        .get("/usage", ReadCluster, usage::usage)
        .get("/explain", ReadCluster, explain::explain)
        .get("/version", ReadHealth, system::version)
        .get("/openapi.json", ReadHealth, docs::openapi_document)
        .get("/docs", ReadHealth, docs::page)
}
