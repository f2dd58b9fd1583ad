//! Routes with what they do: the one way to add a handler is to say which [`Action`] it stands for.
//!
//! Guarantees: every handler has a row; a path without a row, should there be one, is answered by nobody. Finding a row is one
//! lookup by the path that the router has matched.

use std::collections::HashMap;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use http::{Method, StatusCode};
use muster_domain::access::{Action, Denied, Unproven};

use crate::app::Shared;
use crate::error::ApiError;

/// The methods that handlers may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

const VERBS: usize = 5;

impl Verb {
    const ALL: [Self; VERBS] = [Self::Get, Self::Post, Self::Put, Self::Patch, Self::Delete];

    fn of(method: &Method) -> Option<Self> {
        // The router answers HEAD by the handler of GET.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        Self::ALL.into_iter().find(|verb| verb.method() == method)
    }

    const fn method(self) -> &'static Method {
        match self {
            Self::Get => &Method::GET,
            Self::Post => &Method::POST,
            Self::Put => &Method::PUT,
            Self::Patch => &Method::PATCH,
            Self::Delete => &Method::DELETE,
        }
    }

    const fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// The action of each path and method.
#[derive(Debug, Default)]
pub(crate) struct Rows(HashMap<&'static str, [Option<Action>; VERBS]>);

/// Routes under construction.
#[derive(Debug, Default)]
pub(super) struct Routes {
    router: Router<Shared>,
    rows: Rows,
}

impl Routes {
    pub(super) fn get<H: Handler<T, Shared>, T: 'static>(
        self,
        path: &'static str,
        action: Action,
        handler: H,
    ) -> Self {
        self.on(Verb::Get, path, action, handler)
    }

    pub(super) fn post<H: Handler<T, Shared>, T: 'static>(
        self,
        path: &'static str,
        action: Action,
        handler: H,
    ) -> Self {
        self.on(Verb::Post, path, action, handler)
    }

    pub(super) fn on<H: Handler<T, Shared>, T: 'static>(
        mut self,
        verb: Verb,
        path: &'static str,
        action: Action,
        handler: H,
    ) -> Self {
        self.rows.0.entry(path).or_default()[verb as usize] = Some(action);
        Self { router: self.router.route(path, on(verb.filter(), handler)), rows: self.rows }
    }

    pub(super) fn into_parts(self) -> (Router<Shared>, Rows) {
        (self.router, self.rows)
    }
}

impl Rows {
    /// What a request asks for. `None` for what the router does not serve: it has no handler that could do anything.
    pub(crate) fn action(&self, method: &Method, route: &str) -> Result<Option<Action>, ApiError> {
        let Some(actions) = self.0.get(route) else {
            tracing::error!(route, "a route has no row in the table of rights");
            return Err(ApiError::internal());
        };
        Ok(Verb::of(method).and_then(|verb| actions[verb as usize]))
    }
}

pub(crate) fn refused(denied: Denied) -> ApiError {
    let (status, code) = match denied {
        Denied::Stranger(Unproven::NoCredential) => (StatusCode::UNAUTHORIZED, "no_credential"),
        Denied::Stranger(Unproven::OtherUser { .. }) => (StatusCode::FORBIDDEN, "other_user"),
        Denied::Stranger(Unproven::OwnerUnknown { .. }) => (StatusCode::FORBIDDEN, "unknown_user"),
        Denied::Never { .. } => (StatusCode::FORBIDDEN, "not_allowed"),
        Denied::NoKey { .. } => (StatusCode::FORBIDDEN, "keyless_worker"),
        Denied::NotOwn { .. } => (StatusCode::FORBIDDEN, "not_own"),
    };
    ApiError::refused(status, code, denied.to_string())
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
