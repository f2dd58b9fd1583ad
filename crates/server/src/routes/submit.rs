//! `POST /jobs`.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_protocol::{GangSubmitted, HEADER_IDEMPOTENCY_KEY, Job, SubmitRequest};
use muster_store::{Command, Outcome, StoreExt, Submit, Submitted};

use crate::app::Shared;
use crate::body::read_body;
use crate::edge::RequestId;
use crate::error::ApiError;
use crate::extract::{Call, json};
use crate::submission::SubmitBody;
use crate::visibility::Visibility;
use crate::{gang_submission, job_inputs, lenient, ownership, secret_uses, view};

/// Submits one job.
#[utoipa::path(
    post, path = "/jobs", tag = "jobs", request_body = SubmitRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the submit safe to repeat")),
    responses(
        (status = 201, description = "The job, or the gang, was taken", body = SubmitAnswer),
        (status = 200, description = "What the idempotency key names", body = SubmitAnswer),
    )
)]
pub(crate) async fn submit_job(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let mut request: SubmitBody = lenient::decode(&bytes, call.reading())?;
    if let Some(key) = call.header(HEADER_IDEMPOTENCY_KEY) {
        request.idempotency_key = Some(key.to_owned());
    }
    let job = request.into_new_job(&app.config)?;
    let is_gang = job.spec.gang.is_some();
    let mut jobs = gang_submission::spread(vec![job]);
    ownership::admit(&app, &call.identity, &mut jobs).await?;
    secret_uses::admit(&app, &call.identity.principal, &jobs).await?;
    job_inputs::admit(&app, &call.identity.principal, &mut jobs).await?;
    let remarks = app.admission.admit(app.store.as_ref(), &jobs).await?;
    let command = call.attributed(Command::Submit(Submit { jobs, atomic: is_gang, set: None }));
    let Outcome::Submitted(results) = app.batcher.submit_one(command).await? else {
        return Err(ApiError::internal());
    };
    let mut taken = results.into_iter().collect::<Result<Vec<Submitted>, _>>()?;
    let first = if taken.is_empty() { return Err(ApiError::internal()) } else { taken.remove(0) };
    if first.repeated
        && !Visibility::of_job(&app, &call.identity.principal, &first.job).await?.has(&first.job)
    {
        return Err(ApiError::key_taken());
    }
    note(&app, &first, call.request_id);
    let first = Submitted { warnings: remarks.into_iter().chain(first.warnings).collect(), ..first };
    let status = if first.repeated { StatusCode::OK } else { StatusCode::CREATED };
    // A key may name a job that is no gang, and the other way round: what it names is shown as it is.
    let Some(gang) = first.job.spec.gang.as_ref().map(|gang| gang.id) else {
        return json(status, &view::submitted(first));
    };
    let tasks = app.store.gang(gang).await?;
    let tasks = tasks.iter().map(|task| task.job.id.to_string()).collect();
    json(status, &GangSubmitted { gang_id: gang.to_string(), tasks, warnings: first.warnings })
}

/// Either shape that a submit is answered in.
#[derive(utoipa::ToSchema)]
#[schema(as = SubmitAnswer)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes the answer in the OpenAPI document")]
pub(crate) enum SubmitAnswer {
    #[schema(title = "Job")]
    Job(Box<Job>),
    #[schema(title = "Gang")]
    Gang(GangSubmitted),
}

fn note(app: &Shared, submitted: &Submitted, request_id: RequestId) {
    if submitted.repeated || !app.journal.admits() {
        return;
    }
    let job = &submitted.job;
    let command = job.spec.program.to_line();
    if let Some(gang) = &job.spec.gang {
        tracing::info!(gang_id = %gang.id, %request_id, gang_size = gang.size, command, "gang submitted");
        return;
    }
    tracing::info!(
        job_id = %job.id,
        %request_id,
        command,
        depends_on = ?job.spec.depends_on,
        "job submitted"
    );
}
