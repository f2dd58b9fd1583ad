//! Every path and the handler behind it.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::app::Shared;
use crate::edge;
use crate::error::ApiError;

use super::{
    arrays, batch, bulk, cancel, checkpoint, claim, control, dead_letters, docs, events, explain, gangs,
    jobs, listing, logs, notice, pipelines, queues, reports, submit, summary, sync, system, webhooks,
    workers,
};

/// The whole API of one scheduler.
pub(crate) fn router(app: Shared) -> Router {
    Router::new()
        .route("/jobs", get(listing::list_jobs).post(submit::submit_job))
        .route("/jobs/batch", post(batch::submit_batch))
        .route("/jobs/next", get(claim::claim_next))
        .route("/jobs/bulk/{verb}", post(bulk::change_many))
        .route("/jobs/{id}", get(jobs::get_job).patch(control::edit_job).delete(control::delete_job))
        .route("/jobs/{id}/hold", post(control::hold_job))
        .route("/jobs/{id}/unhold", post(control::unhold_job))
        .route("/jobs/{id}/retry", post(control::retry_job))
        .route("/jobs/{id}/done", post(reports::report_done))
        .route("/jobs/{id}/fail", post(reports::report_fail))
        .route("/jobs/{id}/release", post(reports::report_release))
        .route("/jobs/{id}/heartbeat", post(reports::job_heartbeat))
        .route("/jobs/{id}/preempted", post(reports::report_preempted))
        .route("/jobs/{id}/checkpoint", get(checkpoint::get_checkpoint).post(checkpoint::save_checkpoint))
        .route("/jobs/{id}/cancel", post(cancel::cancel_job))
        .route("/jobs/{id}/events", get(events::job_events))
        .route("/jobs/{id}/why", get(jobs::why))
        .route("/jobs/{id}/logs", get(logs::read_logs).post(logs::append_log))
        .route("/jobs/{id}/logs/stream", get(logs::stream_logs))
        .route("/jobs/{id}/logs/runs", get(logs::log_runs))
        .route("/pipelines", get(pipelines::list_pipelines).post(pipelines::submit_pipeline))
        .route("/pipelines/{id}", get(pipelines::get_pipeline))
        .route("/pipelines/{id}/steps", post(pipelines::add_steps))
        .route("/pipelines/{id}/cancel", post(pipelines::cancel_pipeline))
        .route("/pipelines/{id}/retry", post(pipelines::retry_pipeline))
        .route("/arrays", get(arrays::list_arrays).post(arrays::submit_array))
        .route("/arrays/{id}", get(arrays::get_array))
        .route("/arrays/{id}/cancel", post(arrays::cancel_array))
        .route("/arrays/{id}/retry", post(arrays::retry_array))
        .route("/queues", get(queues::list_queues))
        .route("/queues/{name}", get(queues::get_queue).put(queues::put_queue).delete(queues::delete_queue))
        .route("/workers", get(workers::list_workers))
        .route("/workers/register", post(workers::register))
        .route("/workers/{id}/heartbeat", post(workers::worker_heartbeat))
        .route("/workers/{id}/release", post(workers::release_worker))
        .route("/workers/{id}/sync", post(sync::sync_worker))
        .route("/webhooks", get(webhooks::list_webhooks).post(webhooks::create_webhook))
        .route(
            "/webhooks/dead-letters",
            get(dead_letters::list_dead_letters).delete(dead_letters::delete_dead_letters),
        )
        .route("/webhooks/dead-letters/retry", post(dead_letters::retry_dead_letters))
        .route(
            "/webhooks/{id}",
            get(webhooks::get_webhook).patch(webhooks::update_webhook).delete(webhooks::delete_webhook),
        )
        .route("/webhooks/{id}/test", post(webhooks::test_webhook))
        .route("/events", get(events::stream_events))
        .route("/health", get(system::health))
        .route("/healthz", get(system::healthz))
        .route("/readyz", get(system::readyz))
        .route("/metrics", get(system::metrics))
        .route("/summary", get(summary::summary))
        .route("/explain", get(explain::explain))
        .route("/version", get(system::version))
        .route("/openapi.json", get(docs::openapi_document))
        .route("/docs", get(docs::page))
        .merge(gang_routes())
        .fallback(|| async { ApiError::page_not_found() })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(from_fn_with_state(app.clone(), edge::wrap))
        .with_state(app)
}

/// Gangs, and what a job is told about its own end.
fn gang_routes() -> Router<Shared> {
    Router::new()
        .route("/jobs/{id}/preempt", post(gangs::preempt_job))
        .route("/notice", get(notice::get_notice))
        .route("/gangs", get(gangs::list_gangs))
        .route("/gangs/{id}", get(gangs::get_gang))
        .route("/gangs/{id}/cancel", post(gangs::cancel_gang))
        .route("/gangs/{id}/retry", post(gangs::retry_gang))
        .route("/gangs/{id}/hold", post(gangs::hold_gang))
        .route("/gangs/{id}/unhold", post(gangs::unhold_gang))
        .route("/gangs/{id}/preempt", post(gangs::preempt_gang))
        .route("/gangs/{id}/why", get(gangs::why_gang))
        .route("/gangs/{id}/events", get(gangs::gang_events))
}
