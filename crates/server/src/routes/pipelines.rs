//! Pipelines: submitted whole, watched, extended, cancelled and run again.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderName, HeaderValue, StatusCode};
use muster_domain::{SetId, SetKind};
use muster_protocol::{BulkResult, HEADER_IDEMPOTENCY_KEY, HEADER_NEXT_CURSOR, JobSet, Pipeline};
use muster_store::{Command, JobFilter, JobView, Outcome, SetFilter, SetView, StoreExt, Submit};

use super::bulk::{Order, Verb, matching, of_set};
use super::control::message;
use super::listing::limit;
use crate::app::{App, Shared};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, SetPath, json};
use crate::set_submission::{self as submission, Existing, mistakes, parameters, uploads};
use crate::{job_inputs, ownership, secret_uses, view};

/// Up to this size the jobs of a pipeline are read at once.
const READ_WHOLE: u32 = 2_000;
/// Jobs of one step that are read of a larger one.
const READ_OF_STEP: usize = 100;
/// Sets in a page when none is asked for.
const DEFAULT_PAGE: usize = 100;

/// Submits a whole pipeline: the file itself, YAML or JSON, is the body.
#[utoipa::path(
    post, path = "/pipelines", tag = "pipelines",
    request_body(content = String, content_type = "application/yaml", description = "The pipeline file"),
    params(
        ("param" = Option<Vec<String>>, Query, description = "A parameter of the file, as NAME=VALUE"),
        ("working_dir" = Option<String>, Query, description = "Where steps run that do not say it"),
        ("upload" = Option<Vec<String>>, Query, description = "What the file names and was sent, as PATH=ID"),
        ("user" = Option<String>, Query, description = "Who submits the steps that do not say it"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes the submit safe to repeat"),
    ),
    responses(
        (status = 201, description = "The pipeline was taken", body = Pipeline),
        (status = 200, description = "The pipeline that the key names", body = Pipeline),
    )
)]
pub(crate) async fn submit_pipeline(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let text = text(&app, body).await?;
    let document = muster_document::parse(&text, &parameters(call.params.all("param"))?)
        .map_err(|found| mistakes(&found))?;
    let existing = Existing::new();
    let pipeline = submission::Pipeline {
        document: &document,
        existing: &existing,
        config: &app.config,
        working_dir: call.params.filled("working_dir"),
        user: call.params.filled("user"),
        uploads: &uploads(call.params.all("upload"))?,
    };
    let (_, submit) = pipeline.create(call.header(HEADER_IDEMPOTENCY_KEY).map(str::to_owned))?;
    let taken = take(&app, &call, submit).await?;
    tracing::info!(set_id = %taken.id, request_id = %call.request_id, size = taken.size, "pipeline submitted");
    answer(&app, &call, taken).await
}

/// Adds steps to a pipeline; they may need steps that are there.
#[utoipa::path(
    post, path = "/pipelines/{id}/steps", tag = "pipelines",
    request_body(content = String, content_type = "application/yaml", description = "A file of the new steps"),
    params(
        ("id" = String, Path),
        ("param" = Option<Vec<String>>, Query, description = "A parameter of the file, as NAME=VALUE"),
        ("working_dir" = Option<String>, Query, description = "Where steps run that do not say it"),
        ("upload" = Option<Vec<String>>, Query, description = "What the file names and was sent, as PATH=ID"),
        ("user" = Option<String>, Query, description = "Who submits the steps that do not say it"),
    ),
    responses((status = 201, description = "The pipeline with the new steps", body = Pipeline))
)]
pub(crate) async fn add_steps(
    State(app): State<Shared>,
    SetPath(id): SetPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let text = text(&app, body).await?;
    let view = find(&app, &call, id, SetKind::Pipeline).await?;
    let names: BTreeSet<String> = view.set.outline.iter().map(|step| step.name.clone()).collect();
    let parameters = parameters(call.params.all("param"))?;
    let document = muster_document::parse_addition(&text, &parameters, &names);
    let document = document.map_err(|found| mistakes(&found))?;
    let needed = document.steps.iter().flat_map(|step| &step.needs).map(|need| &need.step);
    let needed: BTreeSet<&String> = needed.filter(|name| names.contains(*name)).collect();
    let mut existing = Existing::new();
    for name in needed {
        existing.insert(name.clone(), jobs_of_step(&app, id, name).await?);
    }
    let pipeline = submission::Pipeline {
        document: &document,
        existing: &existing,
        config: &app.config,
        working_dir: call.params.filled("working_dir"),
        user: call.params.filled("user"),
        uploads: &uploads(call.params.all("upload"))?,
    };
    let taken = take(&app, &call, pipeline.extend(id)?).await?;
    tracing::info!(set_id = %id, request_id = %call.request_id, size = taken.size, "steps added");
    answer(&app, &call, taken).await
}

async fn jobs_of_step(app: &App, set: SetId, step: &str) -> Result<Vec<String>, ApiError> {
    let (mut ids, mut before_seq) = (Vec::new(), None);
    loop {
        let filter = of_set(set, Some(step.to_owned()));
        let page = app.store.jobs(JobFilter { before_seq, limit: Some(1_000), ..filter }).await?;
        ids.extend(page.jobs.iter().map(|view| view.job.id.to_string()));
        before_seq = page.next;
        if before_seq.is_none() {
            return Ok(ids);
        }
    }
}

async fn text(app: &App, body: Body) -> Result<String, ApiError> {
    let bytes = read_body(app, body, app.config.limits.body).await?;
    String::from_utf8(bytes.to_vec())
        .map_err(|_| ApiError::bad_request("invalid_pipeline", "1:1: the file is not UTF-8 text"))
}

/// A set that was taken in.
pub(super) struct Taken {
    pub(super) id: SetId,
    pub(super) size: u32,
    pub(super) repeated: bool,
    pub(super) warnings: Vec<String>,
}

pub(super) async fn take(app: &App, call: &Call, mut submit: Submit) -> Result<Taken, ApiError> {
    ownership::admit(app, &call.identity, &mut submit.jobs).await?;
    secret_uses::admit(app, &call.identity.principal, &submit.jobs).await?;
    job_inputs::admit(app, &call.identity.principal, &mut submit.jobs).await?;
    let mut remarks = app.admission.admit(app.store.as_ref(), &submit.jobs).await?;
    match app.batcher.submit_one(call.attributed(Command::Submit(submit))).await? {
        Outcome::SubmittedSet { set, repeated, warnings } => {
            if repeated {
                find(app, call, set.id, set.kind).await.map_err(|_| ApiError::key_taken())?;
            }
            remarks.extend(warnings);
            Ok(Taken { id: set.id, size: set.size, repeated, warnings: remarks })
        }
        _ => Err(ApiError::internal()),
    }
}

pub(super) async fn find(app: &App, call: &Call, id: SetId, kind: SetKind) -> Result<SetView, ApiError> {
    let filter =
        SetFilter { ids: vec![id], kind: Some(kind), seen_by: call.seen_by(), ..SetFilter::default() };
    app.store.sets(filter).await?.pop().ok_or_else(ApiError::set_not_found)
}

async fn answer(app: &App, call: &Call, taken: Taken) -> Result<Response, ApiError> {
    let mut pipeline = read(app, call, taken.id).await?;
    pipeline.set.repeated = taken.repeated;
    pipeline.set.warnings = taken.warnings;
    json(if taken.repeated { StatusCode::OK } else { StatusCode::CREATED }, &pipeline)
}

async fn read(app: &App, call: &Call, id: SetId) -> Result<Pipeline, ApiError> {
    let view = find(app, call, id, SetKind::Pipeline).await?;
    let mut jobs: Vec<JobView> = Vec::new();
    if view.set.size <= READ_WHOLE {
        let filter =
            JobFilter { limit: Some(READ_WHOLE as usize), seen_by: call.seen_by(), ..of_set(id, None) };
        jobs = app.store.jobs(filter).await?.jobs;
    } else {
        for step in &view.set.outline {
            let of_step = of_set(id, Some(step.name.clone()));
            let filter = JobFilter { limit: Some(READ_OF_STEP), seen_by: call.seen_by(), ..of_step };
            jobs.extend(app.store.jobs(filter).await?.jobs);
        }
    }
    Ok(view::pipeline(&view, &jobs))
}

/// A pipeline with its steps and their states.
#[utoipa::path(
    get, path = "/pipelines/{id}", tag = "pipelines", params(("id" = String, Path)),
    responses((status = 200, description = "The pipeline", body = Pipeline))
)]
pub(crate) async fn get_pipeline(
    State(app): State<Shared>,
    SetPath(id): SetPath,
    call: Call,
) -> Result<Response, ApiError> {
    json(StatusCode::OK, &read(&app, &call, id).await?)
}

/// Pipelines, newest first.
#[utoipa::path(
    get, path = "/pipelines", tag = "pipelines",
    params(("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, description = "A page of pipelines", body = Vec<JobSet>))
)]
pub(crate) async fn list_pipelines(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    list(&app, &call, SetKind::Pipeline).await
}

pub(super) async fn list(app: &App, call: &Call, kind: SetKind) -> Result<Response, ApiError> {
    let asked = limit(&call.params, app.config.limits.page)?.unwrap_or(DEFAULT_PAGE);
    let filter = SetFilter {
        kind: Some(kind),
        before_seq: call.params.integer("cursor")?,
        limit: Some(asked + 1),
        seen_by: call.seen_by(),
        ..SetFilter::default()
    };
    let mut sets = app.store.sets(filter).await?;
    let more = sets.len() > asked;
    sets.truncate(asked);
    let shown: Vec<JobSet> = sets.iter().map(view::set).collect();
    let mut response = json(StatusCode::OK, &shown)?;
    if let Some(last) = sets.last().filter(|_| more) {
        let name = HeaderName::from_static(HEADER_NEXT_CURSOR);
        response.headers_mut().insert(name, HeaderValue::from(last.set.seq));
    }
    Ok(response)
}

/// Cancels every unfinished job of a pipeline.
#[utoipa::path(
    post, path = "/pipelines/{id}/cancel", tag = "pipelines",
    params(
        ("id" = String, Path), ("message" = Option<String>, Query, description = "Why"),
        ("dry_run" = Option<bool>, Query, description = "Only say what would end"),
    ),
    responses((status = 200, description = "What was ended and what was told to stop", body = BulkResult))
)]
pub(crate) async fn cancel_pipeline(
    State(app): State<Shared>,
    SetPath(id): SetPath,
    call: Call,
) -> Result<Response, ApiError> {
    find(&app, &call, id, SetKind::Pipeline).await?;
    change(&app, id, Verb::Cancel, &call).await
}

/// Runs failed and cancelled steps again: all of them, or one (`from`) with what depends on it.
#[utoipa::path(
    post, path = "/pipelines/{id}/retry", tag = "pipelines",
    params(
        ("id" = String, Path), ("from" = Option<String>, Query, description = "Only this step and what follows it"),
        ("message" = Option<String>, Query, description = "Why"),
        ("dry_run" = Option<bool>, Query, description = "Only say what would run"),
    ),
    responses((status = 200, description = "What runs again", body = BulkResult))
)]
pub(crate) async fn retry_pipeline(
    State(app): State<Shared>,
    SetPath(id): SetPath,
    call: Call,
) -> Result<Response, ApiError> {
    let view = find(&app, &call, id, SetKind::Pipeline).await?;
    if let Some(step) = call.params.filled("from")
        && !view.set.outline.iter().any(|known| known.name == step)
    {
        let names: Vec<&str> = view.set.outline.iter().map(|step| step.name.as_str()).collect();
        let message = format!("the pipeline has no step {step:?}; its steps are {}", names.join(", "));
        return Err(ApiError::bad_request("unknown_step", message).at("from"));
    }
    change(&app, id, Verb::Retry, &call).await
}

pub(super) async fn change(app: &App, id: SetId, verb: Verb, call: &Call) -> Result<Response, ApiError> {
    let step = call.params.filled("from").map(str::to_owned);
    let order = Order { verb, reason: message(call)?, dry_run: call.params.flag("dry_run") };
    let ids = matching(app, verb, of_set(id, step)).await?;
    // A part of it may be somebody else's.
    let (ids, _) = ownership::changeable(app, &call.identity.principal, ids).await?;
    let result = order.carry_out(app, call, ids).await?;
    json(StatusCode::OK, &result)
}
