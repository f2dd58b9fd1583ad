//! The outermost layer: the gate, the one question whether the caller may do what the route does, a fresh request id on
//! every response, errors in the form the client accepts, one line in the log and one count per request.

use std::sync::Arc;
use std::time::Instant;

use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use muster_domain::access::{Denied, Object, Principal, depends_on_owner, is_work, may};
use muster_domain::visibility::sees_all;
use muster_protocol::{HEADER_REQUEST_ID, Problem};
use uuid::Uuid;

use crate::app::Shared;
use crate::config::LegacyWorkers;
use crate::error::ApiError;
use crate::gate::{self, Admitted};
use crate::listener::Seat;
use crate::local_user::LocalUser;
use crate::ownership::{self, ASKED_BY_HANDLER};
use crate::routes::parameters;
use crate::routes::rows::{Rows, refused};
use crate::{identity, ids};

const REQUEST_ID: HeaderName = HeaderName::from_static(HEADER_REQUEST_ID);
const NO_ROUTE: &str = "none";

/// The id of the request being served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestId(pub(crate) Uuid);

impl std::fmt::Display for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// What the layer needs: the scheduler, and what each route does.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    app: Shared,
    rows: Arc<Rows>,
}

impl Edge {
    pub(crate) fn new(app: Shared, rows: Rows) -> Self {
        Self { app, rows: Arc::new(rows) }
    }
}

/// Wraps every request, also those that no route serves.
pub(crate) async fn wrap(State(edge): State<Edge>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = RequestId(ids::request());
    let wants_problem = accepts_json(request.headers());
    let line = tracing::enabled!(tracing::Level::DEBUG).then(|| Line::of(&request));
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    request.extensions_mut().insert(id);
    let mut response = behind_gate(&edge, request, next).await;
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        edge.app.metrics.bounds.refused(error.code);
        write_error(&mut response, &error, id, wants_problem);
    }
    let mut buffer = Uuid::encode_buffer();
    if let Ok(value) = HeaderValue::from_str(id.0.hyphenated().encode_lower(&mut buffer)) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    let took = started.elapsed();
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    edge.app.metrics.answered(method_label(&method), route, response.status().as_str(), took);
    if let Some(line) = line {
        line.write(id, response.status().as_u16(), took);
    } else if response.status().is_server_error() {
        tracing::warn!(request_id = %id, %method, route, status = response.status().as_u16(), "request not served");
    }
    response
}

/// Lets the request through to its route, or answers in its place.
async fn behind_gate(edge: &Edge, request: Request, next: Next) -> Response {
    let limit = edge.app.config.bounds.url_bytes;
    if request.uri().path_and_query().is_some_and(|target| target.as_str().len() > limit) {
        return ApiError::url_too_long(limit).into_response();
    }
    let origin = match edge.app.gate.admit(request.method(), request.uri(), request.headers()) {
        Ok(Admitted::Direct) => return checked(edge, request, next).await,
        Ok(Admitted::Page(origin)) => origin,
        Err(error) => return error.into_response(),
    };
    let mut response = if gate::is_preflight(request.method(), request.headers()) {
        let asked = request.headers().get("access-control-request-headers").cloned();
        let mut response = StatusCode::NO_CONTENT.into_response();
        gate::permit(response.headers_mut(), asked);
        response
    } else {
        checked(edge, request, next).await
    };
    gate::tell_browser(response.headers_mut(), origin);
    response
}

/// Refuses callers who may not do it, then parameters that the route does not have.
async fn checked(edge: &Edge, mut request: Request, next: Next) -> Response {
    match admit(edge, &mut request).await {
        Err(error) => error.into_response(),
        Ok(()) => next.run(request).await,
    }
}

/// Finds out who asks, and whether they may. Handlers are told who it is.
async fn admit(edge: &Edge, request: &mut Request) -> Result<(), ApiError> {
    // A request that came by no connection comes from this process.
    let connection = request.extensions().get::<Principal>().cloned();
    let local_user = match &connection {
        Some(_) => request.extensions().get::<LocalUser>().copied(),
        None => Some(LocalUser::of_process()),
    };
    let connection = connection.unwrap_or(Principal::Local);
    let (method, path, headers) = (request.method(), request.uri().path(), request.headers());
    let mut identity = identity::identify(&edge.app, connection, method, path, headers).await?;
    identity.local_user = local_user;
    let legacy = edge.app.config.access.legacy_workers;
    if let Principal::Stranger(unproven) = identity.principal
        && legacy == LegacyWorkers::Any
    {
        identity.principal = Principal::Keyless(unproven);
    }
    let seat = request.extensions().get::<Arc<Seat>>();
    if let Some(seat) = seat.filter(|_| identity.principal.is_known()) {
        seat.caller_is_known();
    }
    let needs_key = legacy == LegacyWorkers::None && seat.is_some() && identity.credential.is_none();
    let route = request.extensions().get::<MatchedPath>().cloned();
    if let Some(route) = route.as_ref().map(MatchedPath::as_str) {
        ask(edge, &identity.principal, needs_key, request, route).await?;
        parameters::check(request.method(), route, request.uri(), request.headers())?;
    }
    request.extensions_mut().insert(identity);
    Ok(())
}

async fn ask(
    edge: &Edge,
    principal: &Principal,
    needs_key: bool,
    request: &mut Request,
    route: &str,
) -> Result<(), ApiError> {
    let Some(action) = edge.rows.action(request.method(), route)? else { return Ok(()) };
    if needs_key && *principal == Principal::Local && is_work(action) {
        return Err(refused(Denied::NoKey { action }));
    }
    let depends = depends_on_owner(principal, action);
    if !depends {
        may(principal, action, &Object::UNKNOWN).map_err(refused)?;
        if sees_all(principal) || !ownership::may_be_hidden(route) {
            return Ok(());
        }
    }
    if ASKED_BY_HANDLER.contains(&route) {
        return Ok(());
    }
    let params = request.extract_parts::<RawPathParams>().await.ok();
    let named = params.as_ref().and_then(|params| params.iter().next()).map_or("", |(_, value)| value);
    let mut named = ownership::of_path(&edge.app, principal, route, named).await?;
    if depends {
        named.owners.look_for_key(&edge.app, principal).await?;
        return named.owners.ask(principal, action).map_err(refused);
    }
    named.hidden.map_or(Ok(()), Err)
}

/// Methods that clients invent must not become labels.
fn method_label(method: &http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// What the log says about a request, collected before it is consumed.
struct Line {
    method: http::Method,
    path: String,
    parent: Option<String>,
}

impl Line {
    fn of(request: &Request) -> Self {
        let parent = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok());
        Self {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            parent: parent.map(str::to_owned),
        }
    }

    fn write(self, id: RequestId, status: u16, took: std::time::Duration) {
        tracing::debug!(
            request_id = %id,
            parent_request_id = self.parent,
            method = %self.method,
            path = self.path,
            status,
            duration_ms = took.as_secs_f64() * 1e3,
            "request served"
        );
    }
}

/// Plain text is the default; a client that names JSON gets a problem object.
fn accepts_json(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut types = accepted.split(',').map(|part| part.split(';').next().unwrap_or_default().trim());
    types.any(|kind| matches!(kind, "application/json" | "application/problem+json"))
}

fn write_error(response: &mut Response, error: &ApiError, id: RequestId, as_problem: bool) {
    let problem = as_problem.then(|| problem(error, id)).flatten();
    let (kind, body) = match problem {
        Some(body) => ("application/problem+json", body),
        None => ("text/plain; charset=utf-8", format!("{}\n", error.message).into_bytes()),
    };
    *response.body_mut() = body.into();
    let headers = response.headers_mut();
    headers.remove(http::header::CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if error.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = error.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

fn problem(error: &ApiError, id: RequestId) -> Option<Vec<u8>> {
    let problem = Problem {
        code: error.code.to_owned(),
        title: error.status.canonical_reason().unwrap_or_default().to_owned(),
        status: error.status.as_u16(),
        detail: error.message.to_string(),
        field: error.field.as_ref().map(ToString::to_string),
        request_id: id.to_string(),
    };
    let mut body = serde_json::to_vec(&problem).ok()?;
    body.push(b'\n');
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_names_json_gets_problems() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, value.parse().unwrap());
            accepts_json(&headers)
        };
        assert!(accepts("application/json"));
        assert!(accepts("text/html, application/json;q=0.9"));
        assert!(!accepts("*/*"));
        assert!(!accepts("text/plain"));
    }
}
