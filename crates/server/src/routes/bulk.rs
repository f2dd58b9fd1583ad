//! `POST /jobs/bulk/{verb}`: one change to many jobs, chosen by a filter.
//!
//! Guarantee: jobs are read and changed in bounded pieces, so that a filter that matches a million jobs
//! neither fills the memory nor holds up others; each piece is one transaction.

use std::collections::{BTreeMap, HashSet};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use muster_domain::{Job, JobId, QueueName, Rejection, SetId, Status, WorkerId};
use muster_protocol::{BulkFilter, BulkResult};
use muster_store::{AccountVerb, Answer, Command, JobFilter, Outcome, StoreExt};

use super::credentials;
use super::listing::statuses_named;
use crate::app::{App, Shared};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, json};
use crate::lenient::{self, lenient_object};
use crate::ownership;

/// Jobs in one transaction.
const PIECE: usize = 200;
/// Jobs that are read at a time.
const PAGE: usize = 1_000;
/// Refusals that are named; the rest only count.
const MOST_REFUSALS: usize = 1_000;

lenient_object! {
    /// Which jobs.
    struct FilterBody {
        ids: Vec<String> = "ids",
        status: Vec<String> = "status",
        queue: String = "queue",
        name: String = "name",
        worker: String = "worker",
        tag: String = "tag",
        pipeline: String = "pipeline" | "set",
        array: String = "array",
        dry_run: bool = "dry_run",
        reason: String = "reason" | "message",
    }
}

/// What is done to each job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Cancel,
    Hold,
    Release,
    Retry,
    Delete,
}

impl Verb {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "cancel" => Some(Self::Cancel),
            "hold" => Some(Self::Hold),
            "release" | "unhold" => Some(Self::Release),
            "retry" => Some(Self::Retry),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Retry => "retry",
            Self::Delete => "delete",
        }
    }

    /// Whether the verb can mean anything for a job in this state.
    fn concerns(self, job: &Job) -> bool {
        let status = job.status();
        match self {
            Self::Cancel => !status.is_terminal(),
            Self::Hold => matches!(status, Status::Pending | Status::Delayed | Status::Blocked),
            Self::Release => job.hold.is_some() && !status.is_terminal(),
            Self::Retry => matches!(status, Status::Failed | Status::Cancelled),
            Self::Delete => status.is_terminal(),
        }
    }

    fn command(self, job: JobId, reason: Option<&String>) -> Command {
        let message = reason.cloned();
        match self {
            Self::Cancel => Command::Cancel { job, message },
            Self::Hold => Command::Hold { job, message },
            Self::Release => Command::Release { job },
            Self::Retry => Command::Retry { job },
            Self::Delete => Command::Delete { job },
        }
    }
}

/// Changes every job that matches.
#[utoipa::path(
    post, path = "/jobs/bulk/{verb}", tag = "jobs", request_body = BulkFilter,
    params(("verb" = String, Path, description = "cancel, hold, release, retry or delete")),
    responses((status = 200, description = "What changed, and what could not be changed", body = BulkResult))
)]
pub(crate) async fn change_many(
    State(app): State<Shared>,
    Path(verb): Path<String>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let verb = Verb::parse(&verb).ok_or_else(ApiError::page_not_found)?;
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let body: FilterBody = lenient::decode(&bytes, call.reading())?;
    let (dry_run, reason) = (body.dry_run.unwrap_or(false), body.reason.clone());
    let named = !body.ids.as_ref().is_none_or(Vec::is_empty);
    let order = Order { verb, reason, dry_run };
    let result = if named {
        let ids =
            body.ids.unwrap_or_default().iter().map(|text| text.parse()).collect::<Result<Vec<JobId>, _>>();
        let ids = ids.map_err(|error| ApiError::invalid_field("ids", error.to_string()))?;
        let (ids, others) = ownership::changeable(&app, &call.identity.principal, ids).await?;
        let mut result = order.carry_out(&app, &call, ids).await?;
        let refused = others.into_iter().take(MOST_REFUSALS);
        result.refused.extend(refused.map(|(id, why)| (id.to_string(), why)));
        result
    } else {
        let filter = filter(body)?;
        let ids = matching(&app, verb, filter).await?;
        // What others have is not meant.
        let (ids, _) = ownership::changeable(&app, &call.identity.principal, ids).await?;
        let result = order.carry_out(&app, &call, ids).await?;
        if verb == Verb::Delete { gone_together(result) } else { result }
    };
    json(StatusCode::OK, &result)
}

/// A task that was there when it was chosen and is not any more went with the others of its gang.
fn gone_together(mut result: BulkResult) -> BulkResult {
    let gone = |id: &str| id.parse().map(|id| Rejection::JobNotFound { id }.to_string()).ok();
    let (together, refused) =
        result.refused.into_iter().partition(|(id, why)| gone(id).as_ref() == Some(why));
    let together: BTreeMap<String, String> = together;
    result.changed.extend(together.into_keys());
    result.refused = refused;
    result
}

fn filter(body: FilterBody) -> Result<JobFilter, ApiError> {
    let mut filter = JobFilter {
        queue: body.queue.filter(|text| !text.is_empty()).map(QueueName::new),
        name: body.name.filter(|text| !text.is_empty()),
        tag: body.tag.filter(|text| !text.is_empty()),
        worker: body.worker.filter(|text| !text.is_empty()).map(WorkerId::new),
        ..JobFilter::default()
    };
    for name in body.status.unwrap_or_default() {
        let unknown = || ApiError::invalid_field("status", format!("status {name:?} is not known"));
        filter.statuses.extend_from_slice(statuses_named(&name).ok_or_else(unknown)?);
    }
    if let Some(text) = body.pipeline.or(body.array).filter(|text| !text.is_empty()) {
        let id = text.parse::<SetId>();
        filter.set = Some(id.map_err(|error| ApiError::invalid_field("pipeline", error.to_string()))?);
    }
    if filter == JobFilter::default() {
        let message =
            "a bulk change needs ids or at least one of status, queue, name, worker, tag, pipeline, array";
        return Err(ApiError::bad_request("filter_required", message));
    }
    Ok(filter)
}

/// The jobs that match and that the verb can mean something for, oldest first.
pub(super) async fn matching(app: &App, verb: Verb, filter: JobFilter) -> Result<Vec<JobId>, ApiError> {
    let mut ids = Vec::new();
    let mut before_seq = None;
    loop {
        let page = app.store.jobs(JobFilter { before_seq, limit: Some(PAGE), ..filter.clone() }).await?;
        let wanted = page.jobs.iter().map(|view| &view.job).filter(|job| verb.concerns(job));
        ids.extend(wanted.map(|job| job.id));
        before_seq = page.next;
        if before_seq.is_none() {
            ids.reverse();
            return Ok(ids);
        }
    }
}

/// A change to many jobs.
pub(super) struct Order {
    pub(super) verb: Verb,
    pub(super) reason: Option<String>,
    pub(super) dry_run: bool,
}

impl Order {
    /// Does it, or says what it would do. A change of what others have leaves a line in the audit log.
    pub(super) async fn carry_out(
        &self,
        app: &App,
        call: &Call,
        ids: Vec<JobId>,
    ) -> Result<BulkResult, ApiError> {
        if self.dry_run {
            return self.preview(app, ids).await;
        }
        let others = ownership::of_others(app, &call.identity.principal, &ids).await?;
        let result = self.change(app, call, ids).await?;
        let named = result.changed.iter().chain(&result.stopping);
        let count = named.filter(|id| id.parse().is_ok_and(|id: JobId| others.contains(&id))).count();
        if count > 0 {
            let (action, object) = (format!("jobs.{}", self.verb.name()), Some(format!("{count} of others")));
            credentials::change(app, call, AccountVerb::Note { action, object }).await?;
        }
        Ok(result)
    }

    async fn change(&self, app: &App, call: &Call, ids: Vec<JobId>) -> Result<BulkResult, ApiError> {
        let mut ledger = Ledger { revives: self.verb == Verb::Retry, ..Ledger::default() };
        let mut left = ids;
        // A job that ended with an ancestor is retried after it; so what is refused for that is tried again
        // for as long as others get on.
        loop {
            let refused = self.pass(app, call, left, &mut ledger).await?;
            let again: Vec<JobId> = match self.verb {
                Verb::Retry if refused.progress => refused.ended_by_ancestor,
                _ => return Ok(ledger.result()),
            };
            if again.is_empty() {
                return Ok(ledger.result());
            }
            left = again;
        }
    }

    async fn preview(&self, app: &App, ids: Vec<JobId>) -> Result<BulkResult, ApiError> {
        let names = |ids: Vec<JobId>| ids.iter().map(ToString::to_string).collect();
        let mut result = BulkResult { dry_run: true, ..BulkResult::default() };
        if self.verb == Verb::Cancel {
            let preview = app.store.cancel_preview(ids).await?;
            result.changed = names([preview.cancelled, preview.following].concat());
            result.stopping = names(preview.stopping);
        } else {
            result.changed = names(ids);
        }
        Ok(result)
    }

    async fn pass(
        &self,
        app: &App,
        call: &Call,
        ids: Vec<JobId>,
        ledger: &mut Ledger,
    ) -> Result<Refused, ApiError> {
        let mut refused = Refused::default();
        for piece in ids.chunks(PIECE) {
            let command = |id: &JobId| call.attributed(self.verb.command(*id, self.reason.as_ref()));
            let commands = piece.iter().map(command).collect();
            let answers = app.batcher.submit(commands).await?;
            for (id, answer) in piece.iter().zip(answers.take()) {
                refused.progress |= ledger.note(*id, answer, &mut refused.ended_by_ancestor);
            }
        }
        Ok(refused)
    }
}

#[derive(Default)]
struct Refused {
    progress: bool,
    ended_by_ancestor: Vec<JobId>,
}

/// What has become of the jobs so far.
#[derive(Default)]
struct Ledger {
    /// Whether the change of one job may bring others back to life.
    revives: bool,
    changed: Vec<JobId>,
    seen: HashSet<JobId>,
    stopping: Vec<JobId>,
    told: HashSet<JobId>,
    refused: BTreeMap<JobId, String>,
}

impl Ledger {
    fn change(&mut self, id: JobId) {
        self.refused.remove(&id);
        if self.seen.insert(id) {
            self.changed.push(id);
        }
    }

    /// Enters one answer; true when something changed.
    fn note(&mut self, id: JobId, answer: Answer, ended_by_ancestor: &mut Vec<JobId>) -> bool {
        match answer {
            Ok(Outcome::Cancelled { cancelled, stopping }) => {
                for id in cancelled {
                    self.change(id);
                }
                // The tasks of a gang are told together, whichever of them is named.
                self.stopping.extend(stopping.into_iter().filter(|id| self.told.insert(*id)));
                true
            }
            Ok(Outcome::Changed { repeated: false, .. } | Outcome::Deleted) => {
                self.change(id);
                true
            }
            // One that was revived with its ancestor is no longer ended, as it should be.
            Err(Rejection::NotEnded { .. }) if self.revives => {
                self.change(id);
                true
            }
            Ok(_) => false,
            Err(rejection) => {
                if matches!(rejection, Rejection::EndedByAncestor { .. }) {
                    ended_by_ancestor.push(id);
                }
                if self.refused.len() < MOST_REFUSALS {
                    self.refused.insert(id, rejection.to_string());
                }
                false
            }
        }
    }

    fn result(self) -> BulkResult {
        let names = |ids: Vec<JobId>| ids.iter().map(ToString::to_string).collect();
        BulkResult {
            changed: names(self.changed),
            stopping: names(self.stopping),
            refused: self.refused.into_iter().map(|(id, why)| (id.to_string(), why)).collect(),
            dry_run: false,
        }
    }
}

/// The filter for all jobs of a set, or of one of its steps.
pub(super) fn of_set(set: SetId, step: Option<String>) -> JobFilter {
    JobFilter { set: Some(set), step, ..JobFilter::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_must_choose_something() {
        assert!(filter(FilterBody::default()).is_err());
        let queue = FilterBody { queue: Some("q".into()), ..FilterBody::default() };
        assert_eq!(filter(queue).unwrap().queue, Some(QueueName::new("q")));
        let wrong = FilterBody { status: Some(vec!["x".into()]), ..FilterBody::default() };
        assert!(filter(wrong).is_err());
    }

    #[test]
    fn tasks_of_a_gang_are_named_once_and_go_together() {
        let [one, two] = [1, 2].map(|byte| JobId::from_random([byte; 16]));
        let mut ledger = Ledger::default();
        for id in [one, two] {
            let both = Outcome::Cancelled { cancelled: Vec::new(), stopping: vec![one, two] };
            assert!(ledger.note(id, Ok(both), &mut Vec::new()));
        }
        assert_eq!(ledger.result().stopping, [one.to_string(), two.to_string()]);

        let mut ledger = Ledger::default();
        ledger.note(one, Ok(Outcome::Deleted), &mut Vec::new());
        ledger.note(two, Err(Rejection::JobNotFound { id: two }), &mut Vec::new());
        let result = gone_together(ledger.result());
        assert_eq!((result.changed.len(), result.refused.len()), (2, 0));
    }

    #[test]
    fn refusals_are_named_and_revived_jobs_count_as_changed() {
        let mut ledger = Ledger { revives: true, ..Ledger::default() };
        let mut again = Vec::new();
        let id = JobId::from_random([1; 16]);
        let ancestor = JobId::from_random([2; 16]);
        assert!(!ledger.note(id, Err(Rejection::EndedByAncestor { ancestor }), &mut again));
        assert_eq!((ledger.refused.len(), again.len()), (1, 1));
        assert!(ledger.note(id, Err(Rejection::NotEnded { status: Status::Blocked }), &mut again));
        let result = ledger.result();
        assert_eq!((result.refused, result.changed), (BTreeMap::new(), vec![id.to_string()]));
    }
}
