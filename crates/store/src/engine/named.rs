//! Verbs that name a job: reports, heartbeats, stop acknowledgements, checkpoints, cancels.

use std::sync::Arc;

use muster_domain::image::ImageNote;
use muster_domain::{
    Caller, Change, EndReason, Event, EventKind, Job, JobId, Rejection, Status, TerminalKind, Trigger,
    lifecycle,
};

use super::Answers;
use super::work::Work;
use crate::command::{
    Answer, CheckpointPart, Command, Content, HeartbeatReply, Instance, Outcome, PARTS_PREFIX, Report,
};
use crate::error::StoreError;
use crate::tx::Tx;

/// Applies every verb that names a job; the jobs are locked already.
pub(crate) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    for (position, command) in commands.iter().enumerate() {
        work.on_behalf_of(position);
        let answer = match command {
            Command::Report(wanted) => report(work, wanted),
            Command::Heartbeat { job, caller } => {
                sign_of_life(work, *job, &Trigger::Heartbeat { caller: caller.clone() })
            }
            Command::Prepared { job, caller } => {
                sign_of_life(work, *job, &Trigger::Prepared { caller: caller.clone() })
            }
            Command::AcknowledgeStop { job, caller, epoch } => acknowledge(work, *job, caller, *epoch),
            Command::SaveCheckpoint { job, caller, epoch, content } => {
                let trigger = |bytes, file| Trigger::SaveCheckpoint {
                    caller: caller.clone(),
                    epoch: *epoch,
                    bytes,
                    file,
                };
                save_checkpoint(work, *job, content, trigger).await?
            }
            Command::Preempt { job, message } => preempt(work, *job, message.clone()),
            // Answered by `answer_cancels`, when it is known what went down with it.
            Command::Cancel { job, message } => {
                let cancel = Trigger::Cancel { message: message.clone() };
                let Err(rejection) = work.trigger(*job, &cancel) else { continue };
                Err(rejection)
            }
            Command::PutPart(part) => put_part(work, part).await?,
            Command::NoteInstance(instance) => note_instance(work, instance).await?,
            Command::NoteTerminal { job, kind } => note_terminal(work, *job, *kind),
            Command::NoteImage { job, caller, note } => note_image(work, *job, caller, note),
            Command::Submit(_)
            | Command::Claim(_)
            | Command::RegisterWorker(_)
            | Command::ReleaseWorker { .. }
            | Command::Introduce { .. }
            | Command::WorkerHeartbeat { .. }
            | Command::Hold { .. }
            | Command::Release { .. }
            | Command::Retry { .. }
            | Command::Edit { .. }
            | Command::Delete { .. }
            | Command::PutQueue(_)
            | Command::RemoveQueue { .. }
            | Command::Webhook(_)
            | Command::Secrets(_)
            | Command::KeepArtifacts(_)
            | Command::ExpireArtifacts(_)
            | Command::MoveOutput(_)
            | Command::ExpireOutput(_)
            | Command::Uploads(_)
            | Command::Account(_)
            | Command::Remove(_)
            | Command::Plan(_)
            | Command::Lead(_)
            | Command::Led { .. }
            | Command::Attributed(_)
            | Command::Secret { .. }
            | Command::Rank { .. }
            | Command::Sweep(_) => continue,
        };
        answers.put(position, answer);
    }
    Ok(())
}

fn acknowledge<T: Tx>(work: &mut Work<'_, T>, job: JobId, caller: &Caller, epoch: i64) -> Answer {
    let change = work.trigger(job, &Trigger::StopAcknowledged { caller: caller.clone(), epoch })?;
    Ok(Outcome::StopAcknowledged { repeated: change == Change::Repeated })
}

fn preempt<T: Tx>(work: &mut Work<'_, T>, id: JobId, message: Option<String>) -> Answer {
    let change = work.trigger(id, &Trigger::Preempt { message, in_favour_of: None })?;
    Ok(Outcome::Changed { job: work.job(id)?.clone(), repeated: change == Change::Repeated })
}

/// Answered with the job as it is now: by it the caller knows the worker and the lease.
fn note_terminal<T: Tx>(work: &mut Work<'_, T>, id: JobId, kind: TerminalKind) -> Answer {
    let job = work.job(id)?.clone();
    if !matches!(job.status(), Status::Running | Status::Preempting) {
        return Err(Rejection::NotEnterable { status: job.status() });
    }
    if kind == TerminalKind::Attach && job.spec.pty.is_none() {
        return Err(Rejection::NoTerminal);
    }
    let event = Event::of_job(id, work.now, EventKind::TerminalOpened { kind });
    work.note(event);
    Ok(Outcome::Changed { job, repeated: false })
}

fn note_image<T: Tx>(work: &mut Work<'_, T>, id: JobId, caller: &Caller, note: &ImageNote) -> Answer {
    lifecycle::speaks_for(work.job(id)?, caller)?;
    let change = work.note_image(id, note)?;
    Ok(Outcome::Changed { job: work.job(id)?.clone(), repeated: change == Change::Repeated })
}

/// Answered with the job as it is now, so that the worker hears of a stop.
fn sign_of_life<T: Tx>(work: &mut Work<'_, T>, job: JobId, trigger: &Trigger) -> Answer {
    work.trigger(job, trigger)?;
    Ok(Outcome::Heartbeat(HeartbeatReply { job: work.job(job)?.clone() }))
}

async fn save_checkpoint<T: Tx>(
    work: &mut Work<'_, T>,
    job: JobId,
    content: &Content,
    trigger: impl FnOnce(u64, Option<Arc<str>>) -> Trigger,
) -> Result<Answer, StoreError> {
    let (bytes, file) = match content {
        Content::Bytes(bytes) => (bytes.len() as u64, None),
        Content::File { name, bytes } | Content::Parts { name, bytes } => (*bytes, Some(Arc::clone(name))),
    };
    check_parts(work, job, content).await?;
    let earlier = work.job(job).ok().and_then(|job| job.checkpoint_file.clone());
    let saved = work.trigger(job, &trigger(bytes, file));
    if saved.is_ok() {
        let kept = if let Content::Bytes(bytes) = content { bytes.as_slice() } else { &[] };
        work.tx.put_checkpoint(job, kept).await?;
        if matches!(content, Content::Parts { .. }) || earlier.as_deref().is_some_and(is_parts) {
            let name = if let Content::Parts { name, .. } = content { name.as_ref() } else { "" };
            work.tx.keep_parts(job, name).await?;
        }
    }
    let replaced = earlier.filter(|name| !is_parts(name));
    Ok(saved.map(|_| Outcome::CheckpointSaved { replaced }))
}

async fn put_part<T: Tx>(work: &mut Work<'_, T>, part: &CheckpointPart) -> Result<Answer, StoreError> {
    if let Err(unknown) = work.job(part.job) {
        return Ok(Err(unknown));
    }
    work.tx.put_part(part).await?;
    Ok(Ok(Outcome::Noted))
}

async fn note_instance<T: Tx>(work: &mut Work<'_, T>, instance: &Instance) -> Result<Answer, StoreError> {
    let seen = Instance { seen_at: work.now, ..instance.clone() };
    work.tx.put_instance(&seen).await?;
    Ok(Ok(Outcome::Noted))
}

/// Whether a checkpoint is in parts, by its name.
fn is_parts(name: &str) -> bool {
    name.starts_with(PARTS_PREFIX)
}

/// Refuses a checkpoint of which parts are missing: another upload has removed them. Its worker sends it again.
async fn check_parts<T: Tx>(work: &mut Work<'_, T>, job: JobId, content: &Content) -> Result<(), StoreError> {
    let Content::Parts { name, bytes } = content else { return Ok(()) };
    let there = work.tx.parts_length(job, name).await?;
    if there == *bytes {
        return Ok(());
    }
    let source = format!("{there} of {bytes} bytes are there; another checkpoint came in between").into();
    Err(StoreError::Failed { operation: "save a checkpoint", source })
}

fn report<T: Tx>(work: &mut Work<'_, T>, report: &Report) -> Answer {
    let trigger = Trigger::Report {
        caller: report.caller.clone(),
        kind: report.kind,
        exit: report.exit,
        message: report.message.clone(),
        outputs: report.outputs.clone(),
        spent: report.spent,
    };
    let change = work.trigger(report.job, &trigger)?;
    if change == Change::Noted {
        return Err(Rejection::NotRunning { status: work.job(report.job)?.status() });
    }
    Ok(Outcome::Reported { job: work.job(report.job)?.clone(), repeated: change == Change::Repeated })
}

/// Answers the cancels that were accepted: what ended at once, and what was told to stop.
pub(crate) fn answer_cancels<T: Tx>(work: &Work<'_, T>, commands: &[&Command], answers: &mut Answers) {
    for (position, command) in commands.iter().enumerate() {
        let Command::Cancel { job, .. } = command else { continue };
        // One that another command of the batch has removed since ended all the same.
        let gone = Outcome::Cancelled { cancelled: vec![*job], stopping: Vec::new() };
        answers.put_if_empty(position, Ok(cancelled(work, *job).unwrap_or(gone)));
    }
}

fn cancelled<T: Tx>(work: &Work<'_, T>, id: JobId) -> Result<Outcome, Rejection> {
    let job = work.job(id)?;
    let gang: Vec<Job> = job.spec.gang.as_ref().map(|gang| work.tasks_of(gang.id)).unwrap_or_default();
    if gang.iter().any(|task| task.status() == Status::Preempting) {
        let with = |wanted: Status| {
            gang.iter().filter(|task| task.status() == wanted).map(|task| task.id).collect::<Vec<_>>()
        };
        return Ok(Outcome::Cancelled {
            cancelled: with(Status::Cancelled),
            stopping: with(Status::Preempting),
        });
    }
    if job.status() == Status::Preempting {
        return Ok(Outcome::Cancelled { cancelled: Vec::new(), stopping: vec![id] });
    }
    let siblings = gang.iter().map(|task| task.id).filter(|task| *task != id);
    let siblings: Vec<JobId> = siblings.collect();
    let root = |ancestor: &JobId| *ancestor == id || siblings.contains(ancestor);
    let taken_along = work.events().iter().filter_map(|event| match &event.kind {
        EventKind::Cancelled {
            reason: EndReason::DependencyCancelled { ancestor } | EndReason::Skipped { ancestor, .. },
        } if root(ancestor) => event.job,
        _ => None,
    });
    let cancelled = std::iter::once(id).chain(siblings.iter().copied()).chain(taken_along).collect();
    Ok(Outcome::Cancelled { cancelled, stopping: Vec::new() })
}
