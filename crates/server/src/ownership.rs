//! Whose the object of a request is, where a right depends on it.
//!
//! Guarantee: what cannot be found belongs to nobody.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use muster_domain::access::{Action, Denied, Object, Principal, depends_on_owner, may};
use muster_domain::visibility::sees_all;
use muster_domain::{GangId, Job, JobId, JobSpec, QueueLists, QueueName, Rejection, SetId, Worker, WorkerId};
use muster_store::{JobFilter, NewJob, SetFilter, StoreExt as _};

use crate::app::App;
use crate::error::ApiError;
use crate::extract::job_in_path;
use crate::identity::Identity;
use crate::visibility::Visibility;

/// What is known of the object.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    job: Option<JobId>,
    user: Option<String>,
    worker: Option<WorkerId>,
    former: Vec<WorkerId>,
    /// Whether it is a worker, or a job that is held by one or by a claimer without a name.
    is_held: bool,
    keyless: bool,
    /// Of the queue, or of the queue of the job.
    admins: Vec<String>,
}

/// What a request is about, as far as its path says.
#[derive(Debug, Default)]
pub(crate) struct Named {
    pub(crate) owners: Owners,
    /// The answer when it is there and the caller may not know that.
    pub(crate) hidden: Option<ApiError>,
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
        let object = Object {
            job: self.job,
            owner: self.user.as_deref(),
            worker: self.worker.as_ref(),
            former: &self.former,
            keyless: self.keyless,
            admins: &self.admins,
        };
        may(principal, action, &object)
    }
}

/// Routes whose objects are in the body or the query: their handlers ask.
pub(crate) const ASKED_BY_HANDLER: [&str; 6] =
    ["/jobs/bulk/{verb}", "/jobs/next", "/workers/register", "/notice", "/tokens", "/tokens/{id}"];

impl Named {
    /// As a set or a gang: no worker and no job holds all of it.
    fn without_holder(self) -> Self {
        Self { owners: Owners { job: None, worker: None, former: Vec::new(), ..self.owners }, ..self }
    }
}

/// The kinds of objects that some callers may not see.
pub(crate) fn may_be_hidden(route: &str) -> bool {
    matches!(kind(route), "jobs" | "pipelines" | "arrays" | "gangs") && route.contains("{id}")
}

fn kind(route: &str) -> &str {
    route.split('/').nth(1).unwrap_or_default()
}

/// Looks up the object that the path names. `name` is the first part of it that is no fixed word. One that the caller may
/// not see is nobody's, as one that is not there.
pub(crate) async fn of_path(
    app: &App,
    principal: &Principal,
    route: &str,
    name: &str,
) -> Result<Named, ApiError> {
    match kind(route) {
        "jobs" => {
            let Some(id) = job_in_path(name) else { return Ok(Named::default()) };
            let job = app.store.job(id).await?.map(|view| view.job);
            of_job(app, principal, job, ApiError::job_not_found).await
        }
        "pipelines" | "arrays" => match name.parse() {
            Ok(set) => of_set(app, principal, set).await,
            Err(_) => Ok(Named::default()),
        },
        "gangs" => {
            let Ok(gang) = name.parse() else { return Ok(Named::default()) };
            let first = app.store.gang(gang).await?.into_iter().next();
            let named = of_job(app, principal, first.map(|view| view.job), ApiError::gang_not_found).await?;
            Ok(named.without_holder())
        }
        "workers" => Ok(Named { owners: Owners::of_worker(WorkerId::new(name)), hidden: None }),
        "queues" => {
            let admins = Visibility::of(app, principal).await?.admins(&QueueName::new(name));
            Ok(Named { owners: Owners { admins, ..Owners::default() }, hidden: None })
        }
        _ => Ok(Named::default()),
    }
}

async fn of_job(
    app: &App,
    principal: &Principal,
    job: Option<Job>,
    not_found: fn() -> ApiError,
) -> Result<Named, ApiError> {
    let Some(job) = job else { return Ok(Named::default()) };
    let visibility = Visibility::of_job(app, principal, &job).await?;
    // Workers and jobs have a right to their own only, which the owners tell.
    if matches!(principal, Principal::User { .. }) && !visibility.has(&job) {
        return Ok(Named { hidden: Some(not_found()), ..Named::default() });
    }
    let admins = job.spec.queue.as_ref().map(|queue| visibility.admins(queue)).unwrap_or_default();
    let (user, worker, is_held) = (job.spec.user.clone(), job.worker().cloned(), job.is_leased());
    let former = job.former_workers().cloned().collect();
    let owners = Owners { job: Some(job.id), user, worker, former, is_held, keyless: false, admins };
    Ok(Named { owners, hidden: None })
}

/// A set is whose its newest job is.
async fn of_set(app: &App, principal: &Principal, set: SetId) -> Result<Named, ApiError> {
    let seen_by = Some(principal.clone());
    let filter = SetFilter { ids: vec![set], seen_by: seen_by.clone(), ..SetFilter::default() };
    if app.store.sets(filter).await?.is_empty() {
        return Ok(Named { hidden: Some(ApiError::set_not_found()), ..Named::default() });
    }
    let filter = JobFilter { set: Some(set), limit: Some(1), seen_by, ..JobFilter::default() };
    let newest = app.store.jobs(filter).await?.jobs.into_iter().next();
    let named = of_job(app, principal, newest.map(|view| view.job), ApiError::set_not_found).await?;
    Ok(named.without_holder())
}

/// Makes the submitter the user of these jobs, and keeps it to the queues that let it in and to the jobs that it may see.
pub(crate) async fn admit(app: &App, caller: &Identity, jobs: &mut [NewJob]) -> Result<(), ApiError> {
    let principal = &caller.principal;
    stamp(principal, jobs)?;
    vouch(caller.proven_user().await.as_deref(), jobs);
    let Principal::User { name, .. } = principal else { return Ok(()) };
    if sees_all(principal) {
        return Ok(());
    }
    if jobs.iter().any(|job| job.spec.queue.is_some()) {
        let lists = QueueLists::of(&app.store.queues().await?);
        let queues = jobs.iter().filter_map(|job| job.spec.queue.as_ref());
        if let Some(closed) = queues.into_iter().find(|queue| !lists.may_submit(name, queue)) {
            let names = lists.submitters(closed).unwrap_or_default().join(", ");
            let message =
                format!("queue {closed} is not open to {name}; those who may submit to it are: {names}");
            return Err(ApiError::not_yours("queue_name", message));
        }
    }
    check_dependencies(app, principal, jobs).await
}

/// A job that the caller may not see is no job that it could wait for.
async fn check_dependencies(app: &App, principal: &Principal, jobs: &[NewJob]) -> Result<(), ApiError> {
    let names: HashSet<&str> = jobs.iter().flat_map(|job| &job.depends_on).map(String::as_str).collect();
    let ids: HashMap<JobId, &str> =
        names.iter().filter_map(|name| Some((name.parse().ok()?, *name))).collect();
    let gangs: HashMap<GangId, &str> =
        names.iter().filter_map(|name| Some((name.parse().ok()?, *name))).collect();
    if ids.is_empty() && gangs.is_empty() {
        return Ok(());
    }
    let visibility = Visibility::of(app, principal).await?;
    let unknown = |name: &str| Rejection::UnknownDependency { name: name.to_owned() };
    let wanted: Vec<JobId> = ids.keys().copied().collect();
    for piece in wanted.chunks(1_000) {
        let known = app.store.states(piece.to_vec()).await?;
        if let Some(job) = known.iter().find(|job| !visibility.has(job)) {
            return Err(unknown(ids.get(&job.id).copied().unwrap_or_default()).into());
        }
    }
    for (gang, name) in gangs {
        let first = app.store.gang(gang).await?.into_iter().next();
        if first.is_some_and(|view| !visibility.has(&view.job)) {
            return Err(unknown(name).into());
        }
    }
    Ok(())
}

/// Notes the proven submitter of the jobs, if there is one. A submitter who names another user proves nothing.
fn vouch(proven: Option<&str>, jobs: &mut [NewJob]) {
    let Some(proven) = proven else { return };
    // Jobs of an array share what they ask for, and go on doing so.
    let mut last: Option<(Arc<JobSpec>, Arc<JobSpec>)> = None;
    for job in jobs.iter_mut().filter(|job| job.spec.user.as_deref().is_none_or(|user| user == proven)) {
        if let Some((_, vouched)) = last.as_ref().filter(|(plain, _)| Arc::ptr_eq(plain, &job.spec)) {
            job.spec = Arc::clone(vouched);
            continue;
        }
        let is_shared = Arc::strong_count(&job.spec) > 1;
        let plain = is_shared.then(|| Arc::clone(&job.spec));
        Arc::make_mut(&mut job.spec).proven_user = Some(proven.to_owned());
        last = plain.map(|plain| (plain, Arc::clone(&job.spec)));
    }
}

fn stamp(principal: &Principal, jobs: &mut [NewJob]) -> Result<(), ApiError> {
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
            Arc::make_mut(&mut job.spec).user = Some(name.clone());
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

/// Parts jobs that a caller may change from those that it may not, with the reason. What it may not see is not there.
pub(crate) async fn changeable(
    app: &App,
    principal: &Principal,
    ids: Vec<JobId>,
) -> Result<(Vec<JobId>, Vec<(JobId, String)>), ApiError> {
    let action = Action::ChangeJobs;
    if !depends_on_owner(principal, action) {
        return Ok((ids, Vec::new()));
    }
    let visibility = Visibility::of(app, principal).await?;
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for piece in ids.chunks(1_000) {
        let known = app.store.states(piece.to_vec()).await?;
        let owners: HashMap<JobId, Owners> = known
            .iter()
            .filter(|job| visibility.has(job))
            .map(|job| {
                let admins = job.spec.queue.as_ref().map(|queue| visibility.admins(queue));
                let (user, admins) = (job.spec.user.clone(), admins.unwrap_or_default());
                (job.id, Owners { user, admins, ..Owners::default() })
            })
            .collect();
        for id in piece {
            let asked = owners.get(id).map(|owners| owners.ask(principal, action));
            match asked {
                Some(Ok(())) => own.push(*id),
                Some(Err(denied)) => others.push((*id, denied.to_string())),
                None => others.push((*id, Rejection::JobNotFound { id: *id }.to_string())),
            }
        }
    }
    Ok((own, others))
}

/// Those of the jobs that another user has, for the audit log. Only users with accounts are asked about.
pub(crate) async fn of_others(
    app: &App,
    principal: &Principal,
    ids: &[JobId],
) -> Result<HashSet<JobId>, ApiError> {
    let Principal::User { name, .. } = principal else { return Ok(HashSet::new()) };
    let mut others = HashSet::new();
    for piece in ids.chunks(1_000) {
        let known = app.store.states(piece.to_vec()).await?;
        let not_own = known.iter().filter(|job| job.spec.user.as_deref() != Some(name));
        others.extend(not_own.map(|job| job.id));
    }
    Ok(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(spec: &Arc<JobSpec>) -> NewJob {
        NewJob {
            id: crate::ids::job(),
            spec: Arc::clone(spec),
            hold: None,
            reference: None,
            depends_on: Vec::new(),
            rules: Vec::new(),
            member: None,
            first_task: None,
        }
    }

    #[test]
    fn only_a_caller_who_names_nobody_else_is_vouched_for() {
        let of = |user: Option<&str>| {
            Arc::new(JobSpec { user: user.map(str::to_owned), ..JobSpec::shell("true") })
        };
        let (shared, bob) = (of(None), of(Some("bob")));
        let mut jobs = [job(&shared), job(&shared), job(&bob), job(&of(Some("ann")))];
        drop(shared);
        vouch(Some("ann"), &mut jobs);
        let proven: Vec<_> = jobs.iter().map(|job| job.spec.proven_user.as_deref()).collect();
        assert_eq!(proven, [Some("ann"), Some("ann"), None, Some("ann")]);
        assert!(Arc::ptr_eq(&jobs[0].spec, &jobs[1].spec), "what was shared stays shared");
        let mut unproven = [job(&bob)];
        vouch(None, &mut unproven);
        assert_eq!(unproven[0].spec.proven_user, None);
    }
}
