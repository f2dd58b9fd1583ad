//! Whose the object of a request is, where a right depends on it.
//!
//! Guarantee: what cannot be found belongs to nobody.

use std::collections::HashMap;

use muster_domain::access::{Action, Denied, Object, Principal, depends_on_owner, may};
use muster_domain::{JobId, QueueName, Worker, WorkerId};
use muster_store::{JobFilter, NewJob, StoreExt as _};

use crate::app::App;
use crate::error::ApiError;
use crate::extract::job_in_path;

/// What is known of the object.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    job: Option<JobId>,
    user: Option<String>,
    worker: Option<WorkerId>,
    /// Whether it is a worker, or a job that is held by one or by a claimer without a name.
    is_held: bool,
    keyless: bool,
}

impl Owners {
    /// Finds out whether the worker has a key, where that matters.
    pub(crate) async fn look_for_key(&mut self, app: &App, principal: &Principal) -> Result<(), ApiError> {
        if matches!(principal, Principal::Keyless(_)) && self.is_held {
            let has_key = match &self.worker {
                Some(worker) => app.credentials.has_key(app, worker).await?,
                None => false,
            };
            self.keyless = !has_key;
        }
        Ok(())
    }

    pub(crate) fn of_worker(worker: WorkerId) -> Self {
        Self { worker: Some(worker), is_held: true, ..Self::default() }
    }

    pub(crate) fn of_user(user: &str) -> Self {
        Self { user: Some(user.to_owned()), ..Self::default() }
    }

    pub(crate) fn ask(&self, principal: &Principal, action: Action) -> Result<(), Denied> {
        let Self { job, user, worker, keyless, .. } = self;
        let object = Object { job: *job, owner: user.as_deref(), worker: worker.as_ref(), keyless: *keyless };
        may(principal, action, &object)
    }
}

/// Routes whose objects are in the body or the query: their handlers ask.
pub(crate) const ASKED_BY_HANDLER: [&str; 6] =
    ["/jobs/bulk/{verb}", "/jobs/next", "/workers/register", "/notice", "/tokens", "/tokens/{id}"];

/// Looks up whose the object is that the path names. `name` is the first part of it that is no fixed word.
pub(crate) async fn of_path(app: &App, route: &str, name: &str) -> Result<Owners, ApiError> {
    match route.split('/').nth(1).unwrap_or_default() {
        "jobs" => match job_in_path(name) {
            Some(id) => of_job(app, id).await,
            None => Ok(Owners::default()),
        },
        "pipelines" | "arrays" => {
            let Ok(set) = name.parse() else { return Ok(Owners::default()) };
            let filter = JobFilter { set: Some(set), limit: Some(1), ..JobFilter::default() };
            let first = app.store.jobs(filter).await?.jobs.into_iter().next();
            Ok(Owners { user: first.and_then(|view| view.job.spec.user.clone()), ..Owners::default() })
        }
        "gangs" => {
            let Ok(gang) = name.parse() else { return Ok(Owners::default()) };
            let first = app.store.gang(gang).await?.into_iter().next();
            Ok(Owners { user: first.and_then(|view| view.job.spec.user.clone()), ..Owners::default() })
        }
        "workers" => Ok(Owners::of_worker(WorkerId::new(name))),
        _ => Ok(Owners::default()),
    }
}

pub(crate) async fn of_job(app: &App, id: JobId) -> Result<Owners, ApiError> {
    let Some(view) = app.store.job(id).await? else { return Ok(Owners::default()) };
    let worker = view.job.worker().cloned();
    let (user, is_held) = (view.job.spec.user.clone(), view.job.is_leased());
    Ok(Owners { job: Some(id), user, worker, is_held, ..Owners::default() })
}

/// Makes the submitter the user of these jobs, and keeps it to the queues that it was given.
pub(crate) fn stamp(principal: &Principal, jobs: &mut [NewJob]) -> Result<(), ApiError> {
    let Principal::User { name, queues, .. } = principal else { return Ok(()) };
    for job in jobs {
        check_queue(name, queues.as_deref(), job.spec.queue.as_ref())?;
        let on_behalf = job.spec.user.as_ref().filter(|user| *user != name);
        if let Some(user) = on_behalf
            && !principal.may_speak_for_others()
        {
            let message = format!("user: you are {name}, and only an operator submits for {user}");
            return Err(ApiError::not_yours("user", message));
        }
        if job.spec.user.is_none() {
            std::sync::Arc::make_mut(&mut job.spec).user = Some(name.clone());
        }
    }
    Ok(())
}

fn check_queue(user: &str, queues: Option<&[QueueName]>, wanted: Option<&QueueName>) -> Result<(), ApiError> {
    let Some(queues) = queues else { return Ok(()) };
    if wanted.is_some_and(|wanted| queues.contains(wanted)) {
        return Ok(());
    }
    let names: Vec<&str> = queues.iter().map(QueueName::as_str).collect();
    let given = wanted.map_or_else(|| "a job without a queue".to_owned(), |queue| format!("queue {queue}"));
    let message = format!("{given} is not open to {user}; it may submit to: {}", names.join(", "));
    Err(ApiError::not_yours("queue_name", message))
}

/// A worker without a key does not go by the name of one that has a key.
pub(crate) async fn check_name(
    app: &App,
    principal: &Principal,
    named: Option<&WorkerId>,
) -> Result<(), ApiError> {
    let (Principal::Keyless(_), Some(worker)) = (principal, named) else { return Ok(()) };
    if app.credentials.has_key(app, worker).await? {
        let message =
            format!("worker {worker} has a key: show it, as name:key@ in the URL or as Authorization");
        return Err(ApiError::not_yours("worker_id", message));
    }
    Ok(())
}

/// The worker that a claim is for: a proven one claims for itself only.
pub(crate) fn claimer(principal: &Principal, named: Option<WorkerId>) -> Result<Option<WorkerId>, ApiError> {
    let Principal::Worker { id, .. } = principal else { return Ok(named) };
    match named {
        Some(named) if named != *id => {
            Err(ApiError::not_yours("worker_id", format!("worker_id: you are {id}, not {named}")))
        }
        _ => Ok(Some(id.clone())),
    }
}

/// Whether a caller may register this worker: itself, with tags that its key allows.
pub(crate) fn check_registration(principal: &Principal, worker: &Worker) -> Result<(), ApiError> {
    let Principal::Worker { id, tags } = principal else { return Ok(()) };
    if worker.id != *id {
        return Err(ApiError::not_yours("id", format!("id: you are {id}, not {}", worker.id)));
    }
    let Some(allowed) = tags else { return Ok(()) };
    match worker.tags.iter().find(|tag| !allowed.contains(tag)) {
        Some(tag) => {
            let message =
                format!("tags: the key of {id} does not allow {tag:?}; it allows: {}", allowed.join(", "));
            Err(ApiError::not_yours("tags", message))
        }
        None => Ok(()),
    }
}

/// Parts jobs that a caller may change from those that it may not.
pub(crate) async fn changeable(
    app: &App,
    principal: &Principal,
    ids: Vec<JobId>,
) -> Result<(Vec<JobId>, Vec<(JobId, Denied)>), ApiError> {
    let action = Action::ChangeJobs;
    if !depends_on_owner(principal, action) {
        return Ok((ids, Vec::new()));
    }
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for piece in ids.chunks(1_000) {
        let known = app.store.states(piece.to_vec()).await?;
        let owners: HashMap<JobId, Owners> = known
            .iter()
            .map(|job| (job.id, Owners { user: job.spec.user.clone(), ..Owners::default() }))
            .collect();
        for id in piece {
            match owners.get(id).map_or_else(
                || Owners::default().ask(principal, action),
                |owners| owners.ask(principal, action),
            ) {
                Ok(()) => own.push(*id),
                Err(denied) => others.push((*id, denied)),
            }
        }
    }
    Ok((own, others))
}
