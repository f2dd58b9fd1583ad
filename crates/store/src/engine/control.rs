//! What people do to jobs and queues: hold, release, retry, edit, delete, and the settings of queues.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_domain::{Change, Edit, Hold, IfUnmet, JobId, Rejection, Status, Trigger};

use super::work::Work;
use super::{Answers, quotas, ranks, removal, revival, settle, submit};
use crate::command::{Answer, Command, Outcome};
use crate::error::StoreError;
use crate::tx::Tx;

/// Applies every verb of control; the jobs they name are locked already.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    for (position, command) in commands.iter().enumerate() {
        work.on_behalf_of(position);
        let answer = match command {
            Command::Hold { job, message } => {
                let hold = Hold::Asked { message: message.clone() };
                changed(work, *job, &Trigger::Hold { hold })
            }
            Command::Release { job } => changed(work, *job, &Trigger::Release),
            Command::Retry { job } => retry(work, *job).await?,
            Command::Edit { job, edit } => self::edit(work, *job, edit).await?,
            Command::Delete { job } => delete(work, *job).await?,
            Command::Secret { proposal } => Ok(Outcome::Secret(work.tx.secret(proposal).await?.into())),
            Command::Rank { after, limit } => ranks::write_anew(work, *after, *limit).await?,
            Command::PutQueue(settings) => quotas::put_queue(work, settings).await?.map(Outcome::Queue),
            Command::RemoveQueue { name } => quotas::remove_queue(work, name).await?.map(Outcome::Queue),
            _ => continue,
        };
        answers.put(position, answer);
    }
    Ok(())
}

fn changed<T: Tx>(work: &mut Work<'_, T>, id: JobId, trigger: &Trigger) -> Answer {
    let change = work.trigger(id, trigger)?;
    Ok(Outcome::Changed { job: work.job(id)?.clone(), repeated: change == Change::Repeated })
}

/// Runs a job again, and lets those that ended because of it wait for it again.
async fn retry<T: Tx>(work: &mut Work<'_, T>, id: JobId) -> Result<Answer, StoreError> {
    let Ok(job) = work.job(id) else { return Ok(Err(Rejection::JobNotFound { id })) };
    let spec = Arc::clone(&job.spec);
    let needs = revival::needs(work, &spec).await?;
    if needs.unmet().is_some() && spec.if_unmet != Some(IfUnmet::Run) {
        let ended_badly = |parent: &JobId| {
            work.job(*parent).is_ok_and(|job| matches!(job.status(), Status::Failed | Status::Cancelled))
        };
        let ancestor = spec.depends_on.iter().copied().find(ended_badly).unwrap_or(id);
        return Ok(Err(Rejection::EndedByAncestor { ancestor }));
    }
    let answer = changed(work, id, &Trigger::Retry { needs });
    if answer.is_err() {
        return Ok(answer);
    }
    revival::dependants(work, id).await?;
    Ok(answer)
}

/// Edits a job, or all tasks of its gang.
async fn edit<T: Tx>(work: &mut Work<'_, T>, id: JobId, change: &Edit) -> Result<Answer, StoreError> {
    let answer = edit_one(work, id, change).await?;
    if answer.is_ok() {
        for sibling in siblings(work, id) {
            edit_one(work, sibling, change).await?.ok();
        }
    }
    Ok(answer)
}

/// The other tasks of its gang that have not ended.
fn siblings<T: Tx>(work: &Work<'_, T>, id: JobId) -> Vec<JobId> {
    let gang = work.job(id).ok().and_then(|job| job.spec.gang.as_ref().map(|gang| gang.id));
    let tasks = gang.map(|gang| work.tasks_of(gang)).unwrap_or_default();
    tasks.iter().filter(|task| task.id != id && !task.is_terminal()).map(|task| task.id).collect()
}

async fn edit_one<T: Tx>(work: &mut Work<'_, T>, id: JobId, change: &Edit) -> Result<Answer, StoreError> {
    let edited = match work.edit(id, change) {
        Ok(edited) => edited,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let Ok(job) = work.job(id).cloned() else { return Ok(Err(Rejection::JobNotFound { id })) };
    if !edited {
        return Ok(Ok(Outcome::Changed { job, repeated: true }));
    }
    let mut jobs = [job];
    submit::name_shapes(work, &mut jobs).await?;
    work.tx.rewrite_jobs(&jobs).await?;
    let [job] = jobs;
    work.rename_shape(id, job.shape);
    Ok(Ok(Outcome::Changed { job, repeated: false }))
}

async fn delete<T: Tx>(work: &mut Work<'_, T>, id: JobId) -> Result<Answer, StoreError> {
    let status = match work.job(id) {
        Ok(job) => job.status(),
        Err(rejection) => return Ok(Err(rejection)),
    };
    if !status.is_terminal() {
        return Ok(Err(Rejection::NotEnded { status }));
    }
    if let Some(open) = siblings(work, id).into_iter().find_map(|sibling| work.job(sibling).ok()) {
        return Ok(Err(Rejection::NotEnded { status: open.status() }));
    }
    let gang = work.job(id).ok().and_then(|job| job.spec.gang.as_ref().map(|gang| gang.id));
    let tasks = gang.map(|gang| work.tasks_of(gang)).unwrap_or_default();
    let going: BTreeSet<JobId> = tasks.iter().map(|task| task.id).chain([id]).collect();
    let going: Vec<JobId> = going.into_iter().collect();
    // It may have ended in this very batch: those that wait for it are told before it is forgotten.
    settle::dependants(work).await?;
    removal::take_out(work, &going).await?;
    Ok(Ok(Outcome::Deleted))
}
