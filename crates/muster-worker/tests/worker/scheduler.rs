//! A scheduler of a few lines: hands out what is queued, writes down what it is told, misbehaves on request.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::post;
use muster_protocol::{
    JobReport, LogAppended, ReportKind, ReportResult, StopOrder, SyncRequest, SyncResponse, Worker,
    WorkerStatus,
};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What happened, in order.
#[derive(Debug, Clone)]
pub(crate) enum Happened {
    Registered,
    Reported(JobReport),
    Output {
        job_id: String,
        bytes: usize,
    },
    /// With the epoch, where one was named.
    Saved {
        job_id: String,
        lease: u64,
        epoch: Option<u32>,
        bytes: Vec<u8>,
    },
    Fetched {
        job_id: String,
    },
    Beat {
        job_id: String,
    },
    Left,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) queue: Vec<Value>,
    pub(crate) orders: Vec<StopOrder>,
    pub(crate) history: Vec<Happened>,
    pub(crate) output: BTreeMap<(String, String), Vec<u8>>,
    /// Bytes that the worker said nobody has.
    pub(crate) skipped: BTreeMap<(String, String), u64>,
    /// Leases that somebody else holds by now.
    pub(crate) lost: HashSet<String>,
    /// Queues a job again when it is handed back.
    pub(crate) requeue: bool,
    claimed: BTreeMap<String, Value>,
    /// How often the parked polls were called back.
    recalls: u32,
    pub(crate) known: HashSet<String>,
    /// Checkpoints that are kept, by job.
    pub(crate) checkpoints: BTreeMap<String, Vec<u8>>,
    /// Answers to checkpoints that are sent, before they are taken; each once.
    pub(crate) refuse_checkpoints: Vec<u16>,
    /// Answers to those who ask for a checkpoint, before it is given; each once.
    pub(crate) refuse_fetches: Vec<u16>,
    /// Keeps those waiting that ask for a checkpoint.
    pub(crate) hold_fetches: bool,
    /// Answers everything with 503.
    pub(crate) down: bool,
    /// Answers reports with 503 this many times more.
    pub(crate) refuse_reports: u32,
    pub(crate) lease_ttl_ms: u64,
    pub(crate) log_limit: u64,
    next_lease: u64,
    /// What workers said when they registered.
    pub(crate) registrations: Vec<Value>,
    /// The lists of ports that came with syncs.
    pub(crate) ports: Vec<Vec<u16>>,
    /// The keys of claims that brought jobs or asked for them again.
    pub(crate) claims: Vec<(String, bool)>,
    /// How the next answers that bring jobs get lost, the last one first.
    pub(crate) lose_answers: Vec<LostBy>,
    by_key: BTreeMap<String, SyncResponse>,
}

/// How an answer gets lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostBy {
    Gateway,
    BreakingOff,
}

/// The scheduler; clones are handles on the same one.
#[derive(Debug, Clone)]
pub(crate) struct Scheduler {
    inner: Arc<(Mutex<Inner>, Condvar)>,
    changed: Arc<tokio::sync::Notify>,
    pub(crate) address: SocketAddr,
}

impl Scheduler {
    /// Serves on a free port until the test process ends.
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let inner = Inner {
            queue: Vec::new(),
            orders: Vec::new(),
            history: Vec::new(),
            output: BTreeMap::new(),
            skipped: BTreeMap::new(),
            lost: HashSet::new(),
            requeue: false,
            claimed: BTreeMap::new(),
            recalls: 0,
            known: HashSet::new(),
            checkpoints: BTreeMap::new(),
            refuse_checkpoints: Vec::new(),
            refuse_fetches: Vec::new(),
            hold_fetches: false,
            down: false,
            refuse_reports: 0,
            lease_ttl_ms: 30_000,
            log_limit: 10_000_000,
            next_lease: 1,
            registrations: Vec::new(),
            ports: Vec::new(),
            claims: Vec::new(),
            lose_answers: Vec::new(),
            by_key: BTreeMap::new(),
        };
        let address = listener.local_addr().unwrap();
        let inner = Arc::new((Mutex::new(inner), Condvar::new()));
        let scheduler = Self { inner, changed: Arc::default(), address };
        let router = Router::new()
            .route("/workers/register", post(register))
            .route("/workers/{id}/sync", post(sync))
            .route("/jobs/{id}/logs", post(append))
            .route("/jobs/{id}/checkpoint", post(save_checkpoint).get(checkpoint))
            .layer(DefaultBodyLimit::disable())
            .with_state(scheduler.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, router).await.unwrap();
            });
        });
        scheduler
    }

    /// Changes or reads the state, and wakes everybody who waits for a change.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let result = act(&mut self.inner.0.lock().unwrap());
        self.inner.1.notify_all();
        self.changed.notify_waiters();
        result
    }

    /// Queues a job with a command; more keys may be given. Returns its id.
    pub(crate) fn submit(&self, command: &str, extra: &Value) -> String {
        self.with(|inner| {
            let lease = inner.next_lease;
            inner.next_lease += 1;
            let id = format!("job-{lease}");
            let mut job = json!({"id": id, "command": command, "status": "running", "attempts": 1, "max_retries": 3,
                "created_at": "2026-01-01T00:00:00Z", "lease": lease});
            job.as_object_mut().unwrap().extend(extra.as_object().cloned().unwrap_or_default());
            inner.queue.push(job);
            id
        })
    }

    /// Waits until something is true of the state.
    pub(crate) fn until<T>(&self, what: &str, check: impl Fn(&Inner) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        let mut inner = self.inner.0.lock().unwrap();
        loop {
            if let Some(found) = check(&inner) {
                return found;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain: {what}; so far: {:#?}", inner.history);
            inner = self.inner.1.wait_timeout(inner, left).unwrap().0;
        }
    }

    /// Waits for the report on a job.
    pub(crate) fn report_of(&self, id: &str) -> JobReport {
        self.until(&format!("the report on {id}"), |inner| inner.reports(id).first().cloned())
    }

    /// Waits for the report of an attempt that was not handed back.
    pub(crate) fn end_of(&self, id: &str) -> JobReport {
        self.until(&format!("the end of {id}"), |inner| {
            inner.reports(id).into_iter().find(|report| report.kind != ReportKind::Released)
        })
    }

    /// Waits until a stream of a job holds a text.
    pub(crate) fn output_with(&self, id: &str, stream: &str, text: &str) -> String {
        self.until(&format!("{text:?} in the {stream} of {id}"), |inner| {
            let output = inner.output.get(&(id.to_owned(), stream.to_owned()))?;
            let output = String::from_utf8_lossy(output).into_owned();
            output.contains(text).then_some(output)
        })
    }

    /// Orders a job to stop.
    pub(crate) fn stop(&self, id: &str, grace_ms: u64) {
        self.order(id, grace_ms, None);
    }

    /// Orders a job to stop by a signal of the scheduler's choice.
    pub(crate) fn stop_by(&self, id: &str, grace_ms: u64, signal: Signal) {
        self.order(id, grace_ms, Some(signal as i32));
    }

    /// Orders a job to make room for another and tells it that it comes back; with changes to the order.
    pub(crate) fn preempt(&self, id: &str, grace_ms: u64, change: impl FnOnce(&mut StopOrder)) {
        let mut order = stop_order(id, grace_ms);
        order.comes_back = true;
        change(&mut order);
        self.with(|inner| inner.orders.push(order));
    }

    fn order(&self, id: &str, grace_ms: u64, signal: Option<i32>) {
        let order = StopOrder { signal, ..stop_order(id, grace_ms) };
        self.with(|inner| inner.orders.push(order));
    }
}

fn stop_order(id: &str, grace_ms: u64) -> StopOrder {
    StopOrder {
        comes_back: false,
        scope: None,
        job_id: id.to_owned(),
        lease: id.trim_start_matches("job-").parse().unwrap(),
        preemption_epoch: 1,
        reason: "test".into(),
        grace_ms,
        signal: None,
    }
}

impl Inner {
    /// The reports on a job, oldest first.
    pub(crate) fn reports(&self, id: &str) -> Vec<JobReport> {
        let reports = self.history.iter().filter_map(|event| match event {
            Happened::Reported(report) if report.job_id == id => Some(report.clone()),
            _ => None,
        });
        reports.collect()
    }

    fn has_news(&self, request: &SyncRequest) -> bool {
        self.down
            || (request.max > 0 && !self.queue.is_empty())
            || (request.orders && !self.orders.is_empty())
            || (request.claim_again
                && self.by_key.contains_key(request.claim_key.as_deref().unwrap_or_default()))
    }

    /// Whether this answer gets lost. Claims that brought jobs are remembered by their key.
    fn loses(&mut self, request: &SyncRequest, answer: &SyncResponse) -> Option<LostBy> {
        let key = request.claim_key.clone()?;
        if answer.jobs.is_empty() && !request.claim_again {
            return None;
        }
        self.claims.push((key.clone(), request.claim_again));
        self.by_key.insert(key, answer.clone());
        self.lose_answers.pop()
    }

    fn answer(&mut self, request: &SyncRequest) -> SyncResponse {
        if request.claim_again
            && let Some(again) = self.by_key.get(request.claim_key.as_deref().unwrap_or_default())
        {
            return again.clone();
        }
        let count = self.queue.len().min(request.max as usize);
        let mut jobs = Vec::new();
        for job in self.queue.drain(..count) {
            self.claimed.insert(job["id"].as_str().unwrap().to_owned(), job.clone());
            jobs.push(serde_json::from_value(job).unwrap());
        }
        let stop = if request.orders { std::mem::take(&mut self.orders) } else { Vec::new() };
        let mut results = Vec::new();
        for report in &request.reports {
            self.history.push(Happened::Reported(report.clone()));
            if self.requeue && report.kind == ReportKind::Released {
                self.queue.extend(self.claimed.get(&report.job_id).map(again));
            }
            results.push(self.result(&report.job_id, report.lease));
        }
        for beat in &request.heartbeats {
            self.history.push(Happened::Beat { job_id: beat.job_id.clone() });
            results.push(self.result(&beat.job_id, beat.lease));
        }
        let (lease_ttl_ms, log_limit_bytes) = (self.lease_ttl_ms, self.log_limit);
        SyncResponse { results, stop, jobs, lease_ttl_ms, log_limit_bytes, ..SyncResponse::default() }
    }

    fn result(&self, job_id: &str, lease: u64) -> ReportResult {
        let status = if self.lost.contains(job_id) { 409 } else { 200 };
        ReportResult { job_id: job_id.to_owned(), lease, status, message: String::new() }
    }
}

/// The same job under a lease of its own.
fn again(job: &Value) -> Value {
    let mut job = job.clone();
    job["lease"] = json!(job["lease"].as_u64().unwrap() + 1_000);
    job
}

fn down() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "not now\n").into_response()
}

async fn register(State(scheduler): State<Scheduler>, Json(body): Json<Value>) -> Response {
    scheduler.with(|inner| {
        if inner.down {
            return down();
        }
        let id = body["id"].as_str().unwrap().to_owned();
        inner.known.insert(id.clone());
        inner.history.push(Happened::Registered);
        inner.registrations.push(body.clone());
        let now = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let worker = Worker {
            id,
            exec_addr: String::new(),
            resources: serde_json::from_value(body["resources"].clone()).unwrap(),
            tags: Vec::new(),
            status: WorkerStatus::Active,
            last_heartbeat: now,
            registered_at: now,
            slots: None,
            hostname: None,
            isolation: None,
            run_as: None,
            version: None,
            containers: None,
            used: muster_protocol::Resources::default(),
            running: 0,
            quarantine: None,
            gpus: Vec::new(),
            labels: std::collections::BTreeMap::new(),
            exclusive: false,
        };
        (StatusCode::CREATED, Json(worker)).into_response()
    })
}

async fn sync(
    State(scheduler): State<Scheduler>,
    Path(id): Path<String>,
    Json(request): Json<SyncRequest>,
) -> Response {
    let deadline = tokio::time::Instant::now() + Duration::from_millis(request.wait_ms);
    let recalls = scheduler.with(|inner| {
        if request.leaving {
            inner.recalls += 1;
            inner.history.push(Happened::Left);
        }
        inner.ports.extend(request.ports.clone());
        inner.recalls
    });
    loop {
        let changed = scheduler.changed.notified();
        let answer = {
            let mut inner = scheduler.inner.0.lock().unwrap();
            let over = tokio::time::Instant::now() >= deadline || request.leaving;
            let left = inner.recalls > recalls;
            if inner.down || (!request.reports.is_empty() && inner.refuse_reports > 0) {
                inner.refuse_reports = inner.refuse_reports.saturating_sub(1);
                return down();
            }
            if !inner.known.contains(&id) {
                return (StatusCode::NOT_FOUND, "worker not found\n").into_response();
            }
            (over || left || inner.has_news(&request)).then(|| inner.answer(&request))
        };
        if let Some(answer) = answer {
            let lost = scheduler.with(|inner| inner.loses(&request, &answer));
            match lost {
                None => {}
                Some(LostBy::Gateway) => return (StatusCode::BAD_GATEWAY, "bad gateway\n").into_response(),
                Some(LostBy::BreakingOff) => return (StatusCode::OK, "{\"jobs\":[").into_response(),
            }
            // What this request has changed may concern others, parked or waiting.
            scheduler.with(|_| ());
            return Json(answer).into_response();
        }
        let _ = tokio::time::timeout_at(deadline, changed).await;
    }
}

async fn save_checkpoint(
    State(scheduler): State<Scheduler>,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    scheduler.with(|inner| {
        if inner.down {
            return down();
        }
        if let Some(status) = inner.refuse_checkpoints.pop() {
            return (StatusCode::from_u16(status).unwrap(), "no room\n").into_response();
        }
        let number = |name: &str| query.get(name).map(|text| text.parse::<u64>().unwrap());
        let (lease, epoch) = (number("lease").unwrap_or(0), number("epoch").map(|epoch| epoch as u32));
        let bytes = body.to_vec();
        inner.checkpoints.insert(id.clone(), bytes.clone());
        inner.history.push(Happened::Saved { job_id: id, lease, epoch, bytes });
        StatusCode::OK.into_response()
    })
}

async fn checkpoint(State(scheduler): State<Scheduler>, Path(id): Path<String>) -> Response {
    scheduler.with(|inner| inner.history.push(Happened::Fetched { job_id: id.clone() }));
    loop {
        let changed = scheduler.changed.notified();
        let answer = {
            let mut inner = scheduler.inner.0.lock().unwrap();
            if inner.down {
                return down();
            }
            if let Some(status) = inner.refuse_fetches.pop() {
                return (StatusCode::from_u16(status).unwrap(), "not now\n").into_response();
            }
            (!inner.hold_fetches).then(|| inner.checkpoints.get(&id).cloned())
        };
        match answer {
            Some(Some(bytes)) => return bytes.into_response(),
            Some(None) => return StatusCode::NO_CONTENT.into_response(),
            None => changed.await,
        }
    }
}

async fn append(
    State(scheduler): State<Scheduler>,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    body: Bytes,
) -> Response {
    scheduler.with(|inner| {
        if inner.down {
            return down();
        }
        let stream = query["stream"].clone();
        let place = (id.clone(), stream);
        let skipped = inner.skipped.entry(place.clone()).or_default();
        let kept = inner.output.entry(place).or_default();
        let length = kept.len() as u64 + *skipped;
        let offset: u64 = query["offset"].parse().unwrap();
        if offset > length && query.contains_key("skip") {
            *skipped += offset - length;
        } else if offset != length {
            return (StatusCode::CONFLICT, Json(LogAppended { length, followed: None })).into_response();
        }
        kept.extend_from_slice(&body);
        let appended = LogAppended { length: kept.len() as u64 + *skipped, followed: None };
        inner.history.push(Happened::Output { job_id: id, bytes: body.len() });
        Json(appended).into_response()
    })
}
