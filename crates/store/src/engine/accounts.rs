//! Accounts, credentials and the audit log.
//!
//! Guarantees: every change leaves its line in the same transaction; there is always an admin who can act, once there was
//! one; two accounts are never linked to one subject of a provider; a join token is used no more often than it may be; a revoked worker holds nothing afterwards.

use muster_domain::sign_in::{Change, SignIn};
use muster_domain::{
    Account, AccountChange, Bearer, Credential, CredentialId, Deed, JobId, LoginMethod, OidcSubject,
    Patience, Quarantine, Rejection, Span, Timestamp, Trigger, WorkerId, Worthless,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::work::Work;
use super::{Answers, pick};
use crate::accounts::{
    AccountCommand, AccountOutcome, AccountVerb, AuditEntry, KnownCredential, MAX_CREDENTIALS,
};
use crate::command::{Command, Outcome};
use crate::error::StoreError;
use crate::records::{AuditFilter, AuditLine, Chosen, Record, RecordKind};
use crate::tx::Tx;

/// How long an expired credential stays, so that its holder is told that it has expired.
const KEPT: Span = Span::from_secs(7 * 86_400);

/// How long a worker is set aside that may not come back.
const FOR_GOOD: Span = Span::from_secs(u32::MAX);

type Told = Result<Result<AccountOutcome, Rejection>, StoreError>;

/// Runs before jobs are settled, since a revoked worker loses what it holds.
pub(super) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let wanted = pick(commands, |command| match command {
        Command::Account(wanted) => Some(wanted.as_ref()),
        _ => None,
    });
    for (position, command) in wanted {
        work.on_behalf_of(position);
        let told = carry_out(work, &command.verb).await?;
        if let Ok(outcome) = &told {
            for deed in deeds(command, outcome) {
                let line = AuditLine { seq: 0, at: work.now, facts: to_json(&deed)? };
                work.tx.append_audit(&[line]).await?;
            }
        }
        answers.put(position, told.map(Outcome::Account));
    }
    Ok(())
}

async fn carry_out<T: Tx>(work: &mut Work<'_, T>, verb: &AccountVerb) -> Told {
    match verb {
        AccountVerb::Create(account) => create(work, account).await,
        AccountVerb::Change { name, change } => change_account(work, name, change).await,
        AccountVerb::Remove { name } => remove(work, name).await,
        AccountVerb::Issue { digest, credential } => issue(work, digest, credential).await,
        AccountVerb::SignIn { sign_in, digest, credential } => {
            let_in(work, sign_in, digest, credential).await
        }
        AccountVerb::Join { token, digest, credential } => join(work, token, digest, credential).await,
        AccountVerb::Rotate { old, new, id, overlap } => rotate(work, old, new, *id, *overlap).await,
        AccountVerb::Revoke { id } => revoke(work, *id).await,
        AccountVerb::Used { digest } => used(work, digest).await,
        AccountVerb::Note { .. } => Ok(Ok(AccountOutcome::Done)),
        AccountVerb::ForgetAudit { before, limit } => {
            work.tx.forget_audit(*before, *limit).await.map(|gone| Ok(AccountOutcome::Forgotten(gone)))
        }
    }
}

/// The lines that a command leaves.
fn deeds(command: &AccountCommand, outcome: &AccountOutcome) -> Vec<Deed> {
    let deed = |action: &str, object: Option<String>| Deed {
        by: command.by.clone(),
        action: action.to_owned(),
        object,
    };
    let AccountOutcome::SignedIn { credential, change } = outcome else {
        return deed_of(&command.verb).map(|(action, object)| deed(action, object)).into_iter().collect();
    };
    let object = || credential.bearer.user().map(str::to_owned);
    let changed = match change {
        Change::Made => Some(deed("user.create", object())),
        Change::Updated => Some(deed("user.change", object())),
        Change::Nothing => None,
    };
    changed.into_iter().chain([deed("login", object())]).collect()
}

fn deed_of(verb: &AccountVerb) -> Option<(&str, Option<String>)> {
    Some(match verb {
        AccountVerb::Create(account) => ("user.create", Some(account.name.clone())),
        AccountVerb::Change { name, change } => {
            (if change.password.is_some() { "user.password" } else { "user.change" }, Some(name.clone()))
        }
        AccountVerb::Remove { name } => ("user.remove", Some(name.clone())),
        AccountVerb::Issue { credential, .. } => (issued(&credential.bearer), Some(credential.name.clone())),
        AccountVerb::Join { credential, .. } => ("worker.join", Some(credential.name.clone())),
        AccountVerb::Rotate { id, .. } => ("credential.rotate", Some(id.to_string())),
        AccountVerb::Revoke { id } => ("credential.revoke", Some(id.to_string())),
        AccountVerb::Note { action, object } => (action.as_str(), object.clone()),
        AccountVerb::SignIn { .. } | AccountVerb::Used { .. } | AccountVerb::ForgetAudit { .. } => {
            return None;
        }
    })
}

const fn issued(bearer: &Bearer) -> &'static str {
    match bearer {
        Bearer::Token { .. } => "token.create",
        Bearer::Session { .. } => "login",
        Bearer::Join { .. } => "join_token.create",
        Bearer::Worker { .. } => "worker_key.create",
    }
}

async fn create<T: Tx>(work: &mut Work<'_, T>, account: &Account) -> Told {
    work.tx.lock_unique(&[format!("account {}", account.name)]).await?;
    if lock_account(work, &account.name).await?.is_some() {
        return Ok(Err(Rejection::AccountExists { name: account.name.clone() }));
    }
    let account = Account { created_at: work.now, ..account.clone() };
    put_account(work, &account).await?;
    Ok(Ok(AccountOutcome::Account(Box::new(account))))
}

async fn change_account<T: Tx>(work: &mut Work<'_, T>, name: &str, change: &AccountChange) -> Told {
    if let Some(Some(subject)) = &change.oidc {
        // Before the account, as a login does it.
        work.tx.lock_unique(&[key_of(subject)]).await?;
    }
    let Some(mut account) = lock_account(work, name).await? else {
        return Ok(Err(Rejection::AccountNotFound { name: name.to_owned() }));
    };
    let was_admin = account.is_acting_admin();
    account.apply(change);
    if was_admin && !account.is_acting_admin() && is_last_admin(work, name).await? {
        return Ok(Err(Rejection::LastAdmin { name: name.to_owned() }));
    }
    if let Some(Some(subject)) = &change.oidc {
        let taken = accounts(work.tx).await?;
        let taken =
            taken.into_iter().find(|other| other.name != name && other.oidc.as_ref() == Some(subject));
        if let Some(other) = taken {
            return Ok(Err(Rejection::SubjectTaken { name: other.name }));
        }
    }
    put_account(work, &account).await?;
    // Who had the old password, or stole a session, must not stay in. Neither must the former subject.
    let (password, subject) = (change.password.is_some(), change.oidc.is_some());
    if password || subject {
        let ends = |bearer: &Bearer| {
            let method = bearer.method().filter(|_| bearer.user() == Some(name));
            method.is_some_and(|method| password || method == LoginMethod::Oidc)
        };
        drop_credentials(work, ends).await?;
    }
    Ok(Ok(AccountOutcome::Account(Box::new(account))))
}

/// What no two accounts have.
fn key_of(subject: &OidcSubject) -> String {
    format!("subject {} of {}", subject.subject, subject.issuer)
}

/// All accounts are locked: a subject, a name and the last admin are looked for among them.
async fn let_in<T: Tx>(
    work: &mut Work<'_, T>,
    sign_in: &SignIn,
    digest: &str,
    credential: &Credential,
) -> Told {
    let mut keys = [format!("account {}", sign_in.name), key_of(&sign_in.subject)];
    keys.sort();
    work.tx.lock_unique(&keys).await?;
    let known = lock_accounts(work).await?;
    let (account, change) = match sign_in.decide(&known, work.now) {
        Ok(decided) => decided,
        Err(rejection) => return Ok(Err(rejection)),
    };
    if let Err(rejection) = make_room(work, credential.bearer.kind()).await? {
        return Ok(Err(rejection));
    }
    if change != Change::Nothing {
        put_account(work, &account).await?;
    }
    let bearer = Bearer::Session { user: account.name.clone(), method: LoginMethod::Oidc };
    let session = Credential { name: account.name, bearer, ..credential.clone() };
    let credential = Box::new(take_in(work, digest, &session).await?);
    Ok(Ok(AccountOutcome::SignedIn { credential, change }))
}

async fn remove<T: Tx>(work: &mut Work<'_, T>, name: &str) -> Told {
    let Some(account) = lock_account(work, name).await? else {
        return Ok(Err(Rejection::AccountNotFound { name: name.to_owned() }));
    };
    if account.is_acting_admin() && is_last_admin(work, name).await? {
        return Ok(Err(Rejection::LastAdmin { name: name.to_owned() }));
    }
    work.tx.delete_records(RecordKind::Account, &[name.to_owned()]).await?;
    drop_credentials(work, |bearer| bearer.user() == Some(name)).await?;
    Ok(Ok(AccountOutcome::Done))
}

async fn is_last_admin<T: Tx>(work: &mut Work<'_, T>, name: &str) -> Result<bool, StoreError> {
    // All of them are locked, so that two admins do not remove each other at the same time.
    let locked = lock_accounts(work).await?;
    Ok(!locked.iter().any(|account| account.name != name && account.is_acting_admin()))
}

async fn lock_accounts<T: Tx>(work: &mut Work<'_, T>) -> Result<Vec<Account>, StoreError> {
    let names: Vec<String> = accounts(work.tx).await?.into_iter().map(|account| account.name).collect();
    let locked = work.tx.records(RecordKind::Account, Chosen::Locked(&names)).await?;
    locked.iter().map(from_record).collect()
}

async fn issue<T: Tx>(work: &mut Work<'_, T>, digest: &str, credential: &Credential) -> Told {
    if let Err(rejection) = make_room(work, credential.bearer.kind()).await? {
        return Ok(Err(rejection));
    }
    if let Some(user) = credential.bearer.user()
        && lock_account(work, user).await?.is_none()
    {
        return Ok(Err(Rejection::AccountNotFound { name: user.to_owned() }));
    }
    Ok(Ok(AccountOutcome::Credential(Box::new(take_in(work, digest, credential).await?))))
}

async fn take_in<T: Tx>(
    work: &mut Work<'_, T>,
    digest: &str,
    credential: &Credential,
) -> Result<Credential, StoreError> {
    let credential = Credential { created_at: work.now, ..credential.clone() };
    put_credential(work, digest, &credential).await?;
    Ok(credential)
}

/// Removes credentials that expired long ago, and tells whether there is room for one more of a kind.
async fn make_room<T: Tx>(
    work: &mut Work<'_, T>,
    kind: &'static str,
) -> Result<Result<(), Rejection>, StoreError> {
    let known = all_credentials(work.tx).await?;
    let over: Vec<String> = expired(&known, work.now - KEPT);
    let kept = known.iter().filter(|(_, known)| known.bearer.kind() == kind).count();
    if kept.saturating_sub(over.len()) >= MAX_CREDENTIALS {
        return Ok(Err(Rejection::TooManyCredentials { kind, limit: MAX_CREDENTIALS }));
    }
    work.tx.delete_records(RecordKind::Credential, &over).await?;
    Ok(Ok(()))
}

fn expired(known: &[(String, Credential)], before: Timestamp) -> Vec<String> {
    let over = |(_, credential): &&(String, Credential)| credential.expires_at.is_some_and(|at| at < before);
    known.iter().filter(over).map(|(digest, _)| digest.clone()).collect()
}

async fn join<T: Tx>(work: &mut Work<'_, T>, token: &str, digest: &str, credential: &Credential) -> Told {
    let refused = |cause| Ok(Err(Rejection::CannotJoin { cause }));
    let Some(mut joiner) = lock_credential(work, token).await? else { return refused(Worthless::Unknown) };
    if let Err(cause) = joiner.principal(None, work.now) {
        return refused(cause);
    }
    let Bearer::Join { uses, tags } = &mut joiner.bearer else { return refused(Worthless::Unknown) };
    let Some(worker) = credential.bearer.worker().cloned() else { return refused(Worthless::Unknown) };
    let (left, tags) = (uses.saturating_sub(1), tags.clone());
    *uses = left;
    work.tx.lock_unique(&[format!("key of worker {worker}")]).await?;
    let known = all_credentials(work.tx).await?;
    if known.iter().any(|(_, known)| known.bearer.worker() == Some(&worker)) {
        return Ok(Err(Rejection::WorkerHasKey { worker }));
    }
    joiner.used_at = Some(work.now);
    put_credential(work, token, &joiner).await?;
    set_aside(work, &worker, false).await?;
    let bearer = Bearer::Worker { worker, tags };
    let credential = Credential { created_at: work.now, bearer, ..credential.clone() };
    put_credential(work, digest, &credential).await?;
    Ok(Ok(AccountOutcome::Credential(Box::new(credential))))
}

async fn rotate<T: Tx>(
    work: &mut Work<'_, T>,
    old: &str,
    new: &str,
    id: CredentialId,
    overlap: Span,
) -> Told {
    let Some(mut before) = lock_credential(work, old).await? else {
        return Ok(Err(Rejection::CredentialNotFound { id }));
    };
    let after = Credential { id, created_at: work.now, used_at: None, ..before.clone() };
    let end = work.now + overlap;
    before.expires_at = Some(before.expires_at.map_or(end, |at| at.min(end)));
    put_credential(work, old, &before).await?;
    put_credential(work, new, &after).await?;
    Ok(Ok(AccountOutcome::Credential(Box::new(after))))
}

async fn revoke<T: Tx>(work: &mut Work<'_, T>, id: CredentialId) -> Told {
    let known = all_credentials(work.tx).await?;
    let Some((digest, credential)) = known.into_iter().find(|(_, known)| known.id == id) else {
        return Ok(Err(Rejection::CredentialNotFound { id }));
    };
    if let Some(worker) = credential.bearer.worker() {
        // Keys that are being replaced go with it.
        drop_credentials(work, |bearer| bearer.worker() == Some(worker)).await?;
        take_away(work, worker).await?;
    }
    work.tx.delete_records(RecordKind::Credential, &[digest]).await?;
    Ok(Ok(AccountOutcome::Credential(Box::new(credential))))
}

/// Ends all leases of a worker: nothing that it still says about its jobs counts, and a claim of it that waits gets nothing.
async fn take_away<T: Tx>(work: &mut Work<'_, T>, worker: &WorkerId) -> Result<(), StoreError> {
    set_aside(work, worker, true).await?;
    let held = work.tx.held_jobs(std::slice::from_ref(worker)).await?;
    let ids: Vec<JobId> = held.iter().map(|job| job.id).collect();
    work.lock_whole(ids.iter().copied()).await?;
    for id in ids {
        let patience = Patience::NONE;
        if work.trigger(id, &Trigger::Silence { patience }).is_err() {
            // It may have been told to stop before. What is refused now has ended.
            let _ = work.trigger(id, &Trigger::StopOverdue { patience });
        }
    }
    Ok(())
}

/// Keeps work from a worker whose key is revoked, or lets it have some again once it has a new one.
async fn set_aside<T: Tx>(
    work: &mut Work<'_, T>,
    worker: &WorkerId,
    revoked: bool,
) -> Result<(), StoreError> {
    work.lock_workers(std::slice::from_ref(worker)).await?;
    let (mut known, mut changed) = work.take_workers();
    if let Some(found) = known.get_mut(worker) {
        found.health.quarantine = revoked.then(|| Quarantine {
            since: work.now,
            probe_at: work.now + FOR_GOOD,
            pause: FOR_GOOD,
            evidence: Vec::new(),
            revoked: true,
        });
        changed.insert(worker.clone());
    }
    work.put_back_workers(known, changed);
    Ok(())
}

async fn used<T: Tx>(work: &mut Work<'_, T>, digest: &str) -> Told {
    if let Some(mut credential) = lock_credential(work, digest).await? {
        credential.used_at = Some(work.now);
        put_credential(work, digest, &credential).await?;
    }
    Ok(Ok(AccountOutcome::Done))
}

pub(super) async fn accounts<T: Tx>(tx: &mut T) -> Result<Vec<Account>, StoreError> {
    tx.records(RecordKind::Account, Chosen::All).await?.iter().map(from_record).collect()
}

/// All credentials, oldest first.
pub(super) async fn credentials<T: Tx>(tx: &mut T) -> Result<Vec<Credential>, StoreError> {
    let mut known: Vec<Credential> = all_credentials(tx).await?.into_iter().map(|(_, known)| known).collect();
    known.sort_by_key(|credential| (credential.created_at, credential.id));
    Ok(known)
}

/// The credential with this digest.
pub(super) async fn credential<T: Tx>(
    tx: &mut T,
    digest: &str,
) -> Result<Option<KnownCredential>, StoreError> {
    let found = tx.records(RecordKind::Credential, Chosen::Of(&[digest.to_owned()])).await?;
    let Some(record) = found.first() else { return Ok(None) };
    let credential: Credential = from_record(record)?;
    let account = match credential.bearer.user() {
        Some(user) => account(tx, user).await?,
        None => None,
    };
    Ok(Some(KnownCredential { credential, account }))
}

pub(super) async fn account<T: Tx>(tx: &mut T, name: &str) -> Result<Option<Account>, StoreError> {
    let found = tx.records(RecordKind::Account, Chosen::Of(&[name.to_owned()])).await?;
    found.first().map(from_record).transpose()
}

pub(super) async fn audit<T: Tx>(tx: &mut T, filter: &AuditFilter) -> Result<Vec<AuditEntry>, StoreError> {
    let entry = |line: AuditLine| {
        Ok(AuditEntry { seq: line.seq, at: line.at, deed: read("audit log", &line.facts)? })
    };
    tx.audit(filter).await?.into_iter().map(entry).collect()
}

async fn all_credentials<T: Tx>(tx: &mut T) -> Result<Vec<(String, Credential)>, StoreError> {
    let records = tx.records(RecordKind::Credential, Chosen::All).await?;
    records.iter().map(|record| Ok((record.key.clone(), from_record(record)?))).collect()
}

async fn drop_credentials<T: Tx>(
    work: &mut Work<'_, T>,
    chosen: impl Fn(&Bearer) -> bool,
) -> Result<(), StoreError> {
    let known = all_credentials(work.tx).await?;
    let gone = known.into_iter().filter(|(_, known)| chosen(&known.bearer)).map(|(digest, _)| digest);
    let gone: Vec<String> = gone.collect();
    work.tx.delete_records(RecordKind::Credential, &gone).await
}

async fn lock_account<T: Tx>(work: &mut Work<'_, T>, name: &str) -> Result<Option<Account>, StoreError> {
    let found = work.tx.records(RecordKind::Account, Chosen::Locked(&[name.to_owned()])).await?;
    found.first().map(from_record).transpose()
}

async fn lock_credential<T: Tx>(
    work: &mut Work<'_, T>,
    digest: &str,
) -> Result<Option<Credential>, StoreError> {
    let found = work.tx.records(RecordKind::Credential, Chosen::Locked(&[digest.to_owned()])).await?;
    found.first().map(from_record).transpose()
}

async fn put_account<T: Tx>(work: &mut Work<'_, T>, account: &Account) -> Result<(), StoreError> {
    let record = Record { kind: RecordKind::Account, key: account.name.clone(), facts: to_json(account)? };
    work.tx.put_records(&[record]).await
}

async fn put_credential<T: Tx>(
    work: &mut Work<'_, T>,
    digest: &str,
    credential: &Credential,
) -> Result<(), StoreError> {
    let facts = to_json(credential)?;
    work.tx.put_records(&[Record { kind: RecordKind::Credential, key: digest.to_owned(), facts }]).await
}

/// What a record says, as the type that it was written from.
pub(super) fn from_record<R: DeserializeOwned>(record: &Record) -> Result<R, StoreError> {
    read(record.kind.name(), &record.facts)
}

fn read<R: DeserializeOwned>(what: &'static str, facts: &str) -> Result<R, StoreError> {
    serde_json::from_str(facts)
        .map_err(|error| StoreError::Corrupt { record: what.to_owned(), detail: error.to_string() })
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    let failed =
        |error: serde_json::Error| StoreError::Failed { operation: "write a record", source: error.into() };
    serde_json::to_string(value).map_err(failed)
}
