//! Routes with what they do: the one way to add a handler is to say which [`Action`] it stands for.
//!
//! Guarantees: every handler has a row; a path without a row, should there be one, is answered by nobody. Finding a row is one
//! lookup by the path that the router has matched.

use std::collections::HashMap;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use http::{Method, StatusCode};
use muster_domain::access::{Action, Denied, Object, Principal, Unproven, may};

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
    /// Whether `principal` may send this request. What the router does not serve is left to it: it has no handler that
    /// could do anything.
    pub(crate) fn ask(
        &self,
        principal: &Principal,
        method: &Method,
        route: Option<&str>,
    ) -> Result<(), ApiError> {
        let Some(route) = route else { return Ok(()) };
        let Some(actions) = self.0.get(route) else {
            tracing::error!(route, "a route has no row in the table of rights");
            return Err(ApiError::internal());
        };
        let Some(action) = Verb::of(method).and_then(|verb| actions[verb as usize]) else { return Ok(()) };
        // The path alone does not tell whose the object is; those who may touch only their own are refused.
        may(principal, action, &Object::UNKNOWN).map_err(refused)
    }
}

fn refused(denied: Denied) -> ApiError {
    let code = match denied {
        Denied::Stranger(Unproven::OtherUser { .. }) => "other_user",
        Denied::Stranger(Unproven::OwnerUnknown { .. }) => "unknown_user",
        Denied::Never { .. } => "not_allowed",
        Denied::NotOwn { .. } => "not_own",
    };
    ApiError::refused(StatusCode::FORBIDDEN, code, denied.to_string())
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
