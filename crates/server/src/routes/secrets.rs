//! Secrets: stored sealed, listed without their values, removed. And the public keys that they are sealed to.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::request::Parts;
use muster_domain::secrets::{MAX_BOXES, may_change};
use muster_domain::{QueueName, Rejection, SealedBox, SealedSecret, SealingKey};
use muster_protocol::{FleetKey, SecretRequest, SecretSummary};
use muster_store::{Command, Outcome, SecretCommand, SecretOutcome, StoreExt};

use crate::app::{App, Shared};
use crate::body::read_body;
use crate::clock::to_wire;
use crate::config::Limits;
use crate::error::ApiError;
use crate::extract::{Call, empty, json};
use crate::lenient::{self, lenient_object};
use crate::secret_uses::check_name;
use crate::submission::check_text;

/// The most keys that one worker announces.
const MAX_KEYS: usize = 64;
/// Hexadecimal digits of the id of a key.
const KEY_ID: usize = 16;
/// Bytes of a public key, and of what sealing adds to a value.
const KEY_BYTES: usize = 32;
const SEAL_BYTES: usize = 48;
/// The longest box: a value of 32 KiB, and what says which secret it is.
const BOX_BYTES: usize = 40 * 1024;

lenient_object! {
    struct BoxBody { key: String = "key", sealed: String = "sealed" }
}

lenient_object! {
    struct SecretBody {
        queue: String = "queue" | "queue_name",
        owner: String = "owner",
        version: u64 = "version",
        boxes: Vec<BoxBody> = "boxes",
    }
}

lenient_object! {
    /// A public key as a worker announces it.
    pub(super) struct KeyBody { id: String = "id", public_key: String = "public_key" }
}

/// The secret that the path names.
#[derive(Debug)]
pub(crate) struct SecretPath(String);

impl FromRequestParts<Shared> for SecretPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Result<Self, ApiError> {
        let params = RawPathParams::from_request_parts(parts, app).await.ok();
        let named = params.as_ref().and_then(|params| params.iter().next()).map(|(_, value)| value);
        Ok(Self(named.unwrap_or_default().to_owned()))
    }
}

impl SecretBody {
    fn check(self, name: String, app: &App) -> Result<SealedSecret, ApiError> {
        check_name(&name)?;
        let limits = &app.config.limits;
        let (queue, owner) = (filled("queue", self.queue, limits)?, filled("owner", self.owner, limits)?);
        if queue.is_some() == owner.is_some() {
            let message = "a secret has a queue or an owner: give one of them";
            return Err(ApiError::invalid_field("owner", message));
        }
        let boxes = self.boxes.unwrap_or_default();
        if boxes.is_empty() {
            return Err(ApiError::invalid_field("boxes", "a secret needs a box for at least one key"));
        }
        if boxes.len() > MAX_BOXES {
            return Err(ApiError::over_limit("boxes", MAX_BOXES, "entries"));
        }
        Ok(SealedSecret {
            name,
            queue: queue.map(QueueName::new),
            owner,
            version: self.version.unwrap_or(0),
            boxes: boxes.into_iter().map(BoxBody::check).collect::<Result<_, _>>()?,
            updated_at: app.config.clock.now(),
        })
    }
}

fn filled(field: &'static str, text: Option<String>, limits: &Limits) -> Result<Option<String>, ApiError> {
    let text = text.filter(|text| !text.is_empty());
    check_text(field, text.as_deref().unwrap_or_default(), limits.name)?;
    Ok(text)
}

impl BoxBody {
    /// What it holds cannot be looked at, but what is no box at all can be refused.
    fn check(self) -> Result<SealedBox, ApiError> {
        let key = check_key_id("boxes", self.key.unwrap_or_default())?;
        let sealed = self.sealed.unwrap_or_default();
        let length = STANDARD.decode(&sealed).map(|bytes| bytes.len()).unwrap_or_default();
        if length <= SEAL_BYTES || length > BOX_BYTES {
            let message = format!(
                "boxes: the box for the key {key} is no sealed box in base64 of {SEAL_BYTES} to {BOX_BYTES} bytes; values are \
                 sealed by `muster secret set`"
            );
            return Err(ApiError::invalid_field("boxes", message));
        }
        Ok(SealedBox { key, sealed })
    }
}

fn check_key_id(field: &'static str, id: String) -> Result<String, ApiError> {
    if id.len() == KEY_ID && id.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()) {
        return Ok(id);
    }
    let message = format!("{field}: the id of a key has {KEY_ID} hexadecimal digits");
    Err(ApiError::invalid_field(field, message))
}

/// The keys that a worker announces.
pub(super) fn check_keys(keys: Option<Vec<KeyBody>>) -> Result<Vec<SealingKey>, ApiError> {
    const FIELD: &str = "sealing_keys";
    let keys = keys.unwrap_or_default();
    if keys.len() > MAX_KEYS {
        return Err(ApiError::over_limit(FIELD, MAX_KEYS, "entries"));
    }
    let check = |key: KeyBody| {
        let id = check_key_id(FIELD, key.id.unwrap_or_default())?;
        let public_key = key.public_key.unwrap_or_default();
        if STANDARD.decode(&public_key).map(|bytes| bytes.len()) != Ok(KEY_BYTES) {
            let message = format!("{FIELD}: a public key has {KEY_BYTES} bytes in base64");
            return Err(ApiError::invalid_field(FIELD, message));
        }
        Ok(SealingKey { id, public_key })
    };
    keys.into_iter().map(check).collect()
}

/// Carries out a change of secrets or keys.
pub(super) async fn change(
    app: &App,
    call: &Call,
    command: SecretCommand,
) -> Result<SecretOutcome, ApiError> {
    match app.batcher.submit_one(call.audited(Command::Secrets(command))).await? {
        Outcome::Secrets(outcome) => Ok(outcome),
        _ => Err(ApiError::internal()),
    }
}

async fn find(app: &App, name: &str) -> Result<Option<SealedSecret>, ApiError> {
    Ok(app.store.secrets(Some(vec![name.to_owned()])).await?.pop())
}

fn not_found(name: String) -> ApiError {
    Rejection::SecretNotFound { name }.into()
}

/// Boxes are of no use to people, so that they are not shown.
fn summary(secret: SealedSecret) -> SecretSummary {
    SecretSummary {
        name: secret.name,
        queue: secret.queue.map(|queue| queue.as_str().to_owned()),
        owner: secret.owner,
        version: secret.version,
        keys: secret.boxes.into_iter().map(|sealed| sealed.key).collect(),
        updated_at: to_wire(secret.updated_at),
    }
}

/// Stores a value that the client has sealed: a new secret, or the next version of one.
#[utoipa::path(
    put, path = "/secrets/{name}", tag = "secrets", params(("name" = String, Path)), request_body = SecretRequest,
    responses(
        (status = 200, description = "The secret, without its value", body = SecretSummary),
        (status = 409, description = "The version does not follow the present one"),
    )
)]
pub(crate) async fn put_secret(
    State(app): State<Shared>,
    SecretPath(name): SecretPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.batch_body).await?;
    let secret = lenient::decode::<SecretBody>(&bytes, call.reading())?.check(name, &app)?;
    may_change(&call.identity.principal, &secret)?;
    if let Some(present) = find(&app, &secret.name).await? {
        may_change(&call.identity.principal, &present)?;
    }
    let SecretOutcome::Stored(secret) = change(&app, &call, SecretCommand::Put(secret)).await? else {
        return Err(ApiError::internal());
    };
    tracing::info!(secret = secret.name, version = secret.version, request_id = %call.request_id, "secret stored");
    json(StatusCode::OK, &summary(*secret))
}

/// All secrets by name. Neither values nor boxes are shown.
#[utoipa::path(
    get, path = "/secrets", tag = "secrets",
    responses((status = 200, description = "The secrets", body = Vec<SecretSummary>))
)]
pub(crate) async fn list_secrets(State(app): State<Shared>) -> Result<Response, ApiError> {
    let all = app.store.secrets(None).await?;
    json(StatusCode::OK, &all.into_iter().map(summary).collect::<Vec<_>>())
}

/// One secret, without its value.
#[utoipa::path(
    get, path = "/secrets/{name}", tag = "secrets", params(("name" = String, Path)),
    responses((status = 200, description = "The secret", body = SecretSummary))
)]
pub(crate) async fn get_secret(
    State(app): State<Shared>,
    SecretPath(name): SecretPath,
) -> Result<Response, ApiError> {
    let found = find(&app, &name).await?.ok_or_else(|| not_found(name))?;
    json(StatusCode::OK, &summary(found))
}

/// Removes a secret. Jobs that ask for it fail when they start.
#[utoipa::path(
    delete, path = "/secrets/{name}", tag = "secrets", params(("name" = String, Path)),
    responses((status = 204, description = "It is gone"))
)]
pub(crate) async fn delete_secret(
    State(app): State<Shared>,
    SecretPath(name): SecretPath,
    call: Call,
) -> Result<Response, ApiError> {
    let found = find(&app, &name).await?.ok_or_else(|| not_found(name.clone()))?;
    may_change(&call.identity.principal, &found)?;
    change(&app, &call, SecretCommand::Delete { name: name.clone() }).await?;
    tracing::info!(secret = name, request_id = %call.request_id, "secret removed");
    Ok(empty(StatusCode::NO_CONTENT))
}

/// The public keys that secrets are sealed to, with the workers that have the private ones.
#[utoipa::path(
    get, path = "/secrets/keys", tag = "secrets",
    responses((status = 200, description = "The keys", body = Vec<FleetKey>))
)]
pub(crate) async fn fleet_keys(State(app): State<Shared>) -> Result<Response, ApiError> {
    let mut keys: BTreeMap<SealingKey, Vec<String>> = BTreeMap::new();
    for known in app.store.sealing_keys(None).await? {
        for key in known.keys {
            keys.entry(key).or_default().push(known.worker.as_str().to_owned());
        }
    }
    let shown =
        keys.into_iter().map(|(key, workers)| FleetKey { id: key.id, public_key: key.public_key, workers });
    json(StatusCode::OK, &shown.collect::<Vec<_>>())
}
