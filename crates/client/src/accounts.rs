//! Calls on users, tokens, keys of workers and the audit log.

use std::fmt::Write as _;

use http::Method;
use muster_protocol::{
    AuditEntry, Credential, Issued, JoinRequest, JoinTokenRequest, LoginRequest, PasswordChange,
    TokenRequest, User, UserRequest, UserUpdate, WhoAmI,
};

use crate::base_url::encode;
use crate::call::{Call, Client};
use crate::error::ClientError;

impl Client {
    /// A session for a user and a password.
    pub async fn login(&self, user: &str, password: &str) -> Result<Issued, ClientError> {
        let request = LoginRequest { user: user.to_owned(), password: password.to_owned() };
        self.exchange(Call::new(Method::POST, "/auth/login").json(&request)?).await
    }

    /// Ends the session, or revokes the token, that this client shows.
    pub async fn logout(&self) -> Result<(), ClientError> {
        self.accepted(Call::new(Method::POST, "/auth/logout")).await
    }

    pub async fn whoami(&self) -> Result<WhoAmI, ClientError> {
        self.exchange(Call::new(Method::GET, "/auth/whoami")).await
    }

    pub async fn change_password(&self, old: &str, new: &str) -> Result<(), ClientError> {
        let request = PasswordChange { old: old.to_owned(), new: new.to_owned() };
        self.accepted(Call::new(Method::POST, "/auth/password").json(&request)?).await
    }

    pub async fn users(&self) -> Result<Vec<User>, ClientError> {
        self.exchange(Call::new(Method::GET, "/users")).await
    }

    pub async fn create_user(&self, request: &UserRequest) -> Result<User, ClientError> {
        self.exchange(Call::new(Method::POST, "/users").json(request)?).await
    }

    pub async fn change_user(&self, name: &str, update: &UserUpdate) -> Result<User, ClientError> {
        self.exchange(Call::new(Method::PATCH, format!("/users/{}", encode(name))).json(update)?).await
    }

    /// Removes a user with its tokens and sessions.
    pub async fn delete_user(&self, name: &str) -> Result<(), ClientError> {
        self.accepted(Call::new(Method::DELETE, format!("/users/{}", encode(name)))).await
    }

    /// Tokens and sessions: one's own, or those of all users for an admin.
    pub async fn tokens(&self) -> Result<Vec<Credential>, ClientError> {
        self.exchange(Call::new(Method::GET, "/tokens")).await
    }

    /// Makes a token; no other answer shows it.
    pub async fn create_token(&self, request: &TokenRequest) -> Result<Issued, ClientError> {
        self.exchange(Call::new(Method::POST, "/tokens").json(request)?).await
    }

    pub async fn revoke_token(&self, id: &str) -> Result<(), ClientError> {
        self.accepted(Call::new(Method::DELETE, format!("/tokens/{}", encode(id)))).await
    }

    /// Join tokens, and the keys of workers that have joined.
    pub async fn worker_keys(&self) -> Result<Vec<Credential>, ClientError> {
        self.exchange(Call::new(Method::GET, "/worker-keys")).await
    }

    /// Makes a join token; no other answer shows it.
    pub async fn create_join_token(&self, request: &JoinTokenRequest) -> Result<Issued, ClientError> {
        self.exchange(Call::new(Method::POST, "/join-tokens").json(request)?).await
    }

    /// Revokes a join token or the key of a worker.
    pub async fn revoke_worker_key(&self, id: &str) -> Result<(), ClientError> {
        self.accepted(Call::new(Method::DELETE, format!("/worker-keys/{}", encode(id)))).await
    }

    /// Exchanges the join token that this client shows for the key of a worker.
    pub async fn join(&self, worker_id: &str) -> Result<Issued, ClientError> {
        let request = JoinRequest { worker_id: worker_id.to_owned() };
        self.exchange(Call::new(Method::POST, "/workers/join").json(&request)?).await
    }

    /// Lines of the audit log, newest first; `before` is the id of the last one of the page before.
    pub async fn audit(
        &self,
        since: Option<jiff::Timestamp>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, ClientError> {
        let mut path = format!("/audit?limit={limit}");
        if let Some(since) = since {
            // Writing to a string cannot fail.
            let _ = write!(path, "&since={}", encode(&since.to_string()));
        }
        if let Some(before) = before {
            // Writing to a string cannot fail.
            let _ = write!(path, "&before={before}");
        }
        self.exchange(Call::new(Method::GET, path)).await
    }
}
