//! Terminals in running jobs: `GET /jobs/{id}/exec` and `GET /jobs/{id}/terminal` of clients, and the way in which workers and
//! other schedulers join.

use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use muster_domain::access::{Principal, UserRole};
use muster_domain::{Job, JobId, Lease, TerminalKind, WorkerId};
use muster_protocol::{HEADER_TERMINAL_SECRET, TERMINAL_UPGRADE, TerminalOrder};
use muster_store::{Command, Outcome, StoreExt as _};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::app::Shared;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, SessionPath};
use crate::listener::{StreamFuture, Takeover};
use crate::local_user::LocalUser;
use crate::metrics::Open;
use crate::params::Params;
use crate::peers;
use crate::terminals::{Ends, PATIENCE, pass};
use crate::tokens;

/// What a server adds to the key of a WebSocket before it makes the answer of it (RFC 6455).
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const WEBSOCKET: &str = "websocket";

/// The connection of a request that asks to change over.
#[derive(Debug)]
pub(crate) struct Changeable(Option<Takeover>);

impl FromRequestParts<Shared> for Changeable {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Self::Rejection> {
        Ok(Self(Takeover::of(&mut parts.extensions)))
    }
}

impl Changeable {
    /// The connection, if the request asks to change over to this protocol.
    fn to(self, protocol: &'static str, headers: &HeaderMap) -> Result<Takeover, ApiError> {
        let asked = headers.get(UPGRADE).and_then(|value| value.to_str().ok());
        let fits = asked.is_some_and(|asked| asked.eq_ignore_ascii_case(protocol));
        self.0.filter(|_| fits).ok_or_else(|| {
            let message = format!(
                "this path speaks another protocol: ask with Connection: Upgrade and Upgrade: {protocol}"
            );
            ApiError::refused(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message)
        })
    }
}

/// Runs a program beside those of a running job, over a WebSocket.
///
/// The first message of the client is `o` and a `TerminalOpen`; what follows begins with a letter too: `i` input, `z` its end,
/// `r` a `TerminalSize`, `s` and the number of a signal. The worker sends `O` when the program runs, `1` and `2` with what it
/// writes, and last `X` with a `TerminalEnd` or `F` with the reason why there is no session. With a page's own script this
/// is a plain WebSocket.
#[utoipa::path(
    get, path = "/jobs/{id}/exec", tag = "terminals", params(("id" = String, Path)),
    responses(
        (status = 101, description = "A WebSocket with the worker"),
        (status = 409, description = "The job does not run", content_type = "text/plain", body = String),
        (status = 426, description = "The request asks for no WebSocket", content_type = "text/plain", body = String),
        (status = 504, description = "The worker did not come", content_type = "text/plain", body = String),
    )
)]
pub(crate) async fn exec(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    connection: Changeable,
    call: Call,
) -> Result<Response, ApiError> {
    open(&app, id, TerminalKind::Exec, connection, &call).await
}

/// Attaches to the terminal that a running job was given with `pty`, over a WebSocket.
///
/// Messages are those of `/jobs/{id}/exec`. The worker sends the last 64 KiB that the job wrote first. Several clients may be
/// attached; all see the same, and what any of them types goes to the job.
#[utoipa::path(
    get, path = "/jobs/{id}/terminal", tag = "terminals", params(("id" = String, Path)),
    responses(
        (status = 101, description = "A WebSocket with the worker"),
        (status = 409, description = "The job does not run, or has no terminal", content_type = "text/plain", body = String),
        (status = 426, description = "The request asks for no WebSocket", content_type = "text/plain", body = String),
        (status = 504, description = "The worker did not come", content_type = "text/plain", body = String),
    )
)]
pub(crate) async fn attach(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    connection: Changeable,
    call: Call,
) -> Result<Response, ApiError> {
    open(&app, id, TerminalKind::Attach, connection, &call).await
}

async fn open(
    app: &Shared,
    id: JobId,
    kind: TerminalKind,
    connection: Changeable,
    call: &Call,
) -> Result<Response, ApiError> {
    let takeover = connection.to(WEBSOCKET, &call.headers)?;
    let accept = accept(&call.headers)?;
    let most = app.config.bounds.terminals;
    let place = app.terminals.place().ok_or_else(|| ApiError::too_many_terminals(most))?;
    // Before anything happens it is written down who wants in.
    let noted = app.batcher.submit_one(call.audited(Command::NoteTerminal { job: id, kind })).await?;
    let Outcome::Changed { job, .. } = noted else { return Err(ApiError::internal()) };
    let worker = holder(&job)?;
    check_user(app, &worker, &job, call).await?;
    app.tokens.secret(app).await?;
    let mut session = app.terminals.begin(app.peers.id(), id);
    let order = TerminalOrder {
        session: session.name.clone(),
        secret: session.secret.clone(),
        job_id: id.to_string(),
        lease: job.lease.0,
        kind: wire(kind),
        idle_ms: u64::try_from(app.config.terminal_idle.as_millis()).unwrap_or(u64::MAX),
    };
    app.dispatcher.order_terminal(&worker, order.clone());
    let passed_on = peers::pass_order(app, &worker, &order);
    let joined = tokio::select! {
        joined = session.worker() => joined,
        never = passed_on => match never {},
        () = app.closed() => return Err(ApiError::closing()),
    };
    let stream = joined.ok_or_else(|| ApiError::worker_did_not_come(&worker, PATIENCE))?;
    let ends = Ends { client: takeover.take(), worker: stream };
    let open = Open::count(&app.metrics.bounds.terminals);
    let app = app.clone();
    tokio::spawn(async move {
        pass(ends, app.closed()).await;
        drop((open, place));
    });
    let mut response = changing(WEBSOCKET);
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// Where jobs run as their submitters, entering one gives the rights of that user. So only the submitter and operators may, and on
/// loopback the scheduler's own user and root.
async fn check_user(app: &Shared, worker: &WorkerId, job: &Job, call: &Call) -> Result<(), ApiError> {
    let Some(user) = &job.spec.proven_user else { return Ok(()) };
    let known = app.store.workers().await?;
    let is_personal = known.iter().any(|one| {
        one.worker.id == *worker && one.worker.run_as.as_deref() == Some(muster_protocol::RUN_AS_SUBMITTER)
    });
    let trusted = match &call.identity.principal {
        Principal::User { role: UserRole::Operator | UserRole::Admin, .. } => true,
        Principal::Local => call.identity.local_user.is_some_and(LocalUser::is_master),
        _ => false,
    };
    if !is_personal || trusted || call.identity.proven_user().await.as_deref() == Some(user) {
        return Ok(());
    }
    let message =
        format!("the job runs as the user {user} of its worker: only {user}, or an operator, may enter it");
    Err(ApiError::not_yours("id", message))
}

/// The worker that runs the job. Programs that claim without a name have nothing that could be told.
fn holder(job: &Job) -> Result<WorkerId, ApiError> {
    job.worker().cloned().ok_or_else(|| {
        let message = "the job was claimed by a program without a name, which cannot open terminals";
        ApiError::conflict("no_terminal", message)
    })
}

const fn wire(kind: TerminalKind) -> muster_protocol::TerminalKind {
    match kind {
        TerminalKind::Exec => muster_protocol::TerminalKind::Exec,
        TerminalKind::Attach => muster_protocol::TerminalKind::Attach,
    }
}

/// What a server that has understood a WebSocket answers.
fn accept(headers: &HeaderMap) -> Result<HeaderValue, ApiError> {
    let wrong = |message: &'static str| ApiError::bad_request("bad_websocket", message);
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(wrong("Sec-WebSocket-Version must be 13"));
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    let key = key.ok_or_else(|| wrong("Sec-WebSocket-Key is missing"))?;
    let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{}{WEBSOCKET_GUID}", key.trim()).as_bytes());
    HeaderValue::from_str(&STANDARD.encode(digest.as_ref())).map_err(|_| ApiError::internal())
}

fn changing(protocol: &'static str) -> Response {
    let mut response = Body::empty().into_response();
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(protocol));
    response
}

/// Brings the worker into a session of which it was told, with the secret that it was told. Only for our own worker.
#[utoipa::path(
    get, path = "/jobs/{id}/terminals/{session}", tag = "workers",
    params(
        ("id" = String, Path), ("session" = String, Path),
        ("x-muster-terminal-secret" = String, Header, description = "As in the order"),
    ),
    responses(
        (status = 101, description = "The bytes of the client's WebSocket"),
        (status = 404, description = "There is no such session", content_type = "text/plain", body = String),
        (status = 426, description = "The request does not ask for muster-terminal", content_type = "text/plain", body = String),
    )
)]
pub(crate) async fn join(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    SessionPath(session): SessionPath,
    connection: Changeable,
    call: Call,
) -> Result<Response, ApiError> {
    let takeover = connection.to(TERMINAL_UPGRADE, &call.headers)?;
    let secret = secret(&call)?;
    let mut takeover = Some(takeover);
    let mut take = || takeover.take().map(Takeover::take);
    let here = app.terminals.join(&session, id, secret, || {
        take().unwrap_or_else(|| StreamFuture::new(async { Err(std::io::ErrorKind::NotConnected.into()) }))
    });
    if here {
        return Ok(changing(TERMINAL_UPGRADE));
    }
    let elsewhere = peers::join_terminal(&app, id, &session, secret, &call).await?;
    let (Some(there), Some(stream)) = (elsewhere, take()) else { return Err(ApiError::no_session()) };
    let ends = Ends { client: there, worker: stream };
    tokio::spawn(async move { pass(ends, app.closed()).await });
    Ok(changing(TERMINAL_UPGRADE))
}

fn secret(call: &Call) -> Result<&str, ApiError> {
    call.header(HEADER_TERMINAL_SECRET).ok_or_else(ApiError::no_session)
}

/// Tells the worker of a job about a session at another scheduler. Only for schedulers on the same store.
#[utoipa::path(
    post, path = "/jobs/{id}/terminals/{session}", tag = "workers",
    params(
        ("id" = String, Path), ("session" = String, Path), ("worker" = String, Query), ("lease" = u64, Query),
        ("kind" = muster_protocol::TerminalKind, Query), ("idle_ms" = u64, Query),
        ("x-muster-terminal-secret" = String, Header, description = "Of the session"),
    ),
    responses((status = 204, description = "Noted"))
)]
pub(crate) async fn order(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    SessionPath(session): SessionPath,
    call: Call,
) -> Result<Response, ApiError> {
    // Only a scheduler on the same store can have this token: no lease has that number.
    if tokens::speaker(&app, &call).await? != Some((id, Lease(0))) {
        return Err(ApiError::no_session());
    }
    let order = TerminalOrder {
        session,
        secret: secret(&call)?.to_owned(),
        job_id: id.to_string(),
        lease: required(&call.params, "lease")?,
        kind: match call.params.filled("kind") {
            Some("exec") => muster_protocol::TerminalKind::Exec,
            Some("attach") => muster_protocol::TerminalKind::Attach,
            _ => {
                return Err(
                    ApiError::bad_request("invalid_parameter", "kind must be exec or attach").at("kind")
                );
            }
        },
        idle_ms: required(&call.params, "idle_ms")?,
    };
    let worker = call.params.filled("worker").map(WorkerId::new);
    let worker = worker
        .ok_or_else(|| ApiError::bad_request("invalid_parameter", "worker is required").at("worker"))?;
    app.dispatcher.order_terminal(&worker, order);
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn required(params: &Params, name: &'static str) -> Result<u64, ApiError> {
    params
        .integer(name)?
        .ok_or_else(|| ApiError::bad_request("invalid_parameter", format!("{name} is required")).at(name))
}

/// The header in the form that other parts of the server ask for.
pub(crate) const SECRET: HeaderName = HeaderName::from_static(HEADER_TERMINAL_SECRET);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_websocket_is_that_of_the_standard() {
        let mut headers = HeaderMap::new();
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        assert_eq!(accept(&headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        headers.remove(SEC_WEBSOCKET_KEY);
        assert!(accept(&headers).is_err());
        assert!(accept(&HeaderMap::new()).is_err());
    }
}
