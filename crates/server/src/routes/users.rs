//! Users: made, changed and removed by admins.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use muster_domain::access::UserRole;
use muster_domain::account::{MAX_NAME, is_name, is_user_name};
use muster_domain::{Account, AccountChange, OidcSubject, QueueName};
use muster_protocol::{User, UserRequest, UserUpdate};
use muster_store::{AccountOutcome, AccountVerb, StoreExt as _};

use super::auth::hashed;
use super::credentials::change;
use crate::app::{App, Shared};
use crate::body::read_body;
use crate::clock::to_wire;
use crate::error::{ApiError, hint};
use crate::extract::{Call, empty, json};
use crate::lenient::{self, lenient_object};
use crate::oidc::MAX_SUBJECT;

lenient_object! {
    /// A user as an admin describes it.
    struct UserBody {
        name: String = "name",
        role: String = "role",
        password: String = "password",
        queues: Vec<String> = "queues",
    }
}

lenient_object! {
    /// What changes of a user.
    struct UpdateBody {
        role: String = "role",
        password: String = "password",
        queues: Vec<String> = "queues",
        all_queues: bool = "all_queues",
        disabled: bool = "disabled",
        oidc_subject: String = "oidc_subject",
    }
}

/// The role of this name.
pub(super) fn role(text: &str) -> Result<UserRole, ApiError> {
    let found = UserRole::ALL.into_iter().find(|role| role.name() == text);
    let names = UserRole::ALL.map(UserRole::name);
    found.ok_or_else(|| {
        ApiError::invalid_field("role", format!("there is no role {text:?}; {}", hint(text, &names)))
    })
}

pub(super) fn queue_names(names: Vec<String>, limit: usize) -> Result<Vec<QueueName>, ApiError> {
    if names.len() > limit {
        return Err(ApiError::over_limit("queues", limit, "entries"));
    }
    let wrong = |name: &String| name.is_empty() || name.len() > limit || name.contains('\0');
    if names.iter().any(wrong) {
        return Err(ApiError::invalid_field("queues", "the name of a queue is empty or too long"));
    }
    Ok(names.into_iter().map(QueueName::new).collect())
}

/// A name that can be one.
pub(super) fn name(field: &'static str, text: Option<String>) -> Result<String, ApiError> {
    let text = text.unwrap_or_default();
    if is_name(&text) {
        return Ok(text);
    }
    let message = format!("{field}: write 1 to {MAX_NAME} letters, digits or any of . - _ @");
    Err(ApiError::invalid_field(field, message))
}

/// A name that no events use for somebody else.
fn user_name(text: Option<String>) -> Result<String, ApiError> {
    let text = name("name", text)?;
    if is_user_name(&text) {
        return Ok(text);
    }
    let message = format!("name: {text} stands for somebody else in events; choose another name");
    Err(ApiError::invalid_field("name", message))
}

fn view(account: &Account) -> User {
    User {
        name: account.name.clone(),
        role: account.role.name().to_owned(),
        queues: account.queues.as_ref().map(|queues| queues.iter().map(ToString::to_string).collect()),
        has_password: account.password.is_some(),
        oidc_subject: account.oidc.as_ref().map(|oidc| oidc.subject.clone()),
        disabled: account.disabled,
        created_at: to_wire(account.created_at),
    }
}

fn changed(outcome: AccountOutcome, status: StatusCode) -> Result<Response, ApiError> {
    match outcome {
        AccountOutcome::Account(account) => json(status, &view(&account)),
        _ => Err(ApiError::internal()),
    }
}

/// All users, by name.
#[utoipa::path(
    get, path = "/users", tag = "access",
    responses((status = 200, description = "The users", body = [User]))
)]
pub(crate) async fn list_users(State(app): State<Shared>) -> Result<Response, ApiError> {
    let users: Vec<User> = app.store.accounts().await?.iter().map(view).collect();
    json(StatusCode::OK, &users)
}

/// Makes a user.
#[utoipa::path(
    post, path = "/users", tag = "access", request_body = UserRequest,
    responses(
        (status = 201, description = "The user", body = User),
        (status = 409, description = "There is one of this name"),
    )
)]
pub(crate) async fn create_user(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let given: UserBody = lenient::decode(&bytes, call.reading())?;
    let queues = given.queues.map(|names| queue_names(names, app.config.limits.name)).transpose()?;
    let account = Account {
        name: user_name(given.name)?,
        role: given.role.as_deref().map_or(Ok(UserRole::User), role)?,
        queues,
        password: match given.password {
            Some(password) => Some(hashed(password, "password").await?),
            None => None,
        },
        oidc: None,
        disabled: false,
        created_at: app.config.clock.now(),
    };
    changed(change(&app, &call, AccountVerb::Create(account)).await?, StatusCode::CREATED)
}

/// Who a user is at the provider of the settings; nobody where the text is empty.
fn linked(app: &App, subject: String) -> Result<Option<OidcSubject>, ApiError> {
    if subject.is_empty() {
        return Ok(None);
    }
    if subject.len() > MAX_SUBJECT || subject.contains(char::is_control) {
        let message = format!(
            "oidc_subject: write the subject (sub) of the user at the provider, of 1 to {MAX_SUBJECT} bytes"
        );
        return Err(ApiError::invalid_field("oidc_subject", message));
    }
    let provider = app.oidc.as_ref().ok_or_else(ApiError::no_oidc)?;
    Ok(Some(OidcSubject { issuer: provider.issuer().to_owned(), subject }))
}

/// Changes a user. A new password ends its sessions.
#[utoipa::path(
    patch, path = "/users/{name}", tag = "access", request_body = UserUpdate,
    params(("name" = String, Path, description = "The user")),
    responses(
        (status = 200, description = "The user", body = User),
        (status = 409, description = "It is the last admin, or another user has this subject"),
    )
)]
pub(crate) async fn change_user(
    State(app): State<Shared>,
    Path(user): Path<String>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let given: UpdateBody = lenient::decode(&bytes, call.reading())?;
    let queues = given.queues.map(|names| queue_names(names, app.config.limits.name)).transpose()?;
    let all = given.all_queues == Some(true);
    let update = AccountChange {
        role: given.role.as_deref().map(role).transpose()?,
        queues: if all { Some(None) } else { queues.map(Some) },
        password: match given.password {
            Some(password) => Some(hashed(password, "password").await?),
            None => None,
        },
        disabled: given.disabled,
        oidc: given.oidc_subject.map(|subject| linked(&app, subject)).transpose()?,
    };
    changed(change(&app, &call, AccountVerb::Change { name: user, change: update }).await?, StatusCode::OK)
}

/// Removes a user with its tokens and sessions. Its jobs stay.
#[utoipa::path(
    delete, path = "/users/{name}", tag = "access",
    params(("name" = String, Path, description = "The user")),
    responses((status = 204, description = "Removed"))
)]
pub(crate) async fn delete_user(
    State(app): State<Shared>,
    Path(user): Path<String>,
    call: Call,
) -> Result<Response, ApiError> {
    change(&app, &call, AccountVerb::Remove { name: user }).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}
