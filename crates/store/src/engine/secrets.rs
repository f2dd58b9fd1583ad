//! Sealed secrets and the public keys of workers, as records.
//!
//! Guarantee: the versions of a secret follow one another without gaps, so that of two changes at a time one is refused.

use muster_domain::{Rejection, SealedSecret, SealingKey, WorkerId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::work::Work;
use super::{Answers, pick};
use crate::command::{Command, Outcome};
use crate::error::StoreError;
use crate::records::{Chosen, Record, RecordKind};
use crate::secrets::{MAX_SECRETS, SecretCommand, SecretOutcome, WorkerKeys};
use crate::tx::Tx;

/// Secrets by name: those of these names, or all.
pub(super) async fn list<T: Tx>(
    tx: &mut T,
    names: Option<&[String]>,
) -> Result<Vec<SealedSecret>, StoreError> {
    let found = tx.records(RecordKind::Secret, names.map_or(Chosen::All, Chosen::Of)).await?;
    found.iter().map(decode).collect()
}

/// The keys of workers: of one, or of all.
pub(super) async fn keys<T: Tx>(
    tx: &mut T,
    worker: Option<&WorkerId>,
) -> Result<Vec<WorkerKeys>, StoreError> {
    let named = worker.map(|worker| [worker.as_str().to_owned()]);
    let chosen = named.as_ref().map_or(Chosen::All, |named| Chosen::Of(named));
    let found = tx.records(RecordKind::SealingKeys, chosen).await?;
    let keys = |record: &Record| {
        Ok(WorkerKeys { worker: WorkerId::new(&record.key), keys: decode::<Vec<SealingKey>>(record)? })
    };
    found.iter().map(keys).collect()
}

pub(super) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let wanted = pick(commands, |command| match command {
        Command::Secrets(wanted) => Some(wanted),
        _ => None,
    });
    for (position, command) in wanted {
        let answer = match command {
            SecretCommand::Put(secret) => put(work, secret).await?,
            SecretCommand::Delete { name } => delete(work, name).await?,
            SecretCommand::Announce { worker, keys } => announce(work, worker, keys).await?,
        };
        answers.put(position, answer.map(Outcome::Secrets));
    }
    Ok(())
}

type Told = Result<Result<SecretOutcome, Rejection>, StoreError>;

async fn put<T: Tx>(work: &mut Work<'_, T>, secret: &SealedSecret) -> Told {
    let name = &secret.name;
    let locked = work.tx.records(RecordKind::Secret, Chosen::Locked(std::slice::from_ref(name))).await?;
    let current = match locked.first() {
        Some(record) => decode::<SealedSecret>(record)?.version,
        None if work.tx.records(RecordKind::Secret, Chosen::All).await?.len() >= MAX_SECRETS => {
            return Ok(Err(Rejection::TooManySecrets { limit: MAX_SECRETS }));
        }
        None => 0,
    };
    if Some(secret.version) != current.checked_add(1) {
        return Ok(Err(Rejection::SecretVersion { name: name.clone(), given: secret.version, current }));
    }
    let secret = SealedSecret { updated_at: work.now, ..secret.clone() };
    work.tx.put_records(&[encode(RecordKind::Secret, name, &secret)?]).await?;
    Ok(Ok(SecretOutcome::Stored(Box::new(secret))))
}

async fn delete<T: Tx>(work: &mut Work<'_, T>, name: &str) -> Told {
    let names = [name.to_owned()];
    if work.tx.records(RecordKind::Secret, Chosen::Locked(&names)).await?.is_empty() {
        return Ok(Err(Rejection::SecretNotFound { name: name.to_owned() }));
    }
    work.tx.delete_records(RecordKind::Secret, &names).await?;
    Ok(Ok(SecretOutcome::Deleted))
}

async fn announce<T: Tx>(work: &mut Work<'_, T>, worker: &WorkerId, keys: &[SealingKey]) -> Told {
    let name = worker.as_str();
    if keys.is_empty() {
        work.tx.delete_records(RecordKind::SealingKeys, &[name.to_owned()]).await?;
    } else {
        work.tx.put_records(&[encode(RecordKind::SealingKeys, name, &keys)?]).await?;
    }
    Ok(Ok(SecretOutcome::Announced))
}

fn encode<F: Serialize>(kind: RecordKind, key: &str, facts: &F) -> Result<Record, StoreError> {
    let facts = serde_json::to_string(facts).map_err(|error| corrupt(kind, key, &error))?;
    Ok(Record { kind, key: key.to_owned(), facts })
}

fn decode<F: DeserializeOwned>(record: &Record) -> Result<F, StoreError> {
    serde_json::from_str(&record.facts).map_err(|error| corrupt(record.kind, &record.key, &error))
}

fn corrupt(kind: RecordKind, key: &str, error: &serde_json::Error) -> StoreError {
    StoreError::Corrupt { record: format!("{} {key:?}", kind.name()), detail: error.to_string() }
}
