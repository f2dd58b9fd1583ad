//! `POST /jobs`.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_protocol::{HEADER_IDEMPOTENCY_KEY, Job, SubmitRequest};
use muster_store::{Command, Outcome, Submit, Submitted};

use crate::app::Shared;
use crate::edge::RequestId;
use crate::error::ApiError;
use crate::extract::{Call, json, read_body};
use crate::submission::SubmitBody;
use crate::{lenient, view};

/// Submits one job.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs", request_body = SubmitRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the submit safe to repeat")),
    responses(
        (status = 201, description = "The job was taken", body = Job),
        (status = 200, description = "The job that the idempotency key names", body = Job),
        (status = 501, description = "Gangs are not supported yet", content_type = "text/plain", body = String),
    )
)]
pub(crate) async fn submit_job(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(body, app.config.limits.body, app.config.body_timeout).await?;
    let mut request: SubmitBody = lenient::decode(&bytes)?;
    if let Some(key) = call.header(HEADER_IDEMPOTENCY_KEY) {
        request.idempotency_key = Some(key.to_owned());
    }
    let job = request.into_new_job(&app.config)?;
    app.admission.admit(app.store.as_ref(), std::slice::from_ref(&job)).await?;
    let command = Command::Submit(Submit { jobs: vec![job], atomic: false, set: None });
    let submitted = match app.batcher.submit_one(command).await? {
        Outcome::Submitted(mut results) => results.pop().ok_or_else(ApiError::internal)??,
        _ => return Err(ApiError::internal()),
    };
    note(&app, &submitted, call.request_id);
    let status = if submitted.repeated { StatusCode::OK } else { StatusCode::CREATED };
    json(status, &view::submitted(submitted))
}

fn note(app: &Shared, submitted: &Submitted, request_id: RequestId) {
    if submitted.repeated || !app.journal.admits() {
        return;
    }
    let job = &submitted.job;
    let command = job.spec.program.to_line();
    tracing::info!(
        job_id = %job.id,
        %request_id,
        command,
        depends_on = ?job.spec.depends_on,
        "job submitted"
    );
}
