//! Every path and the handler behind it.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::app::Shared;
use crate::edge;
use crate::error::ApiError;

use super::{
    batch, cancel, checkpoint, claim, docs, events, jobs, listing, logs, reports, submit, summary, sync,
    system, workers,
};

/// The whole API of one scheduler.
pub(crate) fn router(app: Shared) -> Router {
    Router::new()
        .route("/jobs", get(listing::list_jobs).post(submit::submit_job))
        .route("/jobs/batch", post(batch::submit_batch))
        .route("/jobs/next", get(claim::claim_next))
        .route("/jobs/{id}", get(jobs::get_job))
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
        .route("/gangs/{id}", get(jobs::get_gang))
        .route("/workers", get(workers::list_workers))
        .route("/workers/register", post(workers::register))
        .route("/workers/{id}/heartbeat", post(workers::worker_heartbeat))
        .route("/workers/{id}/sync", post(sync::sync_worker))
        .route("/events", get(events::stream_events))
        .route("/health", get(system::health))
        .route("/healthz", get(system::healthz))
        .route("/readyz", get(system::readyz))
        .route("/metrics", get(system::metrics))
        .route("/summary", get(summary::summary))
        .route("/version", get(system::version))
        .route("/openapi.json", get(docs::openapi_document))
        .route("/docs", get(docs::page))
        .fallback(|| async { ApiError::page_not_found() })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(from_fn_with_state(app.clone(), edge::wrap))
        .with_state(app)
}
