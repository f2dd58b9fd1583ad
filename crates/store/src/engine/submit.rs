//! Submissions: names resolved, keys honoured, first phases decided, all in the batch's transaction.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use muster_domain::lifecycle::first_phase;
use muster_domain::{
    EndReason, Event, EventKind, Job, JobId, JobSpec, Phase, Rejection, Requirement, ShapeId, Status,
    dependency,
};

use super::work::Work;
use super::{Answers, pick};
use crate::command::{Command, NewJob, Outcome, Submit, Submitted};
use crate::engine::read::worker_views;
use crate::error::StoreError;
use crate::tx::{Edge, Tx};

/// Takes in every submission of the batch.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let submits = pick(commands, |command| match command {
        Command::Submit(submit) => Some(submit),
        _ => None,
    });
    if submits.is_empty() {
        return Ok(());
    }
    let mut intake = Intake { by_key: known_keys(work, &submits).await?, ..Intake::default() };
    let mut taken: Vec<(usize, Result<Vec<Taken>, Rejection>)> = Vec::with_capacity(submits.len());
    for (position, submit) in submits {
        taken.push((position, intake.take(work, submit)));
    }
    intake.write(work).await?;
    let warnings = warnings(work, &intake.jobs).await?;
    for (position, result) in taken {
        let answer = result.map(|jobs| {
            let finish = |taken: Taken| taken.map(|found| found.finish(&intake.jobs, &warnings));
            Outcome::Submitted(jobs.into_iter().map(finish).collect())
        });
        answers.put(position, answer);
    }
    Ok(())
}

/// What became of one job of a submission.
type Taken = Result<Found, Rejection>;

enum Found {
    /// Position among the jobs to insert.
    New(usize),
    /// The job that the key named before this batch.
    Earlier(Box<Job>),
    /// The job of this batch that used the key first.
    Twin(usize),
}

impl Found {
    fn finish(self, jobs: &[Job], warnings: &HashMap<ShapeId, Vec<String>>) -> Submitted {
        let (job, repeated) = match self {
            Self::New(index) => (jobs[index].clone(), false),
            Self::Twin(index) => (jobs[index].clone(), true),
            Self::Earlier(job) => (*job, true),
        };
        let warnings = warnings.get(&job.shape).cloned().unwrap_or_default();
        Submitted { job, repeated, warnings }
    }
}

async fn known_keys<T: Tx>(
    work: &mut Work<'_, T>,
    submits: &[(usize, &Submit)],
) -> Result<HashMap<String, Job>, StoreError> {
    let jobs = submits.iter().flat_map(|(_, submit)| &submit.jobs);
    let keys: Vec<String> = jobs.filter_map(|job| job.spec.idempotency_key.clone()).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let found = work.tx.jobs_by_key(&keys).await?;
    let ids: Vec<JobId> = found.iter().map(|(_, id)| *id).collect();
    let jobs = work.tx.read_jobs(&ids).await?;
    let mut by_id: HashMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
    Ok(found.into_iter().filter_map(|(key, id)| Some((key, by_id.remove(&id)?))).collect())
}

/// What a batch of submissions adds.
#[derive(Default)]
struct Intake {
    /// Jobs that existing keys name.
    by_key: HashMap<String, Job>,
    /// Keys used by this batch, with the position of their job.
    new_keys: HashMap<String, usize>,
    jobs: Vec<Job>,
    edges: Vec<Edge>,
}

/// A dependency, resolved.
enum Parent {
    Existing(JobId),
    /// Position within the submission.
    Sibling(usize),
}

impl Intake {
    /// Decides on one submission. A refused one leaves no trace.
    fn take<T: Tx>(&mut self, work: &Work<'_, T>, submit: &Submit) -> Result<Vec<Taken>, Rejection> {
        let references = submit.jobs.iter().enumerate();
        let references = references.filter_map(|(index, job)| Some((index, job.reference.as_deref()?)));
        let references = dependency::index_references(references)?;
        let parents: Vec<Result<Vec<Parent>, Rejection>> =
            submit.jobs.iter().map(|job| resolve(work, &references, job)).collect();
        let order = sorted(submit, &parents)?;
        if submit.atomic
            && let Some(Err(cause)) = parents.iter().find(|parents| parents.is_err())
        {
            return Err(refused(submit, cause));
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

    fn take_one<T: Tx>(
        &mut self,
        work: &Work<'_, T>,
        new: &NewJob,
        parents: &[Parent],
        taken: &[Option<Taken>],
    ) -> Taken {
        if let Some(key) = &new.spec.idempotency_key {
            if let Some(job) = self.by_key.get(key) {
                return Ok(Found::Earlier(Box::new(job.clone())));
            }
            if let Some(index) = self.new_keys.get(key) {
                return Ok(Found::Twin(*index));
            }
            self.new_keys.insert(key.clone(), self.jobs.len());
        }
        let mut phase = Waiting::default();
        let mut depends_on = Vec::with_capacity(parents.len());
        for parent in parents {
            let parent = match parent {
                Parent::Existing(id) => work.job(*id)?,
                Parent::Sibling(index) => self.sibling(taken[*index].as_ref(), new)?,
            };
            if depends_on.contains(&parent.id) {
                continue;
            }
            depends_on.push(parent.id);
            if phase.wait_for(parent) {
                self.edges.push(Edge { parent: parent.id, child: new.id });
            }
        }
        let spec = with_dependencies(&new.spec, depends_on);
        self.jobs.push(Job::new(new.id, spec, phase.first(work.now), work.now));
        Ok(Found::New(self.jobs.len() - 1))
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
    async fn write<T: Tx>(&mut self, work: &mut Work<'_, T>) -> Result<(), StoreError> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        self.name_shapes(work).await?;
        work.tx.insert_jobs(&mut self.jobs).await?;
        if !self.edges.is_empty() {
            work.tx.insert_edges(&self.edges).await?;
        }
        for job in &self.jobs {
            let blocked = job.status() != Status::Pending;
            work.note(Event::of_job(job.id, work.now, EventKind::Submitted { blocked }));
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

    /// Gives each distinct requirement its stored name, moving on where a name is taken by another.
    async fn name_shapes<T: Tx>(&mut self, work: &mut Work<'_, T>) -> Result<(), StoreError> {
        let mut wanted: HashMap<ShapeId, Requirement> = HashMap::new();
        for job in &self.jobs {
            wanted.entry(job.shape).or_insert_with(|| job.spec.requirement());
        }
        let ids: Vec<ShapeId> = wanted.keys().copied().collect();
        let known: HashMap<ShapeId, Requirement> = work.tx.requirements(&ids).await?.into_iter().collect();
        let mut new: Vec<(ShapeId, Requirement)> = Vec::new();
        let mut renamed: HashMap<ShapeId, ShapeId> = HashMap::new();
        for (id, requirement) in wanted {
            match known.get(&id) {
                Some(stored) if *stored == requirement => {}
                None => new.push((id, requirement)),
                Some(_) => {
                    let free = free_name(work, id, &requirement).await?;
                    renamed.insert(id, free);
                    new.push((free, requirement));
                }
            }
        }
        for job in self.jobs.iter_mut().filter(|_| !renamed.is_empty()) {
            if let Some(name) = renamed.get(&job.shape) {
                job.shape = *name;
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        work.tx.insert_requirements(&new).await
    }
}

impl Found {
    fn twin_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Twin(index) => Some(index),
            Self::New(_) | Self::Earlier(_) => None,
        }
    }
}

async fn free_name<T: Tx>(
    work: &mut Work<'_, T>,
    taken: ShapeId,
    requirement: &Requirement,
) -> Result<ShapeId, StoreError> {
    let mut name = taken.next();
    loop {
        match work.tx.requirements(&[name]).await?.first() {
            Some((_, stored)) if stored != requirement => name = name.next(),
            Some(_) | None => return Ok(name),
        }
    }
}

fn with_dependencies(spec: &Arc<JobSpec>, depends_on: Vec<JobId>) -> Arc<JobSpec> {
    if depends_on.is_empty() {
        return Arc::clone(spec);
    }
    Arc::new(JobSpec { depends_on, ..spec.as_ref().clone() })
}

/// What the dependencies of a new job mean for its first phase.
#[derive(Default)]
struct Waiting {
    unfinished: u32,
    /// The first dependency that ended badly: its root cause, and whether it was cancelled.
    hopeless: Option<(JobId, bool)>,
}

impl Waiting {
    /// Notes a dependency; true when the job has to be told about its end.
    fn wait_for(&mut self, parent: &Job) -> bool {
        match parent.status() {
            Status::Done => false,
            status @ (Status::Failed | Status::Cancelled) => {
                self.hopeless.get_or_insert((parent.root_cause(), status == Status::Cancelled));
                false
            }
            _ => {
                self.unfinished += 1;
                true
            }
        }
    }

    fn first(&self, now: muster_domain::Timestamp) -> Phase {
        match self.hopeless {
            None => first_phase(self.unfinished),
            Some((ancestor, true)) => {
                Phase::Cancelled { at: now, reason: EndReason::DependencyCancelled { ancestor } }
            }
            Some((ancestor, false)) => {
                Phase::Failed { at: now, reason: EndReason::DependencyFailed { ancestor } }
            }
        }
    }
}

fn resolve<T: Tx>(
    work: &Work<'_, T>,
    references: &HashMap<&str, usize>,
    new: &NewJob,
) -> Result<Vec<Parent>, Rejection> {
    let parent = |name: &String| {
        if let Some(index) = references.get(name.as_str()) {
            return Ok(Parent::Sibling(*index));
        }
        let unknown = || Rejection::UnknownDependency { name: name.clone() };
        let id: JobId = name.parse().map_err(|_| unknown())?;
        work.job(id).map(|job| Parent::Existing(job.id)).map_err(|_| unknown())
    };
    new.depends_on.iter().map(parent).collect()
}

/// The jobs of a submission, each after those of the same submission that it depends on.
fn sorted(submit: &Submit, parents: &[Result<Vec<Parent>, Rejection>]) -> Result<Vec<usize>, Rejection> {
    if submit.jobs.iter().all(|job| job.reference.is_none()) {
        return Ok((0..submit.jobs.len()).collect());
    }
    let name = |(index, job): (usize, &NewJob)| job.reference.clone().unwrap_or_else(|| format!("#{index}"));
    let names: Vec<String> = submit.jobs.iter().enumerate().map(name).collect();
    let siblings = |parents: &Result<Vec<Parent>, Rejection>| {
        let parents = parents.iter().flatten();
        parents.filter_map(|p| if let Parent::Sibling(index) = p { Some(*index) } else { None }).collect()
    };
    let edges: Vec<Vec<usize>> = parents.iter().map(siblings).collect();
    dependency::order(&names, &edges)
}

/// A lone job's refusal is its own; a batch says that it is the batch which was refused.
fn refused(submit: &Submit, cause: &Rejection) -> Rejection {
    if submit.jobs.len() == 1 {
        return cause.clone();
    }
    Rejection::BatchRefused { cause: Box::new(cause.clone()) }
}

/// Remarks by shape: requirements that no active worker could meet even when idle.
async fn warnings<T: Tx>(
    work: &mut Work<'_, T>,
    jobs: &[Job],
) -> Result<HashMap<ShapeId, Vec<String>>, StoreError> {
    let mut demanding: HashMap<ShapeId, Requirement> = HashMap::new();
    for job in jobs {
        let asks = job.spec.resources.as_ref().is_some_and(|resources| !resources.is_zero());
        if asks || !job.spec.tags.is_empty() {
            demanding.entry(job.shape).or_insert_with(|| job.spec.requirement());
        }
    }
    if demanding.is_empty() {
        return Ok(HashMap::new());
    }
    let workers = worker_views(work.tx).await?;
    if workers.is_empty() {
        return Ok(HashMap::new());
    }
    let remark = |need: &Requirement| -> Vec<String> {
        let reasons = muster_planner::explain(need, &workers, 0).into_iter();
        reasons
            .filter(|reason| matches!(reason.code(), "impossible" | "tags"))
            .map(|r| r.to_string())
            .collect()
    };
    Ok(demanding.into_iter().map(|(shape, need)| (shape, remark(&need))).collect())
}
