//! Logging in and out, and who one is.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};
use muster_domain::access::Principal;
use muster_domain::{AccountChange, Actor, Bearer, Credential, LoginMethod, Span};
use muster_protocol::{Issued, LoginRequest, PasswordChange, WhoAmI};
use muster_store::{AccountVerb, StoreExt as _};

use super::credentials::shown;
use crate::app::{App, Shared};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, empty, json};
use crate::identity::COOKIE_NAME;
use crate::lenient::{self, lenient_object};
use crate::{bearer, ids, passwords};

/// Bytes of a login: everybody may send one.
const LOGIN_BODY: usize = 16 * 1024;
/// How long a session lasts.
pub(super) const SESSION: Span = Span::from_secs(24 * 3600);

lenient_object! {
    /// Who wants in.
    struct LoginBody { user: String = "user", password: String = "password" }
}

lenient_object! {
    /// A new password, proven by the old one.
    struct PasswordBody { old: String = "old", new: String = "new" }
}

/// Gives a session of 24 hours for a user and a password: as a token, and as a cookie for pages.
#[utoipa::path(
    post, path = "/auth/login", tag = "access", request_body = LoginRequest,
    responses(
        (status = 200, description = "A session", body = Issued),
        (status = 401, description = "No such user, or a wrong password"),
        (status = 429, description = "Too many wrong passwords of this user or from this address"),
    )
)]
pub(crate) async fn login(State(app): State<Shared>, call: Call, body: Body) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body.min(LOGIN_BODY)).await?;
    let given: LoginBody = lenient::decode(&bytes, call.reading())?;
    let user = given.user.unwrap_or_default();
    prove(&app, &call, &user, given.password.unwrap_or_default()).await?;
    let issued = start_session(&app, &call, user).await?;
    let mut response = json(StatusCode::OK, &issued)?;
    set_cookie(&mut response, &issued.token, SESSION, app.tls.is_some())?;
    Ok(response)
}

/// Whether the password is the user's; a wrong one leaves a line.
async fn prove(app: &App, call: &Call, user: &str, password: String) -> Result<(), ApiError> {
    let account = app.store.account(user.to_owned()).await?.filter(|account| !account.disabled);
    let kept = account.and_then(|account| account.password);
    let right = app.guesses.check(user, call.peer.map(|peer| peer.ip()), password, kept).await?;
    if right {
        return Ok(());
    }
    let object = Some(user.chars().take(muster_domain::account::MAX_NAME).collect());
    super::credentials::change(app, call, AccountVerb::Note { action: "login.refused".to_owned(), object })
        .await?;
    Err(ApiError::unauthorized("no such user, or a wrong password"))
}

async fn start_session(app: &App, call: &Call, user: String) -> Result<Issued, ApiError> {
    // From here on the caller is who it said.
    let by = Actor { name: user.clone(), ..call.actor() };
    let bearer = Bearer::Session { user, method: LoginMethod::Password };
    let fresh = bearer::make(&bearer, ids::key());
    let credential = session(app, bearer);
    super::credentials::issue_by(app, by, fresh, credential).await
}

/// A session that begins now.
pub(super) fn session(app: &App, bearer: Bearer) -> Credential {
    let now = app.config.clock.now();
    Credential {
        id: ids::credential(),
        name: bearer.user().unwrap_or_default().to_owned(),
        bearer,
        created_at: now,
        expires_at: Some(now + SESSION),
        used_at: None,
    }
}

/// Gives a browser the session; `secure` where browsers come by TLS.
pub(super) fn set_cookie(
    response: &mut Response,
    value: &str,
    lasts: Span,
    secure: bool,
) -> Result<(), ApiError> {
    let seconds = lasts.as_micros() / 1_000_000;
    let secure = if secure { "; Secure" } else { "" };
    let cookie =
        format!("{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let cookie = HeaderValue::from_str(&cookie).map_err(|_| ApiError::internal())?;
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(())
}

/// Ends the session, or revokes the token, that the request shows.
#[utoipa::path(
    post, path = "/auth/logout", tag = "access",
    responses((status = 204, description = "It is worthless now, if there was one"))
)]
pub(crate) async fn logout(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    if let Some(shown) = &call.identity.credential
        && let Some(known) = app.store.credential(shown.digest.clone()).await?
        && known.credential.bearer.user().is_some()
    {
        super::credentials::change(&app, &call, AccountVerb::Revoke { id: known.credential.id }).await?;
    }
    let mut response = empty(StatusCode::NO_CONTENT);
    set_cookie(&mut response, "", Span::ZERO, app.tls.is_some())?;
    Ok(response)
}

/// Who the caller is, as the scheduler sees it.
#[utoipa::path(
    get, path = "/auth/whoami", tag = "access",
    responses((status = 200, description = "The caller", body = WhoAmI))
)]
pub(crate) async fn whoami(call: Call) -> Result<Response, ApiError> {
    let (kind, role, queues) = match &call.identity.principal {
        Principal::Local => ("local", None, None),
        Principal::Stranger(_) => ("nobody", None, None),
        Principal::User { role, queues, .. } => ("user", Some(role.name().to_owned()), queues.as_ref()),
        Principal::Worker { .. } => ("worker", None, None),
        Principal::Job(_) => ("job", None, None),
        Principal::Joiner => ("join", None, None),
        Principal::Keyless(_) => ("keyless_worker", None, None),
    };
    let actor = call.identity.actor();
    let queues = queues.map(|queues| queues.iter().map(ToString::to_string).collect());
    let method = call.identity.credential.as_ref().and_then(|shown| shown.method);
    let answer = WhoAmI {
        kind: kind.to_owned(),
        name: actor.name,
        role,
        queues,
        credential: actor.credential,
        login: method.map(|method| method.name().to_owned()),
    };
    json(StatusCode::OK, &answer)
}

/// Changes one's own password. Sessions end with it, also this one.
#[utoipa::path(
    post, path = "/auth/password", tag = "access", request_body = PasswordChange,
    responses(
        (status = 204, description = "Changed"),
        (status = 401, description = "The old password is wrong, or the caller is no user"),
        (status = 429, description = "Too many wrong passwords"),
    )
)]
pub(crate) async fn change_password(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let given: PasswordBody = lenient::decode(&bytes, call.reading())?;
    let Principal::User { name, .. } = &call.identity.principal else {
        return Err(ApiError::unauthorized("only a user has a password: log in first"));
    };
    prove(&app, &call, name, given.old.unwrap_or_default()).await?;
    let change = AccountChange {
        password: Some(hashed(given.new.unwrap_or_default(), "new").await?),
        ..AccountChange::default()
    };
    super::credentials::change(&app, &call, AccountVerb::Change { name: name.clone(), change }).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// What is kept of a password; it takes too long for the threads that serve.
pub(super) async fn hashed(password: String, field: &'static str) -> Result<muster_domain::Secret, ApiError> {
    let hashed = tokio::task::spawn_blocking(move || passwords::hash(&password, ids::salt())).await;
    hashed.map_err(|_| ApiError::internal())?.map_err(|message| ApiError::invalid_field(field, message))
}

/// The account that a caller speaks for.
pub(super) fn own_name(call: &Call) -> Option<&str> {
    match &call.identity.principal {
        Principal::User { name, .. } => Some(name),
        _ => None,
    }
}

/// A credential as it is shown, with what its holder shows.
pub(super) fn issued(token: String, credential: &Credential) -> Issued {
    Issued { token, credential: shown(credential) }
}
