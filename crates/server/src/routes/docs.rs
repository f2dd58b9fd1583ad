//! The document of the API, for programs and for people.

use std::sync::OnceLock;

use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_SECURITY_POLICY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

use crate::error::ApiError;
use crate::extract::with_type;

use super::openapi;

/// The page loads nothing from elsewhere and is shown in no frame.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                           connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static DOCUMENT: OnceLock<String> = OnceLock::new();

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", tag = "system",
    responses((status = 200, description = "The OpenAPI document", body = utoipa::openapi::Object))
)]
pub(crate) async fn openapi_document() -> Result<Response, ApiError> {
    let text = if let Some(text) = DOCUMENT.get() {
        text
    } else {
        let made = openapi::document().map_err(|error| {
            tracing::error!(%error, "the OpenAPI document could not be written");
            ApiError::internal()
        })?;
        DOCUMENT.get_or_init(|| made)
    };
    Ok(with_type("application/json", StatusCode::OK, Body::from(text.as_str())))
}

/// A page that shows the document.
#[utoipa::path(
    get, path = "/docs", tag = "system",
    responses((status = 200, description = "A page", content_type = "text/html", body = String))
)]
pub(crate) async fn page() -> Response {
    let mut page =
        with_type("text/html; charset=utf-8", StatusCode::OK, Body::from(include_str!("docs.html")));
    let headers = page.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    page
}
