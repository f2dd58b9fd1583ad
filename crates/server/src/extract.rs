//! What handlers take out of a request, and the two shapes of their answers.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use muster_domain::access::Principal;
use muster_domain::visibility::sees_all;
use muster_domain::{Actor, Caller, GangId, JobId, Lease, SetId, WorkerId};
use muster_protocol::HEADER_LENIENT;
use muster_store::{Attributed, Command};
use serde::Serialize;

use crate::app::Shared;
use crate::edge::RequestId;
use crate::error::ApiError;
use crate::identity::Identity;
use crate::ids;
use crate::lenient::Reading;
use crate::listener::PeerAddress;
use crate::params::{self, Params};

/// Everything about a request but its path and its body.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) params: Params,
    /// As it came.
    pub(crate) query: Option<String>,
    pub(crate) headers: HeaderMap,
    pub(crate) request_id: RequestId,
    pub(crate) is_head: bool,
    pub(crate) identity: Identity,
    /// The other end of the connection.
    pub(crate) peer: Option<SocketAddr>,
    /// The lease in the name that the path gives the job.
    path_lease: Option<Lease>,
}

impl Call {
    /// A request that says nothing.
    pub(crate) fn plain(request_id: RequestId) -> Self {
        Self {
            params: Params::parse(None),
            query: None,
            headers: HeaderMap::new(),
            request_id,
            is_head: false,
            identity: Identity::by_connection(Principal::Local),
            peer: None,
            path_lease: None,
        }
    }

    /// The path with the query as it came.
    pub(crate) fn target(&self, path: &str) -> String {
        self.query.as_ref().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
    }

    pub(crate) fn caller(&self) -> Result<Caller, ApiError> {
        let caller = params::caller(&self.params, &self.headers)?;
        Ok(Caller { lease: caller.lease.or(self.path_lease), ..caller })
    }

    /// A command whose events name the caller.
    pub(crate) fn attributed(&self, command: Command) -> Command {
        match self.identity.by() {
            Some(by) => command.caused_by(by),
            None => command,
        }
    }

    /// A command that leaves a line in the audit log as well.
    pub(crate) fn audited(&self, command: Command) -> Command {
        match self.identity.by() {
            Some(by) => Command::Attributed(Box::new(Attributed { by, actor: Some(self.actor()), command })),
            None => command,
        }
    }

    /// For a list of what the caller may see; `None` where that is everything.
    pub(crate) fn seen_by(&self) -> Option<Principal> {
        let principal = &self.identity.principal;
        (!sees_all(principal)).then(|| principal.clone())
    }

    /// The caller in the audit log.
    pub(crate) fn actor(&self) -> Actor {
        Actor {
            address: self.peer.map(|peer| peer.ip().to_canonical().to_string()),
            request: Some(self.request_id.to_string()),
            ..self.identity.actor()
        }
    }

    /// How unknown fields of the body are taken.
    pub(crate) fn reading(&self) -> Reading {
        reading(&self.headers)
    }

    pub(crate) fn worker(&self) -> Option<WorkerId> {
        params::worker(&self.params, &self.headers)
    }

    /// The text of a header that is there and not empty.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty())
    }
}

impl FromRequestParts<Shared> for Call {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Infallible> {
        let request_id = parts.extensions.get::<RequestId>().copied();
        let identity = parts.extensions.get::<Identity>().cloned();
        Ok(Self {
            params: Params::parse(parts.uri.query()),
            query: parts.uri.query().map(str::to_owned),
            headers: std::mem::take(&mut parts.headers),
            request_id: request_id.unwrap_or_else(|| RequestId(ids::request())),
            is_head: parts.method == http::Method::HEAD,
            identity: identity.unwrap_or_else(|| Identity::by_connection(Principal::Local)),
            peer: parts.extensions.get::<PeerAddress>().map(|peer| peer.0),
            path_lease: parts.uri.path().split('/').nth(2).and_then(|name| leased(name).1),
        })
    }
}

/// Clients that count on the old way say so.
pub(crate) fn reading(headers: &HeaderMap) -> Reading {
    let lenient = headers.get(HEADER_LENIENT).and_then(|value| value.to_str().ok());
    match lenient {
        Some("true" | "1") => Reading::Lenient,
        _ => Reading::Strict,
    }
}

async fn path_segment(parts: &mut Parts, app: &Shared) -> Option<String> {
    let params = RawPathParams::from_request_parts(parts, app).await.ok()?;
    params.iter().next().map(|(_, value)| value.to_owned())
}

/// The name under which a claim hands out a job that an earlier holder may still report on: reports of clients that
/// know no lease then carry one all the same.
pub(crate) fn leased_name(id: JobId, lease: Lease) -> String {
    format!("{id}~{lease}")
}

/// Takes the lease off the name of a job.
fn leased(name: &str) -> (&str, Option<Lease>) {
    let Some((id, lease)) = name.split_once('~') else { return (name, None) };
    lease.parse().map_or((name, None), |lease| (id, Some(Lease(lease))))
}

/// The job that a part of a path names, with or without a lease.
pub(crate) fn job_in_path(name: &str) -> Option<JobId> {
    leased(name).0.parse().ok()
}

/// The job that the path names, with or without a lease. A text that is no id names no job.
#[derive(Debug)]
pub(crate) struct JobPath(pub(crate) JobId);

impl FromRequestParts<Shared> for JobPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let segment = path_segment(parts, app).await;
        segment.and_then(|text| job_in_path(&text)).map(Self).ok_or_else(ApiError::job_not_found)
    }
}

/// The last part of the path: the name of a session.
#[derive(Debug)]
pub(crate) struct SessionPath(pub(crate) String);

impl FromRequestParts<Shared> for SessionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app).await.ok();
        let named = params.as_ref().and_then(|params| params.iter().nth(1));
        named.map(|(_, value)| Self(value.to_owned())).ok_or_else(ApiError::no_session)
    }
}

/// The pipeline or array that the path names.
#[derive(Debug)]
pub(crate) struct SetPath(pub(crate) SetId);

impl FromRequestParts<Shared> for SetPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let segment = path_segment(parts, app).await;
        segment.and_then(|text| text.parse().ok()).map(Self).ok_or_else(ApiError::set_not_found)
    }
}

/// The gang that the path names.
#[derive(Debug)]
pub(crate) struct GangPath(pub(crate) GangId);

impl FromRequestParts<Shared> for GangPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let segment = path_segment(parts, app).await;
        segment.and_then(|text| text.parse().ok()).map(Self).ok_or_else(ApiError::gang_not_found)
    }
}

/// The worker that the path names.
#[derive(Debug)]
pub(crate) struct WorkerPath(pub(crate) WorkerId);

impl FromRequestParts<Shared> for WorkerPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let limit = app.config.limits.name;
        let segment = path_segment(parts, app).await.filter(|text| text.len() <= limit);
        let usable = segment.filter(|text| !text.is_empty() && !text.contains('\0'));
        usable.map(|text| Self(WorkerId::new(text))).ok_or_else(ApiError::worker_not_found)
    }
}

/// A JSON answer, with the newline that the original sends.
pub(crate) fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response, ApiError> {
    let mut body = Vec::with_capacity(512);
    serde_json::to_writer(&mut body, value).map_err(|error| {
        tracing::error!(%error, "an answer could not be written");
        ApiError::internal()
    })?;
    body.push(b'\n');
    Ok(with_type("application/json", status, body.into()))
}

/// An answer of the given content type.
pub(crate) fn with_type(kind: &'static str, status: StatusCode, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    status.into_response()
}
