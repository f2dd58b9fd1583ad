//! Submissions: names resolved, keys honoured, first phases decided, all in the batch's transaction.

mod intake;
mod order;
mod sets;
mod shapes;

use std::collections::HashMap;

use muster_domain::{Job, JobId, JobSet, Rejection, ShapeId};

use self::intake::Intake;
use self::sets::Sets;
pub(super) use self::shapes::name_shapes;
use super::work::Work;
use super::{Answers, pick, settle, uploads};
use crate::command::{Command, Outcome, Submit, Submitted};
use crate::error::StoreError;
use crate::tx::Tx;

/// Takes in every submission of the batch.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let submits = pick(commands, |command| match command {
        Command::Submit(submit) => Some(submit),
        _ => None,
    });
    if submits.is_empty() {
        return Ok(());
    }
    let by_key = known_keys(work, &submits).await?;
    let unique = unique_jobs(work, &submits).await?;
    let mut intake = Intake::new(by_key, unique);
    let mut sets = Sets::read(work, &submits).await?;
    let uploads = uploads::Named::lock(work, &submits).await?;
    let mut taken: Vec<(usize, Result<Entry, Rejection>)> = Vec::with_capacity(submits.len());
    for (position, submit) in &submits {
        work.on_behalf_of(*position);
        let entry = uploads.check(submit).and_then(|()| enter(work, &mut intake, &mut sets, submit));
        taken.push((*position, entry));
        intake.mark(work.by(None));
    }
    let written = sets.write(work).await?;
    work.on_behalf_of_scheduler();
    intake.write(work).await?;
    uploads.note_uses(work, &intake.jobs).await?;
    // Jobs that gave way to newcomers take their dependants along, also those that came in just now.
    settle::dependants(work).await?;
    let warnings = shapes::warnings(work, &intake.jobs).await?;
    for (position, result) in taken {
        let answer = result.map(|entry| match entry {
            Entry::Jobs(jobs) => {
                let finish = |taken: Taken| taken.map(|found| found.finish(&intake.jobs, &warnings));
                Outcome::Submitted(jobs.into_iter().map(finish).collect())
            }
            Entry::Earlier(set) => Outcome::SubmittedSet { set: *set, repeated: true, warnings: Vec::new() },
            Entry::Set { place, mut remarks } => {
                remarks.extend(warnings.values().flatten().cloned());
                Outcome::SubmittedSet { set: written[place].clone(), repeated: false, warnings: remarks }
            }
        });
        answers.put(position, answer);
    }
    Ok(())
}

/// What became of one submission.
enum Entry {
    Jobs(Vec<Taken>),
    /// The set that the key named before.
    Earlier(Box<JobSet>),
    /// Position among the sets of the batch.
    Set {
        place: usize,
        remarks: Vec<String>,
    },
}

fn enter<T: Tx>(
    work: &mut Work<'_, T>,
    intake: &mut Intake,
    sets: &mut Sets,
    submit: &Submit,
) -> Result<Entry, Rejection> {
    let Some(part) = &submit.set else { return intake.take(work, submit).map(Entry::Jobs) };
    if let Some(earlier) = sets.earlier(part) {
        sets::same(&earlier, part, submit.jobs.len())?;
        return Ok(Entry::Earlier(Box::new(earlier)));
    }
    sets.check(part)?;
    let taken = intake.take(work, submit)?;
    let stood_in = taken.iter().flatten().filter_map(Found::stand_in);
    let remarks = stood_in.map(|id| format!("{id} stands for a job of this set by its key")).collect();
    Ok(Entry::Set { place: sets.add(part, taken.len() as u32), remarks })
}

/// What became of one job of a submission.
pub(super) type Taken = Result<Found, Rejection>;

pub(super) enum Found {
    /// Position among the jobs to insert.
    New(usize),
    /// The job that the key named before this batch.
    Earlier(Box<Job>),
    /// The job of this batch that used the key first.
    Twin(usize),
}

impl Found {
    /// The job that was there before, when it stands for this one.
    fn stand_in(&self) -> Option<JobId> {
        match self {
            Self::Earlier(job) => Some(job.id),
            Self::New(_) | Self::Twin(_) => None,
        }
    }

    pub(super) fn finish(self, jobs: &[Job], warnings: &HashMap<ShapeId, Vec<String>>) -> Submitted {
        let (job, repeated) = match self {
            Self::New(index) => (jobs[index].clone(), false),
            Self::Twin(index) => (jobs[index].clone(), true),
            Self::Earlier(job) => (*job, true),
        };
        let warnings = warnings.get(&job.shape).cloned().unwrap_or_default();
        Submitted { job, repeated, warnings }
    }

    fn twin_mut(&mut self) -> Option<&mut usize> {
        match self {
            Self::Twin(index) => Some(index),
            Self::New(_) | Self::Earlier(_) => None,
        }
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

/// The unfinished jobs that have the unique keys of these submissions, held.
async fn unique_jobs<T: Tx>(
    work: &mut Work<'_, T>,
    submits: &[(usize, &Submit)],
) -> Result<HashMap<String, JobId>, StoreError> {
    let jobs = submits.iter().flat_map(|(_, submit)| &submit.jobs);
    let mut keys: Vec<String> = jobs.filter_map(|job| Some(job.spec.unique.as_ref()?.key.clone())).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    keys.sort_unstable();
    keys.dedup();
    // What the same batch has ended no longer counts.
    work.flush().await?;
    let found = work.tx.lock_unique(&keys).await?;
    work.lock(found.iter().map(|(_, id)| *id)).await?;
    Ok(found.into_iter().collect())
}
