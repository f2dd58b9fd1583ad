//! What a batch of submissions adds: each job decided upon, in the order of its dependencies.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use muster_domain::lifecycle::first_phase;
use muster_domain::{
    By, Ended, Event, EventKind, GangId, Inputs, Job, JobId, JobSpec, Needs, Phase, Rejection, Rule, Status,
    Timestamp, Trigger, dependency, differences,
};

use super::order::{refused, resolve, sorted};
use super::shapes::name_shapes;
use super::{Found, Taken};
use crate::command::{NewJob, Submit};
use crate::engine::history;
use crate::engine::work::Work;
use crate::error::StoreError;
use crate::tx::{Edge, Tx};

/// What a batch of submissions adds.
#[derive(Default)]
pub(super) struct Intake {
    /// Jobs that existing keys name.
    by_key: HashMap<String, Job>,
    /// Unfinished jobs that have the unique keys of this batch.
    unique: HashMap<String, JobId>,
    /// Keys used by this batch, with the position of their job.
    new_keys: HashMap<String, usize>,
    new_unique: HashMap<String, usize>,
    pub(super) jobs: Vec<Job>,
    /// Who submitted each of them.
    by: Vec<Option<By>>,
    edges: Vec<Edge>,
}

/// A dependency, resolved.
pub(super) enum Parent {
    Existing(JobId),
    /// Position within the submission.
    Sibling(usize),
}

impl Intake {
    pub(super) fn new(by_key: HashMap<String, Job>, unique: HashMap<String, JobId>) -> Self {
        Self { by_key, unique, ..Self::default() }
    }

    /// Notes who submitted the jobs that came in since the last call.
    pub(super) fn mark(&mut self, by: Option<By>) {
        self.by.resize(self.jobs.len(), by);
    }

    /// Decides on one submission. A refused one leaves no trace.
    pub(super) fn take<T: Tx>(
        &mut self,
        work: &mut Work<'_, T>,
        submit: &Submit,
    ) -> Result<Vec<Taken>, Rejection> {
        let references = submit.jobs.iter().enumerate();
        let references = references.filter_map(|(index, job)| Some((index, job.reference.as_deref()?)));
        let references = dependency::index_references(references)?;
        let parents: Vec<Result<Vec<Parent>, Rejection>> =
            submit.jobs.iter().map(|job| resolve(work, &references, job)).collect();
        let order = sorted(submit, &parents)?;
        if (submit.atomic || submit.set.is_some())
            && let Some(Err(cause)) = parents.iter().find(|parents| parents.is_err())
        {
            return Err(refused(submit, cause));
        }
        if submit.atomic || submit.set.is_some() {
            self.check_keys(submit)?;
        }
        let first_new = self.jobs.len();
        let mut taken: Vec<Option<Taken>> = submit.jobs.iter().map(|_| None).collect();
        for index in order {
            let result = match &parents[index] {
                Err(rejection) => Err(rejection.clone()),
                Ok(parents) => self.take_one(work, &submit.jobs[index], parents, &taken),
            };
            taken[index] = Some(result);
        }
        // Jobs were decided upon in the order of their dependencies; they enter in the order given.
        Ok(self.restore_order(first_new, taken.into_iter().flatten().collect()))
    }

    /// Refuses a submission that is taken whole or not at all if one of its keys names another job.
    fn check_keys(&self, submit: &Submit) -> Result<(), Rejection> {
        let mut own: HashMap<&str, (JobId, &JobSpec)> = HashMap::new();
        for new in &submit.jobs {
            let Some(key) = new.spec.idempotency_key.as_deref() else { continue };
            let made = self.named_by(key).map(|job| (job.id, job.spec.as_ref()));
            if let Some((first, spec)) = made.or_else(|| own.get(key).copied()) {
                same(key, first, spec, &new.spec).map_err(|cause| refused(submit, &cause))?;
            }
            own.entry(key).or_insert((new.id, &new.spec));
        }
        Ok(())
    }

    /// The job that has the key, from before or from this batch.
    fn named_by(&self, key: &str) -> Option<&Job> {
        self.by_key.get(key).or_else(|| self.jobs.get(*self.new_keys.get(key)?))
    }

    fn take_one<T: Tx>(
        &mut self,
        work: &mut Work<'_, T>,
        new: &NewJob,
        parents: &[Parent],
        taken: &[Option<Taken>],
    ) -> Taken {
        if let Some(found) = self.earlier(work, new)? {
            return Ok(found);
        }
        if let Some(first) = new.first_task.and_then(|first| taken.get(first)?.as_ref()) {
            // What became of the first task of a gang becomes of all: a key may name an earlier gang.
            match first {
                Ok(Found::New(_)) => {}
                Ok(Found::Twin(index)) => return Ok(Found::Twin(*index)),
                Ok(Found::Earlier(job)) => return Ok(Found::Earlier(job.clone())),
                Err(rejection) => return Err(rejection.clone()),
            }
        }
        let mut gangs = BTreeMap::new();
        let (mut needs, mut ancestor) = (Needs::default(), None);
        let (mut depends_on, mut rules) = (Vec::with_capacity(parents.len()), Vec::new());
        let mut seen = HashSet::with_capacity(parents.len());
        let mut named = Vec::new();
        for (place, parent) in parents.iter().enumerate() {
            let (parent, unit) = match parent {
                Parent::Existing(id) => {
                    let unit = work.unit(*id);
                    (work.job(unit)?, work.unit_end(unit).map(|(_, ended, root)| (ended, root)))
                }
                Parent::Sibling(index) => {
                    let sibling = self.sibling(taken[*index].as_ref(), new)?;
                    (sibling, sibling.ended().map(|ended| (ended, sibling.root_cause())))
                }
            };
            if let Some(gang) = &parent.spec.gang {
                gangs.insert(parent.id, gang.id);
            }
            named.push(parent.id);
            if !seen.insert(parent.id) {
                continue;
            }
            let (id, rule) = (parent.id, new.rules.get(place).copied().unwrap_or_default());
            depends_on.push(id);
            rules.push(rule);
            match unit {
                None => needs.wait_for(rule),
                Some((ended, root)) => {
                    needs.add(rule, ended);
                    if ended != Ended::Done || needs.unmet().is_some() {
                        ancestor.get_or_insert(root);
                    }
                }
            }
            // Should a dependency that ended badly be run again, this job waits for it again.
            if unit.is_none_or(|(ended, _)| ended != Ended::Done) {
                self.edges.push(Edge { parent: id, child: new.id, rule });
            }
        }
        let inputs = with_sources(new, &named)?;
        let spec = with_dependencies(&new.spec, depends_on, rules, gangs, inputs);
        Ok(self.add(new, spec, (needs, ancestor), work.now))
    }

    fn add(
        &mut self,
        new: &NewJob,
        spec: Arc<JobSpec>,
        (needs, ancestor): (Needs, Option<JobId>),
        now: Timestamp,
    ) -> Found {
        let place = self.jobs.len();
        if let Some(key) = &spec.idempotency_key {
            self.new_keys.insert(key.clone(), place);
        }
        if let Some(unique) = &spec.unique {
            self.new_unique.insert(unique.key.clone(), place);
        }
        let phase = first_phase(&spec, new.hold.as_ref(), needs, ancestor, now);
        let ready_at = spec.not_before.map_or(now, |until| until.max(now));
        let job = Job::new(new.id, spec, phase, now);
        self.jobs.push(Job { hold: new.hold.clone(), member: new.member.clone(), ready_at, ..job });
        Found::New(place)
    }

    /// The job that stands for this one: made earlier under the same key, or unfinished under its unique
    /// key. One that waits gives way to a newcomer that wants to replace it.
    fn earlier<T: Tx>(&mut self, work: &mut Work<'_, T>, new: &NewJob) -> Result<Option<Found>, Rejection> {
        if let Some(key) = &new.spec.idempotency_key {
            if let Some(first) = self.named_by(key) {
                same(key, first.id, &first.spec, &new.spec)?;
            }
            if let Some(job) = self.by_key.get(key) {
                return Ok(Some(Found::Earlier(Box::new(job.clone()))));
            }
            if let Some(index) = self.new_keys.get(key) {
                return Ok(Some(Found::Twin(*index)));
            }
        }
        let Some(unique) = &new.spec.unique else { return Ok(None) };
        if let Some(index) = self.new_unique.get(&unique.key) {
            return Ok(Some(Found::Twin(*index)));
        }
        let Some(id) = self.unique.get(&unique.key).copied() else { return Ok(None) };
        let existing = work.job(id)?;
        let waits =
            matches!(existing.status(), Status::Pending | Status::Delayed | Status::Held | Status::Blocked);
        if existing.is_terminal() {
            return Ok(None);
        }
        if !unique.replace || !waits {
            return Ok(Some(Found::Earlier(Box::new(existing.clone()))));
        }
        // A key is no way to stop what the submitter could not cancel. Who may, cancels it, or submits as its user.
        if matches!(work.by(None), Some(By::User { .. })) && existing.spec.user != new.spec.user {
            return Err(Rejection::KeyOfAnother { key: unique.key.clone() });
        }
        let message = Some(format!("replaced by {}", new.id));
        work.trigger(id, &Trigger::Cancel { message })?;
        self.unique.remove(&unique.key);
        Ok(None)
    }

    /// A job of the same submission that another one depends on; refused together with it.
    fn sibling<'a>(&'a self, taken: Option<&'a Taken>, new: &NewJob) -> Result<&'a Job, Rejection> {
        match taken {
            Some(Ok(Found::New(index) | Found::Twin(index))) => Ok(&self.jobs[*index]),
            Some(Ok(Found::Earlier(job))) => Ok(job),
            Some(Err(_)) | None => Err(Rejection::UnknownDependency { name: new.depends_on.join(", ") }),
        }
    }

    /// Puts the jobs of one submission back into the order in which they were given.
    fn restore_order(&mut self, first_new: usize, mut taken: Vec<Taken>) -> Vec<Taken> {
        let mut decided: BTreeMap<usize, Job> =
            self.jobs.drain(first_new..).enumerate().map(|(offset, job)| (first_new + offset, job)).collect();
        let mut moved: HashMap<usize, usize> = HashMap::new();
        for found in taken.iter_mut().flatten() {
            if let Found::New(index) = found
                && let Some(job) = decided.remove(index)
            {
                moved.insert(*index, self.jobs.len());
                *index = self.jobs.len();
                self.jobs.push(job);
            }
        }
        for index in taken.iter_mut().flatten().filter_map(Found::twin_mut).chain(self.new_keys.values_mut())
        {
            if let Some(new) = moved.get(index) {
                *index = *new;
            }
        }
        taken
    }

    /// Inserts jobs, edges and requirements, and says so in the log.
    pub(super) async fn write<T: Tx>(&mut self, work: &mut Work<'_, T>) -> Result<(), StoreError> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        name_shapes(work, &mut self.jobs).await?;
        history::expect(work, &mut self.jobs).await?;
        for job in &mut self.jobs {
            job.rank = work.policies.rank_of(job);
        }
        work.tx.insert_jobs(&mut self.jobs).await?;
        if !self.edges.is_empty() {
            work.tx.insert_edges(&self.edges).await?;
        }
        for (job, by) in self.jobs.iter().zip(std::mem::take(&mut self.by)) {
            work.note_alarm(job.alarm());
            let blocked = job.status() == Status::Blocked;
            if job.spec.gang.is_some() {
                work.note_gangs();
            }
            work.note_by(Event::of_job(job.id, work.now, EventKind::Submitted { blocked }), by);
            match &job.phase {
                Phase::Failed { reason, .. } => {
                    let kind = EventKind::Failed { attempt: 0, reason: reason.clone() };
                    work.note(Event::of_job(job.id, work.now, kind));
                }
                Phase::Cancelled { reason, .. } => {
                    let kind = EventKind::Cancelled { reason: reason.clone() };
                    work.note(Event::of_job(job.id, work.now, kind));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A key may be used again for the same work, and for nothing else.
fn same(key: &str, first: JobId, spec: &JobSpec, again: &JobSpec) -> Result<(), Rejection> {
    let fields = differences(spec, again);
    if fields.is_empty() {
        return Ok(());
    }
    Err(Rejection::KeyReused { key: key.to_owned(), first: first.to_string(), fields })
}

/// The inputs of a job with the jobs that their artifacts come from: `parents` are its dependencies in the order of their names.
fn with_sources(new: &NewJob, parents: &[JobId]) -> Result<Option<Box<Inputs>>, Rejection> {
    let Some(inputs) = new.spec.inputs.as_ref().filter(|inputs| !inputs.artifacts.is_empty()) else {
        return Ok(new.spec.inputs.clone());
    };
    let places: HashMap<&str, JobId> =
        new.depends_on.iter().map(String::as_str).zip(parents.iter().copied()).collect();
    let mut inputs = inputs.clone();
    for input in &mut inputs.artifacts {
        let job = |name: &String| {
            let unknown = || Rejection::UnknownDependency { name: name.clone() };
            places.get(name.as_str()).copied().ok_or_else(unknown)
        };
        input.jobs = input.names.drain(..).map(|name| job(&name)).collect::<Result<_, _>>()?;
        let mut seen = HashSet::new();
        input.jobs.retain(|job| seen.insert(*job));
    }
    Ok(Some(inputs))
}

fn with_dependencies(
    spec: &Arc<JobSpec>,
    depends_on: Vec<JobId>,
    mut rules: Vec<Rule>,
    gangs: BTreeMap<JobId, GangId>,
    inputs: Option<Box<Inputs>>,
) -> Arc<JobSpec> {
    if depends_on.is_empty() {
        return Arc::clone(spec);
    }
    if rules.iter().all(|rule| *rule == Rule::default()) {
        rules.clear();
    }
    Arc::new(JobSpec { depends_on, rules, gangs, inputs, ..spec.as_ref().clone() })
}
