//! The other schedulers on the same store: who they are, and how to read from them what only they have.
//!
//! Guarantees: a scheduler with TLS is believed when it shows the certificate that stands beside its address in the store,
//! or one that an authority vouches for; a request is passed on at most once; what another scheduler has and cannot be had is never answered as
//! if there were nothing, but with who has it and when it was last heard of.

use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::future::join_all;
use http::header::{ACCEPT, AUTHORIZATION, CONNECTION, IF_RANGE, RANGE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use muster_domain::{Job, JobId, Lease, Span, WorkerId};
use muster_protocol::{HEADER_LOG_UNREACHABLE, LogRun, TERMINAL_UPGRADE, TerminalKind, TerminalOrder};
use muster_store::{Command, Instance, StoreExt as _};
use muster_tls::{Fingerprint, Pins, Trust};
use tokio::sync::OnceCell;

use crate::app::App;
use crate::clock;
use crate::edge::RequestId;
use crate::error::ApiError;
use crate::extract::{Call, job_in_path};
use crate::ids;
use crate::listener::{Stream, StreamFuture};
use crate::logs::Moved;
use crate::routes::terminals::SECRET;
use crate::terminals::scheduler_of;
use crate::tls::Tls;

/// Marks a request that another scheduler has passed on; says which one.
pub(crate) const HEADER_FORWARDED: &str = "x-muster-forwarded-by";
/// Says which scheduler has answered.
const HEADER_SCHEDULER: &str = "x-muster-scheduler";
/// Between two signs of life of a scheduler.
const NOTE: Duration = Duration::from_secs(5);
/// How long another scheduler may take to connect, and to begin its answer.
const CONNECT: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(5);
/// A scheduler that was not heard of for so long has nothing that anybody asks for.
const FORGOTTEN: Span = Span::from_secs(30 * 24 * 3600);
/// How much later than its last sign of life a scheduler may have taken output in.
const UNHEARD: Span = Span::from_secs(60);
/// What is passed on of a request.
fn passed() -> [HeaderName; 4] {
    [ACCEPT, RANGE, IF_RANGE, HeaderName::from_static("last-event-id")]
}

/// What this scheduler is to the others.
pub(crate) struct Peers {
    id: String,
    url: Option<String>,
    trust: Trust,
    /// The certificates of the others, as the store has them.
    pins: Pins,
    plain: Client<HttpConnector, Empty<Bytes>>,
    /// Made when the first scheduler with TLS comes along: reading the authorities takes a while.
    secure: OnceCell<Result<SecureClient, String>>,
}

type SecureClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// Before the certificate in the address of a scheduler.
const PIN: char = '#';

/// The address of a scheduler without its certificate.
fn address(peer: &Instance) -> &str {
    peer.url.split(PIN).next().unwrap_or_default()
}

fn pin(peer: &Instance) -> Option<Fingerprint> {
    peer.url.split_once(PIN).and_then(|(_, pin)| pin.parse().ok())
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_nodelay(true);
    connector
}

async fn secure_client(trust: Trust, pins: Pins) -> Result<SecureClient, String> {
    let read = tokio::task::spawn_blocking(move || trust.client_config_with(pins)).await;
    let config = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1();
    let connector = builder.wrap_connector(connector());
    Ok(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
}

/// What was wrong, with a certificate that is not believed before all else.
fn reason(error: &hyper_util::client::legacy::Error) -> String {
    muster_tls::untrusted(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("id", &self.id).field("url", &self.url).finish_non_exhaustive()
    }
}

/// The name of a data directory; schedulers that share one share it.
fn directory_id(data_dir: &Path) -> io::Result<String> {
    let path = data_dir.join("scheduler-id");
    let read = || fs::read_to_string(&path).map(|text| text.trim().to_owned());
    match read() {
        Ok(id) if !id.is_empty() => return Ok(id),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let id = ids::request().simple().to_string();
    let beside = data_dir.join(format!("scheduler-id.{id}"));
    let mut file = fs::File::create(&beside)?;
    file.write_all(id.as_bytes())?;
    file.sync_all()?;
    // Whoever links first has named the directory.
    let linked = fs::hard_link(&beside, &path);
    let _ = fs::remove_file(&beside);
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => read(),
    }
}

impl Peers {
    /// Reads or makes the name of the data directory.
    pub(crate) fn open(data_dir: &Path, url: Option<String>, trust: &Trust) -> io::Result<Self> {
        let plain = Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector());
        let (trust, pins) = (trust.clone(), Pins::default());
        Ok(Self { id: directory_id(data_dir)?, url, trust, pins, plain, secure: OnceCell::new() })
    }

    async fn send(&self, request: Request<Empty<Bytes>>) -> Result<http::Response<Incoming>, String> {
        let sent = if request.uri().scheme_str() == Some("https") {
            let made = || secure_client(self.trust.clone(), self.pins.clone());
            self.secure.get_or_init(made).await.as_ref().map_err(Clone::clone)?.request(request).await
        } else {
            self.plain.request(request).await
        };
        sent.map_err(|error| reason(&error))
    }

    /// The address under which the others find this scheduler, with the certificate that they will see. It changes with
    /// the certificate.
    fn told(&self, tls: Option<&Tls>) -> Option<String> {
        let url = self.url.as_ref()?;
        let tls = tls.filter(|_| url.starts_with("https://"));
        Some(tls.map_or_else(|| url.clone(), |tls| format!("{url}{PIN}{}", tls.fingerprint())))
    }

    /// The name of this scheduler, as the others on the store know it.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Says in an answer who gave it.
    pub(crate) fn sign(&self, response: &mut Response) {
        if let Ok(id) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(HEADER_SCHEDULER, id);
        }
    }

    /// `token` speaks for the job that is asked about. What the caller showed stays here: it was good enough for this
    /// scheduler, and would be good for more than this question.
    async fn get(&self, peer: &Instance, path: &str, call: &Call, token: &str) -> Result<Response, String> {
        let method = if call.is_head { Method::HEAD } else { Method::GET };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", address(peer)));
        for name in passed() {
            if let Some(value) = call.headers.get(&name) {
                request = request.header(name, value);
            }
        }
        let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        let request = request.header(HEADER_FORWARDED, &self.id).body(Empty::new());
        let request = request.map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout(ANSWER, self.send(request)).await;
        Ok(answer.map_err(|_| "no answer in time".to_owned())??.map(Body::new))
    }
}

impl Peers {
    /// Sends a request about the job that its path names, with the proof that it comes from a scheduler on the store.
    async fn ask(
        &self,
        app: &App,
        request: http::request::Builder,
        path: &str,
    ) -> Result<http::Response<Incoming>, String> {
        let token = token(app, path).await.ok_or("no token can be made")?;
        let request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        let request = request.header(HEADER_FORWARDED, &self.id).body(Empty::new());
        let request = request.map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout(ANSWER, self.send(request)).await;
        answer.map_err(|_| "no answer in time".to_owned())?
    }
}

/// Says again and again that this scheduler is there, until `stop` resolves.
pub(crate) async fn note(app: &App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let told = || app.peers.told(app.tls.as_deref()).filter(|_| app.store.is_shared());
    loop {
        let Some(url) = told() else { return stop.await };
        let seen_at = app.config.clock.now();
        let instance = Instance { id: app.peers.id.clone(), url, seen_at };
        // A store that is away is complained about elsewhere.
        let _ = app.batcher.submit_one(Command::NoteInstance(instance)).await;
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(NOTE) => {}
        }
    }
}

/// The others that live.
async fn alive(app: &App) -> Result<Vec<Instance>, ApiError> {
    if !app.store.is_shared() {
        return Ok(Vec::new());
    }
    let now = app.config.clock.now();
    let lives = |peer: &Instance| peer.id != app.peers.id && now.since(peer.seen_at) < UNHEARD;
    let others: Vec<Instance> = app.store.instances().await?.into_iter().filter(lives).collect();
    app.peers.pins.replace(others.iter().filter_map(pin).collect());
    Ok(others)
}

/// Tells all others that live about a session, since the worker may be waiting at any of them. Never resolves: the caller waits
/// for the worker.
pub(crate) async fn pass_order(app: &App, worker: &WorkerId, order: &TerminalOrder) -> Infallible {
    let kind = match order.kind {
        TerminalKind::Exec => "exec",
        TerminalKind::Attach => "attach",
    };
    let path = format!(
        "/jobs/{}/terminals/{}?worker={}&lease={}&kind={kind}&idle_ms={}",
        order.job_id,
        order.session,
        percent_encoded(worker.as_str()),
        order.lease,
        order.idle_ms
    );
    match alive(app).await {
        Ok(others) => drop(join_all(others.iter().map(|peer| tell(app, peer, &path, order))).await),
        Err(error) => tracing::warn!(%error.message, "the other schedulers are not known"),
    }
    std::future::pending().await
}

async fn tell(app: &App, peer: &Instance, path: &str, order: &TerminalOrder) {
    let request = Request::builder().method(Method::POST).uri(format!("{}{path}", address(peer)));
    let request = request.header(SECRET, &order.secret);
    let answer = app.peers.ask(app, request, path).await;
    match answer {
        Ok(answer) if answer.status().is_success() => {}
        Ok(answer) => {
            tracing::warn!(
                peer = address(peer),
                status = answer.status().as_u16(),
                "a scheduler refused an order"
            );
        }
        Err(error) => tracing::debug!(peer = address(peer), error, "a scheduler was not told of a terminal"),
    }
}

/// The connection to the scheduler that a session began at; `None` when that is this one, or nobody who lives.
pub(crate) async fn join_terminal(
    app: &App,
    job: JobId,
    session: &str,
    secret: &str,
    call: &Call,
) -> Result<Option<StreamFuture>, ApiError> {
    if call.header(HEADER_FORWARDED).is_some() {
        return Ok(None);
    }
    let home = scheduler_of(session);
    let Some(peer) = alive(app).await?.into_iter().find(|peer| Some(peer.id.as_str()) == home) else {
        return Ok(None);
    };
    let path = format!("/jobs/{job}/terminals/{}", percent_encoded(session));
    let request = Request::builder().method(Method::GET).uri(format!("{}{path}", address(&peer)));
    let request = request.header(SECRET, secret).header(CONNECTION, "Upgrade");
    let request = request.header(UPGRADE, TERMINAL_UPGRADE);
    match app.peers.ask(app, request, &path).await {
        Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
            Ok(Some(StreamFuture::new(async move {
                let stream = hyper::upgrade::on(answer).await.map_err(io::Error::other)?;
                let stream: Box<dyn Stream> = Box::new(TokioIo::new(stream));
                Ok(stream)
            })))
        }
        Ok(_) => Ok(None),
        Err(error) => {
            tracing::warn!(peer = address(&peer), error, "the scheduler of a session does not answer");
            Ok(None)
        }
    }
}

/// Makes one part of a path or query of any text.
fn percent_encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The others that may have output of the job.
async fn others(app: &App, job: &Job) -> Result<Vec<Instance>, ApiError> {
    if !app.store.is_shared() {
        return Ok(Vec::new());
    }
    let Some(started) = job.started_at else { return Ok(Vec::new()) };
    let now = app.config.clock.now();
    let counts = |peer: &Instance| {
        peer.id != app.peers.id && now.since(peer.seen_at) < FORGOTTEN && started <= peer.seen_at + UNHEARD
    };
    let others: Vec<Instance> = app.store.instances().await?.into_iter().filter(counts).collect();
    app.peers.pins.replace(others.iter().filter_map(pin).collect());
    Ok(others)
}

/// Where the output of a job is.
#[derive(Debug, Default)]
pub(crate) struct Whereabouts {
    /// Another scheduler, which has newer output or more of it than this one.
    pub(crate) there: Option<Instance>,
    /// Those that may have more of it and did not answer.
    unreachable: Vec<Instance>,
}

/// The newest run that is wanted, and how much there is of it.
fn newest(runs: &[LogRun], attempt: Option<u32>) -> Option<(u64, u64)> {
    let wanted = runs.iter().filter(|run| attempt.is_none_or(|attempt| attempt == run.attempt));
    wanted.map(|run| (run.lease, run.stdout_bytes + run.stderr_bytes)).max()
}

/// Finds out who has the newest output of a job, or of an attempt of it. An error when nobody who answers has any and
/// somebody did not answer.
pub(crate) async fn locate(
    app: &App,
    job: &Job,
    attempt: Option<u32>,
    call: &Call,
    moved: &Moved,
) -> Result<Whereabouts, ApiError> {
    if call.header(HEADER_FORWARDED).is_some() || moved.is_all(job, attempt) {
        return Ok(Whereabouts::default());
    }
    let others = others(app, job).await?;
    if others.is_empty() {
        return Ok(Whereabouts::default());
    }
    let here = app.logs.runs(job.id).await.map_err(|_| ApiError::storage_unavailable())?;
    let here = newest(&here, attempt).max(newest(&moved.told(), attempt));
    let path = format!("/jobs/{}/logs/runs", job.id);
    let asked = join_all(others.iter().map(|peer| runs_of(app, peer, &path, call))).await;
    let mut found = Whereabouts::default();
    let mut best = here;
    for (peer, answer) in others.into_iter().zip(asked) {
        match answer {
            None => found.unreachable.push(peer),
            Some(runs) => {
                let there = newest(&runs, attempt);
                if there > best {
                    (best, found.there) = (there, Some(peer));
                }
            }
        }
    }
    if best.is_none() && !found.unreachable.is_empty() {
        return Err(found.elsewhere());
    }
    Ok(found)
}

/// Whether another scheduler has newer output of a job by now, or more of it: its worker went over to that one.
pub(crate) async fn has_moved(app: &App, job: &Job, attempt: Option<u32>, moved: &Moved) -> bool {
    let call = Call::plain(RequestId(ids::request()));
    locate(app, job, attempt, &call, moved).await.is_ok_and(|found| found.there.is_some())
}

/// Who has more than `length` bytes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Nobody,
    Somebody,
    /// Somebody does not answer who may have more.
    Unknown,
}

/// Asks the others whether they have more of what ran under a lease than `length` bytes.
pub(crate) async fn who_has_more(app: &App, job: &Job, lease: u64, length: u64) -> Result<More, ApiError> {
    let (others, call) = (others(app, job).await?, Call::plain(RequestId(ids::request())));
    let path = format!("/jobs/{}/logs/runs", job.id);
    let asked = join_all(others.iter().map(|peer| runs_of(app, peer, &path, &call))).await;
    let longer = |run: &LogRun| run.lease == lease && run.stdout_bytes + run.stderr_bytes > length;
    if asked.iter().flatten().flatten().any(longer) {
        return Ok(More::Somebody);
    }
    Ok(if asked.iter().any(Option::is_none) { More::Unknown } else { More::Nobody })
}

/// Proves to another scheduler that this one asks about the job that the path names: only schedulers on the store can make it.
async fn token(app: &App, path: &str) -> Option<String> {
    let job = path.split(['/', '?']).nth(2).and_then(job_in_path)?;
    app.tokens.secret(app).await.ok()?;
    // No lease has this number: it lets nobody speak for an attempt.
    app.tokens.of(job, Lease(0))
}

async fn runs_of(app: &App, peer: &Instance, path: &str, call: &Call) -> Option<Vec<LogRun>> {
    let mut plain = Call::plain(call.request_id);
    plain.headers.clone_from(&call.headers);
    let answer = app
        .peers
        .get(peer, path, &plain, &token(app, path).await?)
        .await
        .ok()
        .filter(|answer| answer.status().is_success())?;
    // An address that is good on one machine only, as 127.0.0.1 is, may lead to another scheduler: even to this one.
    answer.headers().get(HEADER_SCHEDULER).filter(|id| id.as_bytes() == peer.id.as_bytes())?;
    let body = tokio::time::timeout(ANSWER, answer.into_body().collect()).await.ok()?.ok()?;
    serde_json::from_slice(&body.to_bytes()).ok()
}

impl Whereabouts {
    fn named(&self) -> String {
        let name = |peer: &Instance| {
            format!("{} (last heard of at {})", address(peer), clock::to_wire(peer.seen_at))
        };
        self.unreachable.iter().map(name).collect::<Vec<_>>().join(", ")
    }

    fn elsewhere(&self) -> ApiError {
        let message = format!(
            "the output of this job is not kept here; it may be kept by the scheduler at {}, which does not answer",
            self.named()
        );
        ApiError::logs_elsewhere(message)
    }

    /// Says in an answer who may have more.
    pub(crate) fn mark(&self, response: &mut Response) {
        if !self.unreachable.is_empty()
            && let Ok(value) = HeaderValue::from_str(&self.named())
        {
            response.headers_mut().insert(HEADER_LOG_UNREACHABLE, value);
        }
    }

    /// Passes the request on to the scheduler that has the output; `None` when that is this one.
    pub(crate) async fn forward(
        &self,
        app: &App,
        path: &str,
        call: &Call,
    ) -> Option<Result<Response, ApiError>> {
        let peer = self.there.as_ref()?;
        let token = token(app, path).await.unwrap_or_default();
        let answer = app.peers.get(peer, path, call, &token).await.map(|mut response| {
            for name in [CONNECTION, TRANSFER_ENCODING] {
                response.headers_mut().remove(name);
            }
            self.mark(&mut response);
            response
        });
        Some(answer.map_err(|error| {
            let seen = clock::to_wire(peer.seen_at);
            let message = format!(
                "the output of this job is kept by the scheduler at {} (last heard of at {seen}), which does not \
                 answer: {error}",
                address(peer)
            );
            ApiError::logs_elsewhere(message)
        }))
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::Timestamp;

    use super::*;

    #[test]
    fn a_directory_keeps_its_name() {
        let directory = tempfile::tempdir().unwrap();
        let first = directory_id(directory.path()).unwrap();
        assert_eq!(first.len(), 32);
        assert_eq!(directory_id(directory.path()).unwrap(), first);
        assert_ne!(directory_id(tempfile::tempdir().unwrap().path()).unwrap(), first);
    }

    #[test]
    fn a_certificate_stands_behind_the_address() {
        let peer =
            |url: &str| Instance { id: "a".to_owned(), url: url.to_owned(), seen_at: Timestamp::default() };
        let fingerprint = Fingerprint::from_sha256([7; 32]);
        let pinned = peer(&format!("https://a:1#{fingerprint}"));
        assert_eq!((address(&pinned), pin(&pinned)), ("https://a:1", Some(fingerprint)));
        let plain = peer("http://a:1");
        assert_eq!((address(&plain), pin(&plain)), ("http://a:1", None));
        assert_eq!(pin(&peer("https://a:1#nonsense")), None);
    }

    #[test]
    fn the_newest_run_counts_and_then_the_longest() {
        let run = |lease, attempt, stdout_bytes| LogRun { lease, attempt, stdout_bytes, stderr_bytes: 1 };
        let runs = [run(1, 1, 900), run(3, 2, 10)];
        assert_eq!(newest(&runs, None), Some((3, 11)));
        assert_eq!(newest(&runs, Some(1)), Some((1, 901)));
        assert!(newest(&runs, None) > newest(&[run(3, 2, 9)], None));
        assert!(newest(&[], None) < newest(&runs, Some(1)));
    }
}
