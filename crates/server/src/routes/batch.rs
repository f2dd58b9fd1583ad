//! `POST /jobs/batch`: an array in, an array out.
//!
//! Guarantee: elements are checked while they are decoded, so that a body of many tiny elements is
//! refused before it grows in memory.

use std::collections::HashSet;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::{JobId, Rejection};
use muster_protocol::{BatchItem, BatchResult};
use muster_store::{Command, NewJob, Outcome, Submit, Submitted};
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};

use crate::app::Shared;
use crate::body::read_body;
use crate::config::ServerConfig;
use crate::error::ApiError;
use crate::extract::{Call, json};
use crate::lenient::{self, Part, Reading};
use crate::submission::SubmitBody;
use crate::visibility::Visibility;
use crate::{gang_submission, job_inputs, ownership, secret_uses, view};

/// Jobs that were asked for, each checked on its own.
type Items = Vec<Result<NewJob, ApiError>>;

/// Submits many jobs in one transaction. They may depend on one another by `ref`.
#[utoipa::path(
    post, path = "/jobs/batch", tag = "jobs", request_body = Vec<BatchItem>,
    params(("atomic" = Option<bool>, Query, description = "Take all jobs or none")),
    responses(
        (status = 201, description = "Every job was taken", body = Vec<BatchResult>),
        (status = 200, description = "Some jobs were refused; each says why", body = Vec<BatchResult>),
    )
)]
pub(crate) async fn submit_batch(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let atomic = call.params.flag("atomic");
    let bytes = read_body(&app, body, app.config.limits.batch_body).await?;
    // Not before: who sends slowly would keep the others waiting.
    let _room = app.batches.acquire().await.map_err(|_| ApiError::shutting_down())?;
    let items = {
        let bytes = bytes;
        decode(&bytes, call.reading(), &app.config)?
    };
    if atomic {
        refuse_if_any_is_wrong(&items)?;
    }
    let (jobs, mut results) = divide(items);
    let asked = gang_submission::count(&jobs);
    if asked > app.config.limits.batch_items {
        return Err(ApiError::over_limit("batch", app.config.limits.batch_items, "jobs"));
    }
    // A gang answers for all its tasks with the first.
    let mut jobs = gang_submission::spread(jobs);
    ownership::admit(&app, &call.identity, &mut jobs).await?;
    let first_tasks: Vec<bool> = jobs.iter().map(|job| job.first_task.is_none()).collect();
    if asked > 0 {
        secret_uses::admit(&app, &call.identity.principal, &jobs).await?;
        job_inputs::admit(&app, &call.identity.principal, &mut jobs).await?;
        app.admission.admit(app.store.as_ref(), &jobs).await?;
        let command = call.attributed(Command::Submit(Submit { jobs, atomic, set: None }));
        let Outcome::Submitted(outcomes) = app.batcher.submit_one(command).await? else {
            return Err(ApiError::internal());
        };
        if atomic {
            refuse_if_any_was_refused(&outcomes)?;
        }
        let outcomes = outcomes.into_iter().zip(first_tasks).filter(|(_, first)| *first);
        let outcomes = outcomes.map(|(outcome, _)| outcome).collect::<Vec<_>>();
        let repeated = outcomes.iter().flatten().filter(|one| one.repeated).map(|one| one.job.id).collect();
        let visibility = Visibility::of(&app, &call.identity.principal).await?;
        let known = visibility.among(&app, repeated).await?;
        fill(&mut results, outcomes, &known);
    }
    let taken = results.iter().filter(|result| result.id.is_some()).count();
    if taken > 0 && app.journal.admits() {
        tracing::info!(request_id = %call.request_id, count = taken, "batch submitted");
    }
    let all = taken == results.len();
    json(if all { StatusCode::CREATED } else { StatusCode::OK }, &results)
}

/// Decodes an array of jobs and checks each as it comes.
struct ItemsSeed<'a> {
    config: &'a ServerConfig,
    too_many: &'a mut bool,
}

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_> {
    type Value = Items;

    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> Result<Items, D::Error> {
        decoder.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_> {
    type Value = Items;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Items, A::Error> {
        let mut items = Items::new();
        loop {
            lenient::enter(Part::Element(items.len()));
            let Some(body) = elements.next_element::<SubmitBody>()? else { break };
            lenient::leave();
            if items.len() == self.config.limits.batch_items {
                *self.too_many = true;
                return Err(serde::de::Error::custom("too many jobs"));
            }
            items.push(body.into_new_job(self.config));
        }
        Ok(items)
    }
}

fn decode(bytes: &[u8], reading: Reading, config: &ServerConfig) -> Result<Items, ApiError> {
    let mut too_many = false;
    let seed = ItemsSeed { config, too_many: &mut too_many };
    let decoded = lenient::read(bytes, reading, &[], |decoder| seed.deserialize(decoder));
    if too_many {
        return Err(ApiError::over_limit("batch", config.limits.batch_items, "jobs"));
    }
    decoded
}

fn refuse_if_any_is_wrong(items: &Items) -> Result<(), ApiError> {
    let wrong = items.iter().enumerate().find_map(|(index, item)| Some((index, item.as_ref().err()?)));
    wrong.map_or(Ok(()), |(index, error)| Err(at_index(index, error.clone())))
}

fn at_index(index: usize, error: ApiError) -> ApiError {
    ApiError { message: format!("job {index} of the batch: {}", error.message).into(), ..error }
}

/// The jobs that are well formed, and a result for every element: filled for those that are not.
fn divide(items: Items) -> (Vec<NewJob>, Vec<BatchResult>) {
    let mut jobs = Vec::with_capacity(items.len());
    let results = items.into_iter().map(|item| match item {
        Ok(job) => {
            jobs.push(job);
            BatchResult::default()
        }
        Err(error) => BatchResult { error: Some(error.message.into_owned()), ..BatchResult::default() },
    });
    let results = results.collect();
    (jobs, results)
}

fn refuse_if_any_was_refused(outcomes: &[Result<Submitted, Rejection>]) -> Result<(), ApiError> {
    let refused =
        outcomes.iter().enumerate().filter_map(|(index, outcome)| Some((index, outcome.as_ref().err()?)));
    // The others say only that they were refused along with this one.
    let cause = refused.min_by_key(|(_, rejection)| matches!(rejection, Rejection::BatchRefused { .. }));
    cause.map_or(Ok(()), |(index, rejection)| Err(at_index(index, rejection.clone().into())))
}

/// `known` are the repeated ones that the caller may see.
fn fill(results: &mut [BatchResult], outcomes: Vec<Result<Submitted, Rejection>>, known: &HashSet<JobId>) {
    let open = results.iter_mut().filter(|result| result.error.is_none());
    for (result, outcome) in open.zip(outcomes) {
        *result = match outcome {
            Ok(submitted) if submitted.repeated && !known.contains(&submitted.job.id) => {
                let error = Some(ApiError::key_taken().message.into_owned());
                BatchResult { error, ..BatchResult::default() }
            }
            Ok(submitted) => BatchResult {
                id: Some(name(&submitted)),
                status: Some(view::status(submitted.job.status())),
                error: None,
            },
            Err(rejection) => BatchResult { error: Some(rejection.to_string()), ..BatchResult::default() },
        };
    }
}

/// A job by its id, a gang by its own.
fn name(submitted: &Submitted) -> String {
    let job = &submitted.job;
    job.spec.gang.as_ref().map_or_else(|| job.id.to_string(), |gang| gang.id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;

    fn config(batch_items: usize) -> ServerConfig {
        ServerConfig { limits: Limits { batch_items, ..Limits::default() }, ..ServerConfig::default() }
    }

    #[test]
    fn too_many_elements_are_refused_with_the_limit() {
        let error =
            decode(br#"[{"command":"a"},{"command":"b"},{"command":"c"}]"#, Reading::Strict, &config(2))
                .unwrap_err();
        assert_eq!(error.message, "batch exceeds the limit of 2 jobs");
        assert_eq!(
            decode(br#"[{"command":"a"},{"command":"b"}]"#, Reading::Strict, &config(2)).unwrap().len(),
            2
        );
    }

    #[test]
    fn a_wrong_element_keeps_its_place() {
        let items =
            decode(br#"[{"command":"a"},{},{"command":"c"}] rest"#, Reading::Strict, &config(10)).unwrap();
        assert_eq!(
            refuse_if_any_is_wrong(&items).unwrap_err().message,
            "job 1 of the batch: command is required"
        );
        let (jobs, results) = divide(items);
        assert_eq!(jobs.len(), 2);
        assert_eq!(results[1].error.as_deref(), Some("command is required"));
        for body in ["{}", "", "[1]", "[{]", "null"] {
            let error = decode(body.as_bytes(), Reading::Strict, &config(10)).unwrap_err();
            assert_eq!((error.status.as_u16(), error.code), (400, "invalid_body"), "{body}");
        }
    }
}
