//! Errors: what keeps a scheduler from starting, and the one table that turns every refusal of a
//! request into a status, a stable code, the field at fault and the message of the original API.
//!
//! Guarantee: a handler returns an [`ApiError`] and nothing else; [`crate::edge`] writes it as plain
//! text or as problem+json, as the client asked.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use muster_domain::Rejection;
use muster_store::StoreError;
use muster_tls::TlsError;

/// What a caller may have meant by a word that is none of `known`.
pub(crate) fn hint(word: &str, known: &[&str]) -> String {
    match muster_document::closest(word, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("it may have {}", known.join(", ")),
    }
}

/// What keeps a scheduler from starting.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(
        "cannot listen on {address}: there is no account yet, so nobody there could prove who it is. Make the first one with \
         `muster-scheduler admin create NAME` and the same store, or add --insecure where everyone on the network is \
         trusted to run commands on the workers"
    )]
    Unprotected { address: SocketAddr },
    #[error("cannot use the data directory {}: {source}", path.display())]
    DataDir { path: PathBuf, source: std::io::Error },
    #[error("cannot use the archive directory {}: {source}", path.display())]
    ArchiveDir { path: PathBuf, source: std::io::Error },
    #[error("cannot use the blob store (--blob-store): {0}")]
    BlobStore(#[from] muster_blob::BlobError),
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("cannot read {}: {detail}", path.display())]
    ConfigFile { path: PathBuf, detail: String },
    #[error("cannot serve TLS: {0}")]
    Tls(#[from] TlsError),
    #[error("--ca-file: {0}")]
    CaFile(TlsError),
    /// A setting is wrong; `name` is how the operator wrote it.
    #[error("{name} is {value:?}: {problem}")]
    Setting { name: String, value: String, problem: String },
}

/// The answer to a request that is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    /// Stable word for programs.
    pub code: &'static str,
    pub field: Option<Cow<'static, str>>,
    pub message: Cow<'static, str>,
    /// Seconds after which a repeat makes sense.
    pub retry_after: Option<u32>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self { status, code, field: None, message: message.into(), retry_after: None }
    }

    /// An answer of the gate in front of the routes.
    pub(crate) fn refused(
        status: StatusCode,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(status, code, message)
    }

    /// Something that only another one may do.
    pub(crate) fn not_yours(field: &'static str, message: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, "not_own", message).at(field)
    }

    /// A key names what the caller may not see.
    pub(crate) fn key_taken() -> Self {
        let message = "the key of this submit names other work; use a key that nobody else can have";
        Self::new(StatusCode::CONFLICT, "key_taken", message)
    }

    pub(crate) fn credential_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "credential_not_found", "there is no such credential")
    }

    /// The settings name no provider.
    pub(crate) fn no_oidc() -> Self {
        let message = "there is no login through a provider here: log in with a user name and a password, or start the \
                       scheduler with --oidc-issuer";
        Self::new(StatusCode::NOT_FOUND, "oidc_not_configured", message)
    }

    pub(crate) fn too_many_guesses(wait: std::time::Duration) -> Self {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).max(1);
        let message = format!("too many wrong passwords; try again in {seconds} s");
        let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_guesses", message);
        Self { retry_after: Some(seconds), ..error }
    }

    pub fn bad_request(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    pub fn conflict(code: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    /// A key that nobody knows; `place` leads to the object that has it.
    pub(crate) fn unknown_field(place: &str, key: &str, known: &[&str]) -> Self {
        let message = match place {
            "" => format!("unknown field {key:?}; {}", hint(key, known)),
            place => format!("unknown field {key:?} in {place}; {}", hint(key, known)),
        };
        let field = if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") };
        Self::bad_request("unknown_field", message).at(field)
    }

    /// A value of another type than its field has.
    pub(crate) fn wrong_field(place: &str, message: impl fmt::Display) -> Self {
        Self::bad_request("invalid_body", format!("invalid request body: {message}")).at(place.to_owned())
    }

    pub fn invalid_body() -> Self {
        Self::bad_request("invalid_body", "invalid request body")
    }

    /// A value that is not allowed in the field.
    pub fn invalid_field(field: impl Into<Cow<'static, str>>, message: impl Into<Cow<'static, str>>) -> Self {
        Self::bad_request("invalid_field", message).at(field)
    }

    /// A field that holds more than `limit` of `unit`.
    pub fn over_limit(field: impl Into<Cow<'static, str>>, limit: usize, unit: &str) -> Self {
        let field = field.into();
        let message = format!("{field} exceeds the limit of {limit} {unit}");
        Self::bad_request("limit_exceeded", message).at(field)
    }

    pub fn too_large(limit: usize) -> Self {
        let message = format!("request body exceeds the limit of {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
    }

    pub fn slow_body() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", "the request body did not arrive in time")
    }

    pub fn unreadable_body() -> Self {
        Self::bad_request("unreadable_body", "read body: the connection broke off")
    }

    pub fn job_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "job_not_found", "job not found")
    }

    pub fn artifact_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "artifact_not_found", "the job has no artifact of this name")
    }

    /// It does not tell which.
    pub fn wrong_link() -> Self {
        let message = "the link is not valid, or has expired: ask for a new one";
        Self::new(StatusCode::FORBIDDEN, "wrong_link", message)
    }

    /// Its bytes are not in the blob store, although it is listed.
    pub fn artifact_gone() -> Self {
        Self::new(StatusCode::GONE, "artifact_gone", "the artifact is gone from the blob store")
    }

    pub fn artifact_too_large(limit: u64) -> Self {
        let message = format!("an artifact has at most {limit} bytes (--artifact-limit)");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "artifact_too_large", message)
    }

    /// The store's own words stay in the log: they may name hosts and files.
    pub fn blobs_unavailable(message: &'static str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "blobs_unavailable", message).retry_in(5)
    }

    pub fn worker_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "worker_not_found", "worker not found")
    }

    pub fn set_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "set_not_found", "no such pipeline or array")
    }

    pub fn webhook_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "webhook_not_found", "webhook not found")
    }

    /// Large checkpoints are files of the scheduler that took them in.
    pub fn checkpoint_elsewhere() -> Self {
        let message = "the checkpoint is a file that this scheduler does not have";
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "checkpoint_elsewhere", message);
        Self { retry_after: Some(5), ..error }
    }

    /// Output that another scheduler keeps, which does not answer.
    pub fn logs_elsewhere(message: String) -> Self {
        Self { retry_after: Some(5), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "logs_elsewhere", message) }
    }

    pub fn unauthorized(message: &'static str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub fn gang_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "gang_not_found", "gang not found")
    }

    pub fn page_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "404 page not found")
    }

    pub fn method_not_allowed() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "Method Not Allowed")
    }

    pub fn store_unavailable() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", "store unavailable").retry_in(1)
    }

    /// Names the place, so that somebody can make room there.
    pub fn store_full(place: Option<&str>) -> Self {
        let message = format!("no space is left {}", place.unwrap_or("for the store"));
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_full", message).retry_in(5)
    }

    pub fn storage_unavailable() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "storage_unavailable", "output cannot be kept now")
            .retry_in(1)
    }

    pub fn overloaded() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", "too many requests are waiting").retry_in(1)
    }

    /// Streams are bounded so that connections are left for workers and people.
    pub fn too_many_readers(what: &str, most: usize) -> Self {
        let message = format!("{most} readers of {what} are connected, which is the most: try again later");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_readers", message).retry_in(5)
    }

    pub(crate) fn too_many_terminals(most: usize) -> Self {
        let message =
            format!("{most} terminals are open, which is the most (--max-terminals): try again later");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_terminals", message).retry_in(5)
    }

    pub(crate) fn worker_did_not_come(
        worker: &muster_domain::WorkerId,
        patience: std::time::Duration,
    ) -> Self {
        let message = format!(
            "worker {worker} runs the job and did not answer within {} s: it may be out of reach, or too old for this",
            patience.as_secs()
        );
        Self::new(StatusCode::GATEWAY_TIMEOUT, "worker_silent", message)
    }

    pub(crate) fn no_session() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no_session", "there is no such session, or it was joined before")
    }

    pub(crate) fn closing() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "closing", "the scheduler is shutting down").retry_in(5)
    }

    pub fn too_many_long_polls(most: usize) -> Self {
        let message =
            format!("{most} requests wait for work, which is the most: ask again later, or without wait");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_long_polls", message).retry_in(5).at("wait")
    }

    /// Small bodies go on.
    pub fn too_many_bodies() -> Self {
        let message =
            "large bodies take all the memory that there is for them (--body-memory): try again later";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_bodies", message).retry_in(5)
    }

    pub fn url_too_long(limit: usize) -> Self {
        let message = format!("the path and the query of a request have at most {limit} bytes (--url-limit)");
        Self::new(StatusCode::URI_TOO_LONG, "url_too_long", message)
    }

    /// JSON or a pipeline whose values lie in each other.
    pub fn nested_too_deep(limit: usize) -> Self {
        let message = format!("invalid request body: values lie in each other more than {limit} deep");
        Self::bad_request("nested_too_deep", message)
    }

    pub fn shutting_down() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "the scheduler is shutting down")
            .retry_in(1)
    }

    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "internal error")
    }

    #[must_use]
    pub fn at(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    fn retry_in(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        let (status, code, field) = describe(&rejection);
        let error = Self::new(status, code, message);
        match field {
            Some(field) => error.at(field),
            None => error,
        }
    }
}

/// Status, code and field of every refusal by the rules.
fn describe(rejection: &Rejection) -> (StatusCode, &'static str, Option<&'static str>) {
    use StatusCode as S;
    match rejection {
        Rejection::JobNotFound { .. } => (S::NOT_FOUND, "job_not_found", None),
        Rejection::WorkerNotFound { .. } => (S::NOT_FOUND, "worker_not_found", None),
        Rejection::NotRunning { .. } | Rejection::NotEnterable { .. } => {
            (S::CONFLICT, "job_not_running", None)
        }
        Rejection::NoTerminal => (S::CONFLICT, "no_terminal", None),
        Rejection::StaleLease { .. } => (S::CONFLICT, "stale_lease", Some("lease")),
        Rejection::ContradictsReport { .. } => (S::CONFLICT, "contradicts_report", Some("lease")),
        Rejection::AnonymousAfterLoss { .. } => (S::CONFLICT, "anonymous_after_loss", Some("lease")),
        Rejection::NotHolder { .. } => (S::CONFLICT, "not_holder", Some("worker_id")),
        Rejection::NotStopping { .. } => (S::CONFLICT, "job_not_stopping", None),
        Rejection::EpochMismatch { .. } => (S::CONFLICT, "epoch_mismatch", Some("epoch")),
        Rejection::NotPending { .. } => (S::CONFLICT, "job_not_pending", None),
        Rejection::GangNotFound { .. } => (S::NOT_FOUND, "gang_not_found", None),
        Rejection::GangNotReady { .. } => (S::CONFLICT, "gang_not_ready", None),
        Rejection::StaleReservation { .. } => (S::CONFLICT, "stale_reservation", Some("reservation_epoch")),
        Rejection::GangTask => (S::CONFLICT, "gang_task", None),
        Rejection::AlreadyEnded { .. } => (S::CONFLICT, "job_ended", None),
        Rejection::NotBlocked { .. } => (S::CONFLICT, "job_not_blocked", None),
        Rejection::NotOverdue => (S::CONFLICT, "not_overdue", None),
        Rejection::QueueNotFound { .. } => (S::NOT_FOUND, "queue_not_found", None),
        Rejection::QueueHasQueues { .. } | Rejection::QueueHasJobs { .. } => {
            (S::CONFLICT, "queue_in_use", None)
        }
        Rejection::KeyOfAnother { .. } => (S::CONFLICT, "key_taken", Some("unique")),
        Rejection::KeyReused { .. } => (S::CONFLICT, "idempotency_key_reused", Some("idempotency_key")),
        Rejection::UnknownDependency { .. } => (S::BAD_REQUEST, "unknown_dependency", Some("depends_on")),
        Rejection::DependencyCycle { .. } => (S::BAD_REQUEST, "dependency_cycle", Some("depends_on")),
        Rejection::DuplicateReference { .. } => (S::BAD_REQUEST, "duplicate_reference", Some("ref")),
        Rejection::NotWaiting { .. } => (S::CONFLICT, "job_not_waiting", None),
        Rejection::NotEnded { .. } => (S::CONFLICT, "job_not_ended", None),
        Rejection::EndedByAncestor { .. } => (S::CONFLICT, "ended_by_ancestor", None),
        Rejection::SetNotFound { .. } => (S::NOT_FOUND, "set_not_found", None),
        Rejection::DuplicateStep { .. } => (S::CONFLICT, "duplicate_step", Some("steps")),
        Rejection::QueueFull { .. } => (S::TOO_MANY_REQUESTS, "queue_full", Some("queue_name")),
        Rejection::TooManyQueued { .. } => (S::TOO_MANY_REQUESTS, "too_many_queued", None),
        Rejection::UserFull { .. } => (S::TOO_MANY_REQUESTS, "user_full", Some("user")),
        Rejection::QueueCycle { .. } => (S::CONFLICT, "queue_cycle", Some("parent")),
        Rejection::QueueTooDeep { .. } => (S::CONFLICT, "queue_too_deep", Some("parent")),
        Rejection::WebhookNotFound { .. } => (S::NOT_FOUND, "webhook_not_found", None),
        Rejection::TooManyWebhooks { .. } => (S::CONFLICT, "too_many_webhooks", None),
        Rejection::SecretNotFound { .. } => (S::NOT_FOUND, "secret_not_found", None),
        Rejection::SecretVersion { .. } => (S::CONFLICT, "secret_version", Some("version")),
        Rejection::TooManyArtifacts { .. } => (S::CONFLICT, "too_many_artifacts", None),
        Rejection::ArtifactsFull { .. } => (S::INSUFFICIENT_STORAGE, "artifacts_full", None),
        Rejection::UploadNotFound { .. } => (S::NOT_FOUND, "upload_not_found", Some("upload")),
        Rejection::UploadIncomplete { .. } => (S::CONFLICT, "upload_incomplete", Some("upload")),
        Rejection::UploadsSwept => (S::SERVICE_UNAVAILABLE, "uploads_swept", None),
        Rejection::TooManySecrets { .. } => (S::CONFLICT, "too_many_secrets", None),
        Rejection::BatchRefused { cause } if matches!(**cause, Rejection::KeyReused { .. }) => {
            (S::CONFLICT, "idempotency_key_reused", Some("idempotency_key"))
        }
        Rejection::AccountExists { .. } => (S::CONFLICT, "user_exists", Some("name")),
        Rejection::AccountNotFound { .. } => (S::NOT_FOUND, "user_not_found", None),
        Rejection::AccountDisabled { .. } => (S::FORBIDDEN, "user_disabled", None),
        Rejection::AccountNotLinked { .. } => (S::CONFLICT, "user_not_linked", None),
        Rejection::SubjectTaken { .. } => (S::CONFLICT, "subject_taken", Some("oidc_subject")),
        Rejection::LastAdmin { .. } => (S::CONFLICT, "last_admin", None),
        Rejection::CredentialNotFound { .. } => (S::NOT_FOUND, "credential_not_found", None),
        Rejection::TooManyCredentials { .. } => (S::CONFLICT, "too_many_credentials", None),
        Rejection::CannotJoin { .. } => (S::FORBIDDEN, "cannot_join", None),
        Rejection::WorkerHasKey { .. } => (S::CONFLICT, "worker_has_key", Some("worker_id")),
        Rejection::LeadershipLost { .. } => (S::CONFLICT, "leadership_lost", None),
        Rejection::BatchRefused { .. } => (S::BAD_REQUEST, "batch_refused", None),
    }
}

impl From<StoreError> for ApiError {
    /// The store's own words stay in the log: they may name hosts and files. A full disk is named, since only people can make
    /// room.
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "store error");
        match error {
            StoreError::Corrupt { .. } | StoreError::SchemaTooNew { .. } => Self::internal(),
            StoreError::Full { place, .. } => Self::store_full(place.as_deref()),
            StoreError::Unavailable { .. }
            | StoreError::Conflict { .. }
            | StoreError::Failed { .. }
            | StoreError::Closed => Self::store_unavailable(),
        }
    }
}

impl IntoResponse for ApiError {
    /// The body is written at the edge, which knows what the client accepts.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{JobId, Lease, Status, WorkerId};

    use super::*;

    #[test]
    fn refusals_keep_the_messages_of_the_original() {
        let check = |rejection: Rejection, status: u16, message: &str| {
            let error = ApiError::from(rejection);
            assert_eq!((error.status.as_u16(), error.message.as_ref()), (status, message));
        };
        let id = JobId::from_random([1; 16]);
        check(Rejection::JobNotFound { id }, 404, "job not found");
        check(Rejection::WorkerNotFound { id: WorkerId::new("w") }, 404, "worker not found");
        check(Rejection::NotRunning { status: Status::Done }, 409, "job is not running");
        check(
            Rejection::UnknownDependency { name: "job-x".into() },
            400,
            "dependency \"job-x\" does not exist",
        );
        let path = ["A", "B", "A"].map(str::to_owned).to_vec();
        check(Rejection::DependencyCycle { path }, 400, "cycle detected: A->B->A");
    }

    #[test]
    fn codes_and_fields_are_stable() {
        let error = ApiError::from(Rejection::StaleLease { given: Lease(1), current: Lease(2) });
        assert_eq!((error.code, error.field.as_deref()), ("stale_lease", Some("lease")));
        let error = ApiError::over_limit("command", 10, "bytes");
        assert_eq!(error.message, "command exceeds the limit of 10 bytes");
        assert_eq!(ApiError::too_large(7).message, "request body exceeds the limit of 7 bytes");
    }
}
