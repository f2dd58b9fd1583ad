//! Tokens of users, join tokens, keys of workers, and the audit log.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use muster_domain::access::{Action, Principal, UserRole};
use muster_domain::{Actor, Bearer, Credential, CredentialId, QueueName, Span, WorkerId};
use muster_protocol::{AuditEntry, Credential as Shown, Issued, JoinRequest, JoinTokenRequest, TokenRequest};
use muster_store::{
    AccountCommand, AccountOutcome, AccountVerb, AuditFilter, Command, Outcome, StoreExt as _,
};

use super::auth::{issued, own_name};
use super::rows::refused;
use super::users::{name, queue_names, role};
use crate::app::{App, Shared};
use crate::bearer::{self, Fresh};
use crate::body::read_body;
use crate::clock::{from_wire, to_wire};
use crate::error::ApiError;
use crate::extract::{Call, WorkerPath, empty, json};
use crate::ids;
use crate::lenient::{self, lenient_object};
use crate::ownership::Owners;

/// How long a join token lasts that does not say.
const JOIN: u64 = 24 * 3600;
/// The most workers that may join by one token.
const MOST_USES: u32 = 10_000;
/// The longest time until an end: a hundred years.
const LONGEST: u32 = 100 * 365 * 86_400;
/// How long the old key of a worker stays good after it has a new one.
const OVERLAP: Span = Span::from_secs(600);
/// Lines of the audit log on a page.
const PAGE: usize = 100;
const MOST_LINES: usize = 1_000;

lenient_object! {
    /// A token as a user describes it.
    struct TokenBody {
        name: String = "name",
        user: String = "user",
        role: String = "role",
        queues: Vec<String> = "queues",
        expires_in: u64 = "expires_in",
    }
}

lenient_object! {
    /// A join token as an operator describes it.
    struct JoinTokenBody {
        name: String = "name",
        uses: u32 = "uses",
        tags: Vec<String> = "tags",
        expires_in: u64 = "expires_in",
    }
}

lenient_object! {
    /// The worker that joins.
    struct JoinBody { worker_id: String = "worker_id" }
}

/// Carries out a change; the line that it leaves says who wanted it.
pub(super) async fn change(app: &App, call: &Call, verb: AccountVerb) -> Result<AccountOutcome, ApiError> {
    change_by(app, call.actor(), verb).await
}

/// The same for somebody who has just proven a name.
pub(super) async fn change_by(app: &App, by: Actor, verb: AccountVerb) -> Result<AccountOutcome, ApiError> {
    let command = Command::Account(Box::new(AccountCommand { by, verb }));
    let outcome = app.batcher.submit_one(command).await?;
    app.credentials.forget();
    match outcome {
        Outcome::Account(outcome) => Ok(outcome),
        _ => Err(ApiError::internal()),
    }
}

/// Takes in a fresh credential, and shows it this once.
pub(super) async fn issue(
    app: &App,
    call: &Call,
    fresh: Fresh,
    credential: Credential,
) -> Result<Issued, ApiError> {
    issue_by(app, call.actor(), fresh, credential).await
}

pub(super) async fn issue_by(
    app: &App,
    by: Actor,
    fresh: Fresh,
    credential: Credential,
) -> Result<Issued, ApiError> {
    match change_by(app, by, AccountVerb::Issue { digest: fresh.digest, credential }).await? {
        AccountOutcome::Credential(credential) => Ok(issued(fresh.shown, &credential)),
        _ => Err(ApiError::internal()),
    }
}

/// A credential for people.
pub(super) fn shown(credential: &Credential) -> Shown {
    let (mut role, mut queues, mut tags, mut uses) = (None, None, None, None);
    match &credential.bearer {
        Bearer::Token { role: own, queues: named, .. } => {
            role = own.map(|role| role.name().to_owned());
            queues = named.as_ref().map(|queues| queues.iter().map(ToString::to_string).collect());
        }
        Bearer::Join { uses: left, tags: allowed } => (uses, tags) = (Some(*left), allowed.clone()),
        Bearer::Worker { tags: allowed, .. } => tags.clone_from(allowed),
        Bearer::Session { .. } => {}
    }
    Shown {
        id: credential.id.to_string(),
        kind: credential.bearer.kind().to_owned(),
        name: credential.name.clone(),
        user: credential.bearer.user().map(str::to_owned),
        worker: credential.bearer.worker().map(ToString::to_string),
        role,
        queues,
        tags,
        uses,
        created_at: to_wire(credential.created_at),
        expires_at: credential.expires_at.map(to_wire),
        used_at: credential.used_at.map(to_wire),
    }
}

fn fresh_credential(
    app: &App,
    name: String,
    bearer: Bearer,
    ends_in: Option<u64>,
) -> Result<Credential, ApiError> {
    let now = app.config.clock.now();
    let expires_at = match ends_in {
        Some(0) => {
            return Err(ApiError::invalid_field("expires_in", "expires_in: write at least one second"));
        }
        Some(seconds) => {
            let seconds = u32::try_from(seconds).ok().filter(|seconds| *seconds <= LONGEST);
            let too_long =
                || ApiError::invalid_field("expires_in", "expires_in: write at most a hundred years");
            Some(now + Span::from_secs(seconds.ok_or_else(too_long)?))
        }
        None => None,
    };
    Ok(Credential { id: ids::credential(), name, bearer, created_at: now, expires_at, used_at: None })
}

fn id(text: &str) -> Result<CredentialId, ApiError> {
    text.parse().map_err(|_| ApiError::credential_not_found())
}

/// The caller's tokens and sessions; an admin sees those of all users.
#[utoipa::path(
    get, path = "/tokens", tag = "access",
    responses((status = 200, description = "Oldest first, never what their holders show", body = [Shown]))
)]
pub(crate) async fn list_tokens(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let own = |credential: &Credential| {
        credential.bearer.user().is_some_and(|user| {
            Owners::of_user(user).ask(&call.identity.principal, Action::ManageTokens).is_ok()
        })
    };
    let known = app.store.credentials().await?;
    let tokens: Vec<Shown> = known.iter().filter(|credential| own(credential)).map(shown).collect();
    json(StatusCode::OK, &tokens)
}

/// Makes a token. The answer is the only one that shows it.
#[utoipa::path(
    post, path = "/tokens", tag = "access", request_body = TokenRequest,
    responses(
        (status = 201, description = "The token", body = Issued),
        (status = 404, description = "There is no such user"),
        (status = 409, description = "There are as many tokens as there may be"),
    )
)]
pub(crate) async fn create_token(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let given: TokenBody = lenient::decode(&bytes, call.reading())?;
    let own = own_name(&call).map(str::to_owned);
    let Some(user) = given.user.filter(|user| !user.is_empty()).or(own) else {
        return Err(ApiError::invalid_field("user", "user: say whose token it is"));
    };
    Owners::of_user(&user).ask(&call.identity.principal, Action::ManageTokens).map_err(refused)?;
    let wanted = given.role.as_deref().map(role).transpose()?;
    let queues = given.queues.map(|names| queue_names(names, app.config.limits.name)).transpose()?;
    // A token that is used to make another one must not make a stronger one.
    let (wanted, queues) = match &call.identity.principal {
        Principal::User { role, queues: own, .. } if own_name(&call) == Some(user.as_str()) => {
            check_strength(*role, own.as_deref(), wanted, queues.as_deref())?;
            (Some(wanted.unwrap_or(*role)), queues.or_else(|| own.clone()))
        }
        _ => {
            if let Some(account) = app.store.account(user.clone()).await? {
                check_strength(account.role, account.queues.as_deref(), wanted, queues.as_deref())?;
            }
            (wanted, queues)
        }
    };
    let bearer = Bearer::Token { user, role: wanted, queues };
    let fresh = bearer::make(&bearer, ids::key());
    let credential = fresh_credential(&app, name("name", given.name)?, bearer, given.expires_in)?;
    json(StatusCode::CREATED, &issue(&app, &call, fresh, credential).await?)
}

/// Refuses a token that would seem to give more than its user has.
fn check_strength(
    role: UserRole,
    own: Option<&[QueueName]>,
    wanted: Option<UserRole>,
    queues: Option<&[QueueName]>,
) -> Result<(), ApiError> {
    if let Some(wanted) = wanted.filter(|wanted| *wanted > role) {
        let message = format!(
            "role: a token gives no more than its user has, which is {}, not {}",
            role.name(),
            wanted.name()
        );
        return Err(ApiError::not_yours("role", message));
    }
    let Some(own) = own else { return Ok(()) };
    match queues.unwrap_or_default().iter().find(|queue| !own.contains(queue)) {
        Some(queue) => {
            let message = format!("queues: {queue} is not open to the user of the token");
            Err(ApiError::not_yours("queues", message))
        }
        None => Ok(()),
    }
}

/// Revokes a token or a session. It is worthless on all schedulers within a second.
#[utoipa::path(
    delete, path = "/tokens/{id}", tag = "access",
    params(("id" = String, Path, description = "The credential")),
    responses((status = 204, description = "Revoked"))
)]
pub(crate) async fn revoke_token(
    State(app): State<Shared>,
    Path(named): Path<String>,
    call: Call,
) -> Result<Response, ApiError> {
    let id = id(&named)?;
    let known = app.store.credentials().await?.into_iter().find(|credential| credential.id == id);
    let user = known.as_ref().and_then(|credential| credential.bearer.user());
    let user = user.ok_or_else(ApiError::credential_not_found)?;
    let allowed = Owners::of_user(user).ask(&call.identity.principal, Action::ManageTokens);
    // Nobody learns which credentials others have.
    allowed.map_err(|_| ApiError::credential_not_found())?;
    change(&app, &call, AccountVerb::Revoke { id }).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Join tokens, and the keys of workers that have joined.
#[utoipa::path(
    get, path = "/worker-keys", tag = "access",
    responses((status = 200, description = "Oldest first, never what their holders show", body = [Shown]))
)]
pub(crate) async fn list_keys(State(app): State<Shared>) -> Result<Response, ApiError> {
    let known = app.store.credentials().await?;
    let keys = known.iter().filter(|credential| credential.bearer.user().is_none());
    json(StatusCode::OK, &keys.map(shown).collect::<Vec<Shown>>())
}

/// Makes a join token: a machine that shows it once gets the key of a worker.
#[utoipa::path(
    post, path = "/join-tokens", tag = "access", request_body = JoinTokenRequest,
    responses(
        (status = 201, description = "The join token", body = Issued),
        (status = 409, description = "There are as many join tokens as there may be"),
    )
)]
pub(crate) async fn create_join_token(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let given: JoinTokenBody = lenient::decode(&bytes, call.reading())?;
    let uses = given.uses.unwrap_or(1);
    if !(1..=MOST_USES).contains(&uses) {
        return Err(ApiError::invalid_field("uses", format!("uses: write 1 to {MOST_USES}")));
    }
    if given.tags.as_ref().is_some_and(|tags| tags.len() > app.config.limits.tags) {
        return Err(ApiError::over_limit("tags", app.config.limits.tags, "entries"));
    }
    let bearer = Bearer::Join { uses, tags: given.tags };
    let fresh = bearer::make(&bearer, ids::key());
    let ends_in = Some(given.expires_in.unwrap_or(JOIN));
    let credential = fresh_credential(&app, name("name", given.name)?, bearer, ends_in)?;
    json(StatusCode::CREATED, &issue(&app, &call, fresh, credential).await?)
}

/// Revokes a join token or the key of a worker. What that worker holds is taken away from it at once.
#[utoipa::path(
    delete, path = "/worker-keys/{id}", tag = "access",
    params(("id" = String, Path, description = "The credential")),
    responses((status = 204, description = "Revoked"))
)]
pub(crate) async fn revoke_key(
    State(app): State<Shared>,
    Path(named): Path<String>,
    call: Call,
) -> Result<Response, ApiError> {
    let id = id(&named)?;
    let known = app.store.credentials().await?.into_iter().find(|credential| credential.id == id);
    if known.is_none_or(|credential| credential.bearer.user().is_some()) {
        return Err(ApiError::credential_not_found());
    }
    change(&app, &call, AccountVerb::Revoke { id }).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Exchanges the join token that the request shows for the key of a worker.
#[utoipa::path(
    post, path = "/workers/join", tag = "access", request_body = JoinRequest,
    responses(
        (status = 201, description = "The key; it is not shown again", body = Issued),
        (status = 409, description = "A worker of this id has a key"),
    )
)]
pub(crate) async fn join(State(app): State<Shared>, call: Call, body: Body) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let given: JoinBody = lenient::decode(&bytes, call.reading())?;
    let worker = given.worker_id.unwrap_or_default();
    if worker.is_empty() || worker.len() > app.config.limits.name || worker.contains('\0') {
        return Err(ApiError::invalid_field("worker_id", "worker_id: write the id of the worker that joins"));
    }
    let Some(token) = call.identity.credential.as_ref().map(|shown| shown.digest.clone()) else {
        return Err(ApiError::unauthorized("a join token is needed: send it as Authorization: Bearer"));
    };
    let bearer = Bearer::Worker { worker: WorkerId::new(worker.as_str()), tags: None };
    let fresh = bearer::make(&bearer, ids::key());
    let credential = fresh_credential(&app, worker, bearer, None)?;
    let verb = AccountVerb::Join { token, digest: fresh.digest, credential };
    match change(&app, &call, verb).await? {
        AccountOutcome::Credential(credential) => {
            json(StatusCode::CREATED, &issued(fresh.shown, &credential))
        }
        _ => Err(ApiError::internal()),
    }
}

/// Gives a worker a new key. The one that it showed stays good for ten minutes.
#[utoipa::path(
    post, path = "/workers/{id}/key", tag = "access",
    params(("id" = String, Path, description = "The worker")),
    responses((status = 201, description = "The new key; it is not shown again", body = Issued))
)]
pub(crate) async fn rotate_key(
    State(app): State<Shared>,
    WorkerPath(worker): WorkerPath,
    call: Call,
) -> Result<Response, ApiError> {
    let Some(old) = call.identity.credential.as_ref().map(|shown| shown.digest.clone()) else {
        return Err(ApiError::unauthorized("only a worker with a key gets a new one"));
    };
    let fresh = bearer::make(&Bearer::Worker { worker, tags: None }, ids::key());
    let verb = AccountVerb::Rotate { old, new: fresh.digest, id: ids::credential(), overlap: OVERLAP };
    match change(&app, &call, verb).await? {
        AccountOutcome::Credential(credential) => {
            json(StatusCode::CREATED, &issued(fresh.shown, &credential))
        }
        _ => Err(ApiError::internal()),
    }
}

/// Who did what to accounts, credentials and settings, newest first.
#[utoipa::path(
    get, path = "/audit", tag = "access",
    params(
        ("limit" = Option<usize>, Query, description = "Lines on a page; 100 when absent, 1,000 at most"),
        ("before" = Option<u64>, Query, description = "Only lines before this one: the id of the last one of the page before"),
        ("since" = Option<String>, Query, description = "Only lines at or after this time (RFC 3339)"),
    ),
    responses((status = 200, description = "The lines", body = [AuditEntry]))
)]
pub(crate) async fn audit(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let since = match call.params.filled("since") {
        Some(text) => {
            let time: jiff::Timestamp = text.parse().map_err(|_| {
                ApiError::invalid_field("since", "since: write a time such as 2026-01-31T08:00:00Z")
            })?;
            Some(from_wire(time))
        }
        None => None,
    };
    let limit = call.params.integer("limit")?.unwrap_or(PAGE).min(MOST_LINES);
    let filter = AuditFilter { before_seq: call.params.integer("before")?, since, limit };
    let entry = |line: muster_store::AuditEntry| AuditEntry {
        id: line.seq,
        at: to_wire(line.at),
        by: line.deed.by.name,
        credential: line.deed.by.credential,
        address: line.deed.by.address,
        request_id: line.deed.by.request,
        action: line.deed.action,
        object: line.deed.object,
    };
    let lines: Vec<AuditEntry> = app.store.audit(filter).await?.into_iter().map(entry).collect();
    json(StatusCode::OK, &lines)
}
