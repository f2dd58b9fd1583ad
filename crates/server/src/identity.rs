//! Who sends a request: what it shows, or else its connection.
//!
//! Guarantees: what is shown and worthless is refused, also from a trusted connection; what is revoked is worthless on every
//! scheduler within [`FRESH`]; a cookie changes nothing without the header that only a page of ours sends.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method, StatusCode};
use muster_domain::access::Principal;
use muster_domain::{Actor, Bearer, By, Credential, LoginMethod, Span, Timestamp, WorkerId};
use muster_protocol::HEADER_JOB_TOKEN;
use muster_store::{AccountCommand, AccountVerb, Command, KnownCredential, StoreExt as _};

use crate::app::{App, Shared};
use crate::bearer;
use crate::error::ApiError;
use crate::local_user::LocalUser;
use crate::oidc::CALLBACK;
use crate::tokens;

/// The cookie of a page, and the header that its requests carry.
pub(crate) const COOKIE_NAME: &str = "muster_session";
pub(crate) const PAGE_HEADER: &str = "x-muster-page";

/// How long what was read of a credential is believed.
const FRESH: Duration = Duration::from_millis(500);
/// How exactly the last use of a credential is known.
const USE: Span = Span::from_secs(60);
/// Credentials that are remembered at the same time.
const REMEMBERED: usize = 10_000;

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) principal: Principal,
    /// The name of the credential that was shown, and its digest.
    pub(crate) credential: Option<Shown>,
    /// The user of this machine whose connection it is, where that is known.
    pub(crate) local_user: Option<LocalUser>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) digest: String,
    /// How its user has logged in, where it is a session.
    pub(crate) method: Option<LoginMethod>,
    /// It is a token, which one user may have many of.
    pub(crate) is_token: bool,
}

impl Identity {
    pub(crate) fn by_connection(principal: Principal) -> Self {
        Self { principal, credential: None, local_user: None }
    }

    /// The name of the caller that the scheduler has proven: the account behind a credential, or else the user of this machine
    /// whose connection it is.
    pub(crate) async fn proven_user(&self) -> Option<Arc<str>> {
        match &self.principal {
            Principal::User { name, .. } => Some(name.as_str().into()),
            Principal::Local => self.local_user?.name().await,
            Principal::Stranger(_)
            | Principal::Worker { .. }
            | Principal::Joiner
            | Principal::Job(_)
            | Principal::Keyless(_) => None,
        }
    }

    /// The caller in the events that it causes; `None` where it can cause none.
    pub(crate) fn by(&self) -> Option<By> {
        match &self.principal {
            Principal::Local => Some(By::Local),
            Principal::User { name, .. } => {
                let token = self.credential.as_ref().filter(|shown| shown.is_token);
                Some(By::User {
                    name: name.as_str().into(),
                    token: token.map(|shown| shown.name.as_str().into()),
                })
            }
            Principal::Worker { id, .. } => Some(By::Worker(Some(id.clone()))),
            Principal::Keyless(_) => Some(By::Worker(None)),
            Principal::Stranger(_) | Principal::Job(_) | Principal::Joiner => None,
        }
    }

    /// The caller in the trail.
    pub(crate) fn actor(&self) -> Actor {
        let name = match &self.principal {
            Principal::Local => "local".to_owned(),
            Principal::Stranger(_) => "nobody".to_owned(),
            Principal::User { name, .. } => name.clone(),
            Principal::Worker { id, .. } => format!("worker {id}"),
            Principal::Job(id) => id.to_string(),
            Principal::Joiner => "join token".to_owned(),
            Principal::Keyless(_) => "worker without a key".to_owned(),
        };
        let credential = self.credential.as_ref().map(|shown| shown.name.clone());
        Actor { name, credential, ..Actor::default() }
    }
}

/// What a request shows.
#[derive(Debug, PartialEq, Eq)]
enum Carried {
    Nothing,
    Bearer(String),
    /// The name that goes with it must be the holder's.
    Named {
        name: String,
        key: String,
    },
    /// For a job; its routes check it.
    Job(String),
    Unreadable,
}

/// Where somebody logs in. The cookie of a session that has ended must keep nobody from that, so it is not looked at there.
const LOGINS: [&str; 3] = ["/auth/login", "/auth/oidc/login", CALLBACK];

fn carried(method: &Method, path: &str, headers: &HeaderMap) -> Carried {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(token) = text(HEADER_JOB_TOKEN) {
        return Carried::Job(token.to_owned());
    }
    if let Some(value) = headers.get(AUTHORIZATION) {
        let Ok(value) = value.to_str() else { return Carried::Unreadable };
        return authorization(value);
    }
    let safe = matches!(*method, Method::GET | Method::HEAD) || headers.contains_key(PAGE_HEADER);
    let counts = safe && !LOGINS.contains(&path);
    match text(COOKIE.as_str()).and_then(session_cookie).filter(|_| counts) {
        Some(session) => Carried::Bearer(session),
        None => Carried::Nothing,
    }
}

fn authorization(value: &str) -> Carried {
    let Some((scheme, rest)) = value.trim().split_once(' ') else { return Carried::Unreadable };
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return if tokens::is_job_token(rest) {
            Carried::Job(rest.to_owned())
        } else {
            Carried::Bearer(rest.to_owned())
        };
    }
    let named = || {
        let decoded = String::from_utf8(STANDARD.decode(rest).ok()?).ok()?;
        let (name, key) = decoded.split_once(':')?;
        Some(Carried::Named { name: name.to_owned(), key: key.to_owned() })
    };
    if scheme.eq_ignore_ascii_case("basic") {
        named().unwrap_or(Carried::Unreadable)
    } else {
        Carried::Unreadable
    }
}

fn session_cookie(cookies: &str) -> Option<String> {
    let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, value)| value.to_owned())
}

/// Decides who sends a request. `connection` is who is behind the connection that it came by.
pub(crate) async fn identify(
    app: &Shared,
    connection: Principal,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<Identity, ApiError> {
    match carried(method, path, headers) {
        Carried::Nothing => Ok(Identity::by_connection(connection)),
        // Its routes ask for the token itself; on a trusted connection it takes no rights away.
        Carried::Job(_) if connection == Principal::Local => Ok(Identity::by_connection(connection)),
        Carried::Job(token) => {
            let (job, _) = tokens::verified(app, &token).await?;
            Ok(Identity::by_connection(Principal::Job(job)))
        }
        Carried::Bearer(text) => shown(app, &text).await,
        Carried::Named { name, key } => {
            let identity = shown(app, &key).await?;
            let fits = match &identity.principal {
                Principal::Worker { id, .. } => id.as_str() == name,
                Principal::User { name: user, .. } => *user == name,
                _ => false,
            };
            if fits { Ok(identity) } else { Err(worthless(&format!("it is not the credential of {name}"))) }
        }
        Carried::Unreadable => Err(worthless("write Authorization: Bearer and a token")),
    }
}

async fn shown(app: &Shared, text: &str) -> Result<Identity, ApiError> {
    let digest = bearer::read(text).map_err(|unreadable| worthless(&unreadable.to_string()))?;
    let known = app.credentials.find(app, &digest).await?;
    let Some(known) = known else { return Err(worthless("it was revoked, or never existed")) };
    let now = app.config.clock.now();
    let principal = known.credential.principal(known.account.as_ref(), now);
    let principal = principal.map_err(|cause| worthless(&cause.to_string()))?;
    let Credential { name, bearer, .. } = &known.credential;
    let (name, method, is_token) = (name.clone(), bearer.method(), matches!(bearer, Bearer::Token { .. }));
    app.credentials.note_use(app, &digest, known.credential.used_at, now);
    let credential = Some(Shown { name, digest, method, is_token });
    Ok(Identity { principal, credential, local_user: None })
}

fn worthless(cause: &str) -> ApiError {
    ApiError::refused(
        StatusCode::UNAUTHORIZED,
        "bad_credential",
        format!("the credential cannot be used: {cause}"),
    )
}

/// The credentials that were shown lately.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    known: Mutex<HashMap<String, Entry>>,
    /// Workers that have a key, and when that was read.
    keyed: Mutex<Option<(Instant, Arc<HashSet<WorkerId>>)>>,
}

#[derive(Debug, Clone)]
struct Entry {
    known: Arc<KnownCredential>,
    read_at: Instant,
    /// Its use is being written down.
    noted_at: Option<Timestamp>,
}

impl Credentials {
    fn known(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn find(&self, app: &App, digest: &str) -> Result<Option<Arc<KnownCredential>>, ApiError> {
        if let Some(entry) = self.known().get(digest)
            && entry.read_at.elapsed() < FRESH
        {
            return Ok(Some(Arc::clone(&entry.known)));
        }
        let read_at = Instant::now();
        let found = app.store.credential(digest.to_owned()).await?.map(Arc::new);
        let mut remembered = self.known();
        if remembered.len() >= REMEMBERED {
            remembered.clear();
        }
        match &found {
            Some(known) => {
                let noted_at = remembered.get(digest).and_then(|entry| entry.noted_at);
                remembered.insert(digest.to_owned(), Entry { known: Arc::clone(known), read_at, noted_at });
            }
            None => {
                remembered.remove(digest);
            }
        }
        drop(remembered);
        Ok(found)
    }

    /// Whether a worker has a key. It is asked for workers that show none.
    pub(crate) async fn has_key(&self, app: &App, worker: &WorkerId) -> Result<bool, ApiError> {
        let fresh = |(read_at, keyed): &(Instant, Arc<HashSet<WorkerId>>)| {
            (read_at.elapsed() < FRESH).then(|| Arc::clone(keyed))
        };
        let known = self.keyed().as_ref().and_then(fresh);
        if let Some(keyed) = known {
            return Ok(keyed.contains(worker));
        }
        let read_at = Instant::now();
        let all = app.store.credentials().await?;
        let named = all.iter().filter_map(|credential| credential.bearer.worker().cloned());
        let keyed: Arc<HashSet<WorkerId>> = Arc::new(named.collect());
        let has_key = keyed.contains(worker);
        *self.keyed() = Some((read_at, keyed));
        Ok(has_key)
    }

    fn keyed(&self) -> MutexGuard<'_, Option<(Instant, Arc<HashSet<WorkerId>>)>> {
        self.keyed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was read, after a change by this scheduler.
    pub(crate) fn forget(&self) {
        *self.keyed() = None;
        self.known().clear();
    }

    /// Has the use written down, now and then. Nothing waits for it.
    fn note_use(&self, app: &Shared, digest: &str, used_at: Option<Timestamp>, now: Timestamp) {
        let recent = |at: Option<Timestamp>| at.is_some_and(|at| now.since(at) < USE);
        if recent(used_at) {
            return;
        }
        let due = self.known().get_mut(digest).is_some_and(|entry| {
            let due = !recent(entry.noted_at);
            entry.noted_at = Some(now);
            due
        });
        if due {
            let (app, digest) = (app.clone(), digest.to_owned());
            tokio::spawn(async move {
                let verb = AccountVerb::Used { digest };
                let command = AccountCommand { by: Actor::default(), verb };
                if let Err(error) = app.batcher.submit_one(Command::Account(Box::new(command))).await {
                    tracing::debug!(%error.message, "the use of a credential was not noted");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn a_cookie_changes_nothing_without_the_header_of_the_page() {
        let cookie = ("cookie", "a=b; muster_session=mss_x");
        let session = Carried::Bearer("mss_x".to_owned());
        let page = headers(&[cookie, (PAGE_HEADER, "1")]);
        assert_eq!(carried(&Method::GET, "/jobs", &headers(&[cookie])), session);
        assert_eq!(carried(&Method::POST, "/jobs", &headers(&[cookie])), Carried::Nothing);
        assert_eq!(carried(&Method::POST, "/jobs", &page), session);
        for (method, path) in
            LOGINS.map(|path| (Method::GET, path)).into_iter().chain([(Method::POST, LOGINS[0])])
        {
            assert_eq!(carried(&method, path, &page), Carried::Nothing, "{path}");
        }
    }

    #[test]
    fn a_name_may_come_with_the_key() {
        let value = format!("Basic {}", STANDARD.encode("w1:msw_k"));
        let named = Carried::Named { name: "w1".to_owned(), key: "msw_k".to_owned() };
        assert_eq!(authorization(&value), named);
        assert_eq!(authorization("Bearer  mst_x "), Carried::Bearer("mst_x".to_owned()));
        assert_eq!(authorization("bearer mj1.a.b.c"), Carried::Job("mj1.a.b.c".to_owned()));
        for unreadable in ["", "mst_x", "Digest x", "Basic !!", "Basic "] {
            assert_eq!(authorization(unreadable), Carried::Unreadable, "{unreadable:?}");
        }
    }
}
