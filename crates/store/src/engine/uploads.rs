//! Uploads as records: which there are, and what names them.
//!
//! Guarantees: a job is taken in only when everything that it names is complete, and from then on that stays as long as the job;
//! while somebody removes old chunks no upload is declared, so that whoever was told that a chunk is there still finds it.

use std::collections::{BTreeMap, BTreeSet};

use muster_domain::{Inputs, Job, JobId, Rejection, SetId, Timestamp, UploadRef};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::work::Work;
use super::{Answers, pick};
use crate::command::{Command, Outcome, Submit};
use crate::error::StoreError;
use crate::records::{Chosen, Record, RecordKind};
use crate::tx::Tx;
use crate::uploads::{UploadCommand, UploadOutcome, UploadUse, UploadView};

/// The key of the one record of its kind.
const SWEEP: &str = "chunks";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct UploadFacts {
    upload: UploadRef,
    #[serde(default)]
    complete: bool,
    files: u64,
    bytes: u64,
    used_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct UseFacts {
    upload: UploadRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<JobId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<SetId>,
}

/// Who sweeps, and until when at the most.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct SweepFacts {
    sweeper: String,
    until: Timestamp,
}

/// The uploads of these names, or all.
pub(super) async fn list<T: Tx>(
    tx: &mut T,
    named: Option<&[UploadRef]>,
) -> Result<Vec<UploadView>, StoreError> {
    let keys: Option<Vec<String>> = named.map(|named| named.iter().map(ToString::to_string).collect());
    let chosen = keys.as_ref().map_or(Chosen::All, |keys| Chosen::Of(keys));
    let found = tx.records(RecordKind::Upload, chosen).await?;
    found.iter().map(|record| decode(record).map(UploadFacts::view)).collect()
}

/// Everything that names an upload.
pub(super) async fn uses<T: Tx>(tx: &mut T) -> Result<Vec<UploadUse>, StoreError> {
    let found = tx.records(RecordKind::UploadUse, Chosen::All).await?;
    let named = |record: &Record| {
        let UseFacts { upload, job, set } = decode(record)?;
        Ok(UploadUse { upload, job, set })
    };
    found.iter().map(named).collect()
}

pub(super) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let wanted = pick(commands, |command| match command {
        Command::Uploads(wanted) => Some(wanted),
        _ => None,
    });
    for (position, command) in wanted {
        let answer = match command {
            UploadCommand::Declare { upload, files, bytes } => declare(work, upload, *files, *bytes).await?,
            UploadCommand::Complete(upload) => complete(work, upload).await?,
            UploadCommand::BeginSweep { sweeper, until } => begin_sweep(work, sweeper, *until).await?,
            UploadCommand::EndSweep { sweeper } => end_sweep(work, sweeper).await?,
            UploadCommand::Forget { uploads, unused_since } => {
                Ok(UploadOutcome::Forgotten(forget(work, uploads, *unused_since).await?))
            }
            UploadCommand::DropUses(uses) => {
                let keys: Vec<String> = uses.iter().map(use_key).collect();
                work.tx.delete_records(RecordKind::UploadUse, &keys).await?;
                Ok(UploadOutcome::Done)
            }
        };
        answers.put(position, answer.map(Outcome::Uploads));
    }
    Ok(())
}

type Told = Result<Result<UploadOutcome, Rejection>, StoreError>;

async fn declare<T: Tx>(work: &mut Work<'_, T>, upload: &UploadRef, files: u64, bytes: u64) -> Told {
    match sweep_record(work).await? {
        Some(sweep) if sweep.until > work.now => return Ok(Err(Rejection::UploadsSwept)),
        Some(_) => {}
        // A sweep that begins at this moment waits for this record.
        None => put(work, RecordKind::UploadSweep, SWEEP, &SweepFacts::default()).await?,
    }
    let complete = locked(work, upload).await?.is_some_and(|known| known.complete);
    let facts = UploadFacts { upload: upload.clone(), complete, files, bytes, used_at: work.now };
    put(work, RecordKind::Upload, &upload.to_string(), &facts).await?;
    Ok(Ok(UploadOutcome::Declared { complete }))
}

async fn complete<T: Tx>(work: &mut Work<'_, T>, upload: &UploadRef) -> Told {
    let Some(known) = locked(work, upload).await? else {
        return Ok(Err(Rejection::UploadNotFound { id: upload.id.clone() }));
    };
    let facts = UploadFacts { complete: true, used_at: work.now, ..known };
    put(work, RecordKind::Upload, &upload.to_string(), &facts).await?;
    Ok(Ok(UploadOutcome::Completed(facts.view())))
}

async fn begin_sweep<T: Tx>(work: &mut Work<'_, T>, sweeper: &str, until: Timestamp) -> Told {
    if let Some(sweep) = sweep_record(work).await?
        && sweep.until > work.now
        && sweep.sweeper != sweeper
    {
        return Ok(Ok(UploadOutcome::Sweeping(false)));
    }
    let facts = SweepFacts { sweeper: sweeper.to_owned(), until };
    put(work, RecordKind::UploadSweep, SWEEP, &facts).await?;
    Ok(Ok(UploadOutcome::Sweeping(true)))
}

async fn end_sweep<T: Tx>(work: &mut Work<'_, T>, sweeper: &str) -> Told {
    if sweep_record(work).await?.is_some_and(|sweep| sweep.sweeper == sweeper) {
        put(work, RecordKind::UploadSweep, SWEEP, &SweepFacts::default()).await?;
    }
    Ok(Ok(UploadOutcome::Done))
}

async fn sweep_record<T: Tx>(work: &mut Work<'_, T>) -> Result<Option<SweepFacts>, StoreError> {
    let key = [SWEEP.to_owned()];
    let found = work.tx.records(RecordKind::UploadSweep, Chosen::Locked(&key)).await?;
    found.first().map(decode).transpose()
}

/// An upload that a job names was touched when the job came in, and its use was written in that transaction. So a use that is
/// not seen here belongs to a touch that is.
async fn forget<T: Tx>(
    work: &mut Work<'_, T>,
    uploads: &[UploadRef],
    unused_since: Timestamp,
) -> Result<Vec<UploadRef>, StoreError> {
    let keys: Vec<String> = sorted(uploads.iter());
    let known = work.tx.records(RecordKind::Upload, Chosen::Locked(&keys)).await?;
    let in_use: BTreeSet<UploadRef> = uses(work.tx).await?.into_iter().map(|named| named.upload).collect();
    let mut gone = Vec::new();
    for record in &known {
        let facts: UploadFacts = decode(record)?;
        if facts.used_at < unused_since && !in_use.contains(&facts.upload) {
            gone.push(facts.upload);
        }
    }
    let keys: Vec<String> = gone.iter().map(ToString::to_string).collect();
    work.tx.delete_records(RecordKind::Upload, &keys).await?;
    Ok(gone)
}

/// The uploads that the submissions of a batch name, held until they are written.
pub(super) struct Named {
    known: BTreeMap<UploadRef, UploadFacts>,
}

impl Named {
    /// Costs nothing where no job names one.
    pub(super) async fn lock<T: Tx>(
        work: &mut Work<'_, T>,
        submits: &[(usize, &Submit)],
    ) -> Result<Self, StoreError> {
        let jobs = submits.iter().flat_map(|(_, submit)| &submit.jobs);
        let keys = sorted(jobs.filter_map(|job| job.spec.inputs.as_deref()).flat_map(Inputs::uploads));
        if keys.is_empty() {
            return Ok(Self { known: BTreeMap::new() });
        }
        let found = work.tx.records(RecordKind::Upload, Chosen::Locked(&keys)).await?;
        let known =
            found.iter().map(|record| decode(record).map(|facts: UploadFacts| (facts.upload.clone(), facts)));
        Ok(Self { known: known.collect::<Result<_, _>>()? })
    }

    /// Refuses a submission that names what is not there, or not whole.
    pub(super) fn check(&self, submit: &Submit) -> Result<(), Rejection> {
        let inputs = submit.jobs.iter().filter_map(|job| job.spec.inputs.as_deref());
        for upload in inputs.flat_map(Inputs::uploads) {
            match self.known.get(upload) {
                None => return Err(Rejection::UploadNotFound { id: upload.id.clone() }),
                Some(known) if !known.complete => {
                    return Err(Rejection::UploadIncomplete { id: upload.id.clone() });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Notes what the new jobs name. Jobs of a set are noted once, as the set.
    pub(super) async fn note_uses<T: Tx>(
        &self,
        work: &mut Work<'_, T>,
        jobs: &[Job],
    ) -> Result<(), StoreError> {
        let mut uses = BTreeSet::new();
        for job in jobs {
            let set = job.member.as_ref().map(|member| member.set);
            let own = set.is_none().then_some(job.id);
            let named = job.spec.inputs.as_deref().into_iter().flat_map(Inputs::uploads);
            uses.extend(named.map(|upload| UploadUse { upload: upload.clone(), job: own, set }));
        }
        let mut records = Vec::with_capacity(uses.len());
        for named in &uses {
            let facts = UseFacts { upload: named.upload.clone(), job: named.job, set: named.set };
            records.push(encode(RecordKind::UploadUse, &use_key(named), &facts)?);
        }
        for upload in uses.iter().map(|named| &named.upload).collect::<BTreeSet<_>>() {
            if let Some(known) = self.known.get(upload) {
                let facts = UploadFacts { used_at: work.now, ..known.clone() };
                records.push(encode(RecordKind::Upload, &upload.to_string(), &facts)?);
            }
        }
        if records.is_empty() { Ok(()) } else { work.tx.put_records(&records).await }
    }
}

impl UploadFacts {
    fn view(self) -> UploadView {
        let Self { upload, complete, files, bytes, used_at } = self;
        UploadView { upload, complete, files, bytes, used_at }
    }
}

async fn locked<T: Tx>(
    work: &mut Work<'_, T>,
    upload: &UploadRef,
) -> Result<Option<UploadFacts>, StoreError> {
    let key = [upload.to_string()];
    let found = work.tx.records(RecordKind::Upload, Chosen::Locked(&key)).await?;
    found.first().map(decode).transpose()
}

async fn put<T: Tx>(
    work: &mut Work<'_, T>,
    kind: RecordKind,
    key: &str,
    facts: &impl Serialize,
) -> Result<(), StoreError> {
    work.tx.put_records(&[encode(kind, key, facts)?]).await
}

/// Each key once and in one order, in which they are locked.
fn sorted<'u>(uploads: impl Iterator<Item = &'u UploadRef>) -> Vec<String> {
    let keys: BTreeSet<String> = uploads.map(ToString::to_string).collect();
    keys.into_iter().collect()
}

fn use_key(named: &UploadUse) -> String {
    let by = named.set.map(|set| set.to_string()).or_else(|| named.job.map(|job| job.to_string()));
    format!("{} {}", named.upload, by.unwrap_or_default())
}

fn encode(kind: RecordKind, key: &str, facts: &impl Serialize) -> Result<Record, StoreError> {
    let facts = serde_json::to_string(facts).map_err(|error| corrupt(kind, key, &error))?;
    Ok(Record { kind, key: key.to_owned(), facts })
}

fn decode<F: DeserializeOwned>(record: &Record) -> Result<F, StoreError> {
    serde_json::from_str(&record.facts).map_err(|error| corrupt(record.kind, &record.key, &error))
}

fn corrupt(kind: RecordKind, key: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt { record: format!("{} {key:?}", kind.name()), detail: error.to_string() }
}
