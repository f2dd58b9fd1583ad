//! Logging in through an OIDC provider: with a browser, and with a terminal that has none.
//!
//! Guarantees: without a provider in the settings every route here says so and asks nobody; a browser gets the same session as
//! after a login with a password; each refusal of a person leaves a line in the audit log.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::header::{HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use muster_domain::{Actor, Bearer, LoginMethod, Secret, Span};
use muster_protocol::{AuthMethods, DeviceLogin, DeviceProgress, DeviceQuestion, Issued, OidcMethod};
use muster_store::{AccountOutcome, AccountVerb};

use super::auth::{self, SESSION, issued};
use super::credentials::{change, change_by};
use crate::app::{App, Shared};
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, json, with_type};
use crate::lenient::{self, lenient_object};
use crate::oidc::{
    self, Begun, CALLBACK, Carried as _, Device, LASTS, OidcError, Person, Progress, Provider,
};
use crate::{bearer, ids};

/// Where a browser begins.
const LOGIN: &str = "/auth/oidc/login";
/// Where it goes when nobody says: the page that shows the API.
const HOME: &str = "/docs";
const PAGE_POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

lenient_object! {
    struct DeviceBody { handle: String = "handle" }
}

fn provider(app: &App) -> Result<&Provider, ApiError> {
    app.oidc.as_deref().ok_or_else(ApiError::no_oidc)
}

/// How one may log in here.
#[utoipa::path(
    get, path = "/auth/methods", tag = "access",
    responses((status = 200, description = "The ways in", body = AuthMethods))
)]
pub(crate) async fn methods(State(app): State<Shared>) -> Result<Response, ApiError> {
    let oidc = app.oidc.as_ref().map(|provider| OidcMethod {
        issuer: provider.issuer().to_owned(),
        login_url: format!("{}{LOGIN}", provider.public_url()),
    });
    json(StatusCode::OK, &AuthMethods { password: true, oidc })
}

/// Sends a browser to the provider.
#[utoipa::path(
    get, path = "/auth/oidc/login", tag = "access",
    params(("to" = Option<String>, Query, description = "The path to go to afterwards; /docs when absent")),
    responses(
        (status = 302, description = "To the provider"),
        (status = 404, description = "There is no login through a provider here"),
        (status = 502, description = "The provider answers what cannot be used"),
    )
)]
pub(crate) async fn login(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let provider = provider(&app)?;
    let usual = || format!("{}{HOME}", provider.prefix());
    let to = call.params.filled("to").map_or_else(usual, str::to_owned);
    if !oidc::local_path(&to) {
        let message = "to: write a path of this scheduler, such as /docs; other addresses are not led to";
        return Err(ApiError::bad_request("invalid_parameter", message).at("to"));
    }
    let begun = Begun::new([ids::key(), ids::key(), ids::key()], to, app.config.clock.now());
    let sealed = begun.seal(secret(&app).await?).ok_or_else(ApiError::internal)?;
    let place = provider.login_url(&begun).await?;
    let mut response = StatusCode::FOUND.into_response();
    let headers = response.headers_mut();
    headers.insert(LOCATION, value(&place)?);
    headers.insert(SET_COOKIE, value(&under_way(&app, provider, &sealed, LASTS))?);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Takes a browser back from the provider, and lets it in.
#[utoipa::path(
    get, path = "/auth/oidc/callback", tag = "access",
    params(
        ("code" = Option<String>, Query, description = "What the provider gives a session for"),
        ("state" = Option<String>, Query, description = "Which login it belongs to"),
        ("error" = Option<String>, Query, description = "Why the provider gives none"),
        ("error_description" = Option<String>, Query, description = "The same for people"),
        ("iss" = Option<String>, Query, description = "Which provider it is"),
    ),
    responses(
        (status = 200, description = "A page that leads on; the session is a cookie", content_type = "text/html", body = String),
        (status = 404, description = "There is no login through a provider here"),
        (status = 409, description = "There is another user of this name, or the last admin would be none any more"),
        (status = 502, description = "The provider answers what cannot be used"),
    )
)]
pub(crate) async fn callback(State(app): State<Shared>, call: Call) -> Result<Response, ApiError> {
    let provider = provider(&app)?;
    let begun = returned(&app, provider, &call).await?;
    let code = code(&call, provider)?;
    let person = async {
        let tokens = provider.exchange(code, &begun).await?;
        provider.person(&tokens, Some(&begun.nonce), app.config.clock.now()).await
    };
    let issued = let_in(&app, &call, person.await).await?;
    let mut response = leads_to(&begun.to);
    auth::set_cookie(&mut response, &issued.token, SESSION, is_secure(&app, provider))?;
    let over = under_way(&app, provider, "", Span::ZERO);
    response.headers_mut().append(SET_COOKIE, value(&over)?);
    Ok(response)
}

/// The login that this browser has begun, if it is the one that the provider answers.
async fn returned(app: &App, provider: &Provider, call: &Call) -> Result<Begun, ApiError> {
    let again = |what: &str| {
        let place = format!("{}{LOGIN}", provider.public_url());
        OidcError::NotBegun(format!("{what}; begin again at {place}"))
    };
    let carried = oidc::carried(&call.headers);
    let carried = carried.ok_or_else(|| again("this browser has begun no login here, or too long ago"))?;
    let begun = Begun::open(secret(app).await?, carried, app.config.clock.now());
    let begun = begun.ok_or_else(|| again("the login took too long, or its cookie is not ours"))?;
    if call.params.get("state") != Some(&begun.state) {
        return Err(again("the answer belongs to another login").into());
    }
    Ok(begun)
}

fn code<'a>(call: &'a Call, provider: &Provider) -> Result<&'a str, OidcError> {
    let params = &call.params;
    if params.filled("iss").is_some_and(|issuer| issuer != provider.issuer()) {
        return Err(OidcError::Refused { said: "the answer comes from another provider".to_owned() });
    }
    match (params.filled("error"), params.filled("code")) {
        (Some("access_denied"), _) => Err(OidcError::Denied),
        (Some(error), _) => {
            let more = params.filled("error_description").unwrap_or_default();
            Err(OidcError::Refused { said: oidc::repeated(&format!("{error} {more}")) })
        }
        (None, Some(code)) => Ok(code),
        (None, None) => Err(OidcError::Refused { said: "it gave no code".to_owned() }),
    }
}

/// Begins a login for a terminal.
#[utoipa::path(
    post, path = "/auth/oidc/device", tag = "access",
    responses(
        (status = 200, description = "What to show", body = DeviceLogin),
        (status = 404, description = "There is no login through a provider here"),
        (status = 409, description = "The provider has no device login"),
        (status = 502, description = "The provider answers what cannot be used"),
    )
)]
pub(crate) async fn device(State(app): State<Shared>) -> Result<Response, ApiError> {
    let provider = provider(&app)?;
    let secret = secret(&app).await?;
    let begun = provider.begin_device().await?;
    let until = app.config.clock.now() + Span::from_secs(begun.expires_in);
    let handle = Device { code: begun.code, until }.seal(secret).ok_or_else(ApiError::internal)?;
    let answer = DeviceLogin {
        user_code: begun.user_code,
        verification_uri: begun.verification_uri,
        verification_uri_complete: begun.verification_uri_complete,
        expires_in: begun.expires_in,
        interval: begun.interval,
        handle,
    };
    json(StatusCode::OK, &answer)
}

/// Tells whether a login of a terminal is done, and then gives it its session.
#[utoipa::path(
    post, path = "/auth/oidc/device/token", tag = "access", request_body = DeviceQuestion,
    responses(
        (status = 200, description = "The session, or that it is not done yet", body = DeviceProgress),
        (status = 404, description = "There is no login through a provider here"),
        (status = 409, description = "There is another user of this name, or the last admin would be none any more"),
        (status = 410, description = "The code has expired, or was never given"),
        (status = 502, description = "The provider answers what cannot be used"),
    )
)]
pub(crate) async fn device_token(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let provider = provider(&app)?;
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let given: DeviceBody = lenient::decode(&bytes, call.reading())?;
    let now = app.config.clock.now();
    let device = Device::open(secret(&app).await?, &given.handle.unwrap_or_default(), now);
    let tokens = match provider.poll_device(&device.ok_or(OidcError::Expired)?.code).await? {
        Progress::Done(tokens) => tokens,
        Progress::Pending => return json(StatusCode::OK, &DeviceProgress::default()),
        Progress::SlowDown => {
            return json(StatusCode::OK, &DeviceProgress { slow_down: true, ..DeviceProgress::default() });
        }
    };
    let session = let_in(&app, &call, provider.person(&tokens, None, now).await).await?;
    json(StatusCode::OK, &DeviceProgress { session: Some(session), slow_down: false })
}

/// Lets a person in for whom the provider has vouched; who stays out leaves a line.
async fn let_in(app: &App, call: &Call, judged: Result<Person, OidcError>) -> Result<Issued, ApiError> {
    let (shown, sign_in) = match judged {
        Ok(person) => (Some(person.shown), person.sign_in),
        Err(error) => (None, Err(error)),
    };
    let entered = match sign_in {
        Ok(sign_in) => enter(app, call, sign_in).await,
        Err(error) if error.is_refusal() => Err(error.into()),
        Err(error) => return Err(error.into()),
    };
    if let Err(error) = &entered
        && !is_of_the_store(error)
    {
        let action = "login.refused".to_owned();
        change(app, call, AccountVerb::Note { action, object: shown }).await?;
    }
    entered
}

/// The store is out of reach or full: nothing is said about the person, and no line can be written.
fn is_of_the_store(error: &ApiError) -> bool {
    matches!(error.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::INTERNAL_SERVER_ERROR)
}

async fn enter(app: &App, call: &Call, sign_in: muster_domain::sign_in::SignIn) -> Result<Issued, ApiError> {
    let bearer = Bearer::Session { user: sign_in.name.clone(), method: LoginMethod::Oidc };
    let fresh = bearer::make(&bearer, ids::key());
    let credential = auth::session(app, bearer);
    // The provider has vouched for the name.
    let by = Actor { name: sign_in.name.clone(), ..call.actor() };
    let verb = AccountVerb::SignIn { sign_in, digest: fresh.digest, credential };
    match change_by(app, by, verb).await? {
        AccountOutcome::SignedIn { credential, .. } => Ok(issued(fresh.shown, &credential)),
        _ => Err(ApiError::internal()),
    }
}

async fn secret(app: &App) -> Result<&Secret, ApiError> {
    app.tokens.secret(app).await
}

fn is_secure(app: &App, provider: &Provider) -> bool {
    app.tls.is_some() || provider.is_secure()
}

/// The cookie of a login under way.
fn under_way(app: &App, provider: &Provider, sealed: &str, lasts: Span) -> String {
    let below = CALLBACK.rsplit_once('/').map_or(CALLBACK, |(path, _)| path);
    oidc::cookie(sealed, &format!("{}{below}", provider.prefix()), is_secure(app, provider), lasts)
}

fn value(text: &str) -> Result<HeaderValue, ApiError> {
    HeaderValue::from_str(text).map_err(|_| ApiError::internal())
}

/// A page that leads on. A redirect would still count as coming from the provider: the browser would not show the session,
/// and the gate would refuse it.
fn leads_to(path: &str) -> Response {
    // The path has no character that ends an attribute.
    let path = path.replace('&', "&amp;");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>Muster</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={path}\"><p>Logged in. <a href=\"{path}\">Go on</a>.</p>\n"
    );
    let mut response = with_type("text/html; charset=utf-8", StatusCode::OK, Body::from(page));
    let fixed: [(HeaderName, &'static str); 4] = [
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, text) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(text));
    }
    response
}
