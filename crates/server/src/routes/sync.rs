//! `POST /workers/{id}/sync`: reports, heartbeats, claims and stop orders of one worker in one exchange.
//!
//! Guarantee: reports, heartbeats and the first claim share one transaction; the answer leaves when
//! something is to be said, and after the wait at the latest.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::limits::MAX_AHEAD;
use muster_domain::{Caller, Exit, Job, JobId, Lease, ReportKind, Spent, Status, WorkerId};
use muster_protocol::{LeaseRef, ReportResult, SyncRequest, SyncResponse};
use muster_store::{Answer, Ask, Command, Outcome, Report, StoreExt};
use serde_json::Value;

use crate::app::{App, Shared};
use crate::batcher::Delivery;
use crate::body::read_body;
use crate::dispatcher::{Handed, Leased, Waiting};
use crate::edge::RequestId;
use crate::error::ApiError;
use crate::extract::{Call, WorkerPath, json};
use crate::job_inputs::Takes;
use crate::lenient::{self, lenient_object};
use crate::{job_inputs, secret_uses, view};

use super::claim::claimed_jobs;
use super::reports::note;
use super::workers::check_ports;

/// Bytes of a message that are kept.
const MESSAGE_BYTES: usize = 4096;
/// The most bytes of outputs that are kept of one job.
const OUTPUT_BYTES: usize = 64 * 1024;
/// The most that is believed of one amount of usage: a pebibyte, or as many milliseconds.
const MOST_USED: u64 = 1 << 50;
/// A request that claims waits for a lease divided by this at most.
const CLAIM_SHARE: u32 = 4;
/// How long a sync waits for nothing when too many others wait for work.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// After this time a worker says again what it has prepared.
const SAY_AGAIN: Duration = Duration::from_millis(400);

lenient_object! {
    struct ReportBody {
        job_id: String = "job_id",
        lease: u64 = "lease",
        kind: muster_protocol::ReportKind = "kind",
        exit_code: i32 = "exit_code",
        signal: i32 = "signal",
        message: String = "message",
        rule: String = "rule",
        outputs: Value = "outputs",
        usage: UsageBody = "usage",
    }
}

lenient_object! {
    struct UsageBody {
        cpu_user_ms: u64 = "cpu_user_ms",
        cpu_system_ms: u64 = "cpu_system_ms",
        peak_memory_bytes: u64 = "peak_memory_bytes",
        read_bytes: u64 = "read_bytes",
        written_bytes: u64 = "written_bytes",
        peak_gpu_memory_bytes: u64 = "peak_gpu_memory_bytes",
    }
}

lenient_object! {
    struct LeaseBody { job_id: String = "job_id", lease: u64 = "lease" }
}

lenient_object! {
    struct SyncBody {
        reports: Vec<ReportBody> = "reports",
        heartbeats: Vec<LeaseBody> = "heartbeats",
        max: u32 = "max",
        wait_ms: u64 = "wait_ms",
        ahead: u32 = "ahead",
        orders: bool = "orders",
        leaving: bool = "leaving",
        ports: Vec<u16> = "ports",
        claim_key: String = "claim_key",
        claim_again: bool = "claim_again",
        prepares: bool = "prepares",
        takes_inputs: bool = "takes_inputs",
        takes_all_inputs: bool = "takes_all_inputs",
        prepared: Vec<LeaseBody> = "prepared",
        own_leases: bool = "own_leases",
    }
}

/// One thing that the worker said; its result needs no more of it.
struct Said {
    job_id: String,
    lease: u64,
    /// `None` for a heartbeat.
    kind: Option<ReportKind>,
    /// A task that is ready for its start.
    prepared: bool,
    /// False when the text is no id, so that no command was made of it.
    asked: bool,
}

fn report_kind(kind: muster_protocol::ReportKind) -> ReportKind {
    match kind {
        muster_protocol::ReportKind::Done => ReportKind::Done,
        muster_protocol::ReportKind::Failed => ReportKind::Failed,
        muster_protocol::ReportKind::TimedOut => ReportKind::TimedOut,
        muster_protocol::ReportKind::Oom => ReportKind::OutOfMemory,
        muster_protocol::ReportKind::Released => ReportKind::Released,
        muster_protocol::ReportKind::Preempted => ReportKind::Preempted,
        muster_protocol::ReportKind::Finished => ReportKind::Finished,
        muster_protocol::ReportKind::Lost => ReportKind::Lost,
        muster_protocol::ReportKind::Refused => ReportKind::Refused,
    }
}

/// Every text that a worker sends is cut to what is kept, at a character's end.
fn cut(mut message: String) -> String {
    let mut end = message.len().min(MESSAGE_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    message.retain(|c| c != '\0');
    message
}

/// Outputs are kept as they come if they are an object of a size that a database likes.
fn outputs(value: &Value) -> Option<Arc<str>> {
    let text = value.as_object().map(|_| value.to_string())?;
    (text.len() <= OUTPUT_BYTES).then(|| Arc::from(text))
}

/// What the attempt used. A number that nothing can have reached is cut, so that sums stay right.
fn spent(usage: &UsageBody) -> Spent {
    let real = |number: Option<u64>| number.map(|number| number.min(MOST_USED));
    // Most jobs read and write nothing; that is not worth its bytes in every row.
    let moved = |number: Option<u64>| real(number).filter(|bytes| *bytes > 0);
    Spent {
        cpu_user_ms: real(usage.cpu_user_ms),
        cpu_system_ms: real(usage.cpu_system_ms),
        peak_memory_bytes: real(usage.peak_memory_bytes),
        read_bytes: moved(usage.read_bytes),
        written_bytes: moved(usage.written_bytes),
        peak_gpu_memory_bytes: real(usage.peak_gpu_memory_bytes),
    }
}

/// Everything that a worker said, and the commands made of it.
struct Speech<'a> {
    worker: &'a WorkerId,
    said: Vec<Said>,
    commands: Vec<Command>,
}

impl Speech<'_> {
    fn caller(&self, lease: u64) -> Caller {
        Caller { lease: Some(Lease(lease)), worker: Some(self.worker.clone()) }
    }

    fn report(&mut self, body: ReportBody) -> Result<(), ApiError> {
        let (Some(job_id), Some(lease), Some(kind)) = (body.job_id, body.lease, body.kind) else {
            return Err(ApiError::invalid_body());
        };
        let kind = report_kind(kind);
        let id = job_id.parse::<JobId>();
        self.said.push(Said { job_id, lease, kind: Some(kind), prepared: false, asked: id.is_ok() });
        if let Ok(job) = id {
            let exit = Exit { code: body.exit_code, signal: body.signal };
            let caller = self.caller(lease);
            // How the exit of a stopped job was judged goes where others say what went wrong.
            let judged = matches!(kind, ReportKind::Preempted | ReportKind::Finished);
            let message = if judged { body.rule.or(body.message) } else { body.message }.map(cut);
            let outputs = body.outputs.as_ref().and_then(outputs);
            let spent = body.usage.as_ref().map(spent);
            self.commands.push(Command::Report(Report { job, caller, kind, exit, message, outputs, spent }));
        }
        Ok(())
    }

    fn heartbeat(&mut self, body: LeaseBody, prepared: bool) -> Result<(), ApiError> {
        let (Some(job_id), Some(lease)) = (body.job_id, body.lease) else {
            return Err(ApiError::invalid_body());
        };
        let id = job_id.parse::<JobId>();
        self.said.push(Said { job_id, lease, kind: None, prepared, asked: id.is_ok() });
        if let Ok(job) = id {
            let caller = self.caller(lease);
            let command =
                if prepared { Command::Prepared { job, caller } } else { Command::Heartbeat { job, caller } };
            self.commands.push(command);
        }
        Ok(())
    }
}

/// Exchanges everything between one worker and the scheduler.
#[utoipa::path(
    post, path = "/workers/{id}/sync", tag = "workers", request_body = SyncRequest, params(("id" = String, Path)),
    responses((status = 200, description = "Results, stop orders and jobs", body = SyncResponse))
)]
pub(crate) async fn sync_worker(
    State(app): State<Shared>,
    WorkerPath(worker): WorkerPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let request: SyncBody = lenient::decode(&bytes, call.reading())?;
    drop(bytes);
    app.tokens.secret(&app).await?;
    let exchange = Exchange { app: &app, worker: &worker, request_id: call.request_id };
    let response = exchange.run(request).await?;
    json(StatusCode::OK, &response)
}

/// One sync under way.
struct Exchange<'a> {
    app: &'a App,
    worker: &'a WorkerId,
    request_id: RequestId,
}

impl Exchange<'_> {
    async fn run(&self, mut request: SyncBody) -> Result<SyncResponse, ApiError> {
        let leaving = request.leaving.unwrap_or(false);
        if leaving {
            self.app.dispatcher.leave(self.worker);
        }
        let ask = self.ask(&request).filter(|_| !leaving);
        let named = request.prepared.as_ref().map_or(0, Vec::len);
        let (said, commands) = self.listen(&mut request, ask.as_ref())?;
        let delivery = self.app.batcher.submit(commands).await?;
        if let Some(Err(rejection)) = delivery.answers().first() {
            // The worker is unknown and must register; what was claimed goes back.
            let refusal = rejection.clone().into();
            delivery.give_back();
            return Err(refusal);
        }
        let as_of = delivery.as_of;
        let mut response = self.response();
        let stopping = self.take(&mut response, delivery, said, ask.is_some())?;
        self.order(&mut response, stopping);
        let orders = request.orders.unwrap_or(false);
        if orders {
            response.terminals = self.app.dispatcher.take_terminals(self.worker);
        }
        let wait = self.patience(&request, ask.is_some(), named > 0);
        let urgent = !response.jobs.is_empty() || response.results.iter().any(|result| result.status != 200);
        let may_wait = !urgent && !leaving && !wait.is_zero() && response.go.is_empty();
        let prepared = prepared_leases(&response, named);
        if self.app.hub.is_flagged(self.worker) || (orders && may_wait) {
            self.read_orders(&mut response).await;
        }
        if may_wait && response.stop.is_empty() && response.terminals.is_empty() {
            let waiting = Waiting { ask, worker: Some(self.worker.clone()), orders, prepared, as_of };
            if self.app.dispatcher.is_full() {
                // What it said was heard, which a refusal would hide. It comes again after the pause.
                self.app.metrics.bounds.refused("too_many_long_polls");
                tokio::time::sleep(wait.min(FULL_PAUSE)).await;
            } else {
                let handed = self.app.dispatcher.park(waiting, wait).await;
                self.hand_over(&mut response, handed)?;
            }
        }
        let takes = Takes::of(request.takes_inputs, request.takes_all_inputs);
        job_inputs::keep_back(self.app, Some(self.worker), takes, &mut response.jobs).await?;
        secret_uses::attach(self.app, Some(self.worker), &mut response.jobs).await?;
        Ok(response)
    }

    /// How long the request may wait. What is prepared is to be said again soon: a round starts only with those who were
    /// heard of just now. As far as the worker can tell, a claim is as old as the request that brought it, so
    /// one that claims waits for a small part of a lease, whatever the worker believes a lease to be.
    fn patience(&self, request: &SyncBody, claims: bool, prepared: bool) -> Duration {
        let wait = Duration::from_millis(request.wait_ms.unwrap_or(0)).min(self.app.config.long_poll_max);
        let lease = Duration::from_micros(self.app.config.timeouts.job_heartbeat.as_micros());
        let wait = if claims { wait.min(lease / CLAIM_SHARE) } else { wait };
        if prepared { wait.min(SAY_AGAIN) } else { wait }
    }

    fn ask(&self, request: &SyncBody) -> Option<Ask> {
        let max = request.max.unwrap_or(0).min(self.app.config.limits.page as u32);
        let ahead = request.ahead.unwrap_or(0).min(MAX_AHEAD);
        let key = request.claim_key.as_deref().filter(|key| key.len() <= self.app.config.limits.name);
        let (key, again) = (key.map(Arc::from), request.claim_again.unwrap_or(false));
        let prepares = request.prepares.unwrap_or(false);
        let terms = request.own_leases.unwrap_or(false).then(|| self.app.config.lease_terms());
        (max > 0).then(|| Ask { worker: Some(self.worker.clone()), max, ahead, key, again, prepares, terms })
    }

    /// The worker's sign of life first, then what it said, and its claim last, so that the claim sees
    /// the room that the reports made.
    fn listen(
        &self,
        request: &mut SyncBody,
        ask: Option<&Ask>,
    ) -> Result<(Vec<Said>, Vec<Command>), ApiError> {
        let limit = self.app.config.limits.sync_items;
        let reports = request.reports.take().unwrap_or_default();
        let heartbeats = request.heartbeats.take().unwrap_or_default();
        let prepared = request.prepared.take().unwrap_or_default();
        let counts =
            [("reports", reports.len()), ("heartbeats", heartbeats.len()), ("prepared", prepared.len())];
        for (field, count) in counts {
            if count > limit {
                return Err(ApiError::over_limit(field, limit, "entries"));
            }
        }
        let count = reports.len() + heartbeats.len() + prepared.len();
        let mut speech = Speech {
            worker: self.worker,
            said: Vec::with_capacity(count),
            commands: Vec::with_capacity(count + 2),
        };
        let ports = request.ports.take().map(|ports| check_ports(Some(ports))).transpose()?;
        speech.commands.push(Command::WorkerHeartbeat { worker: self.worker.clone(), ports });
        reports.into_iter().try_for_each(|report| speech.report(report))?;
        heartbeats.into_iter().try_for_each(|beat| speech.heartbeat(beat, false))?;
        prepared.into_iter().try_for_each(|task| speech.heartbeat(task, true))?;
        speech.commands.extend(ask.cloned().map(Command::Claim));
        Ok((speech.said, speech.commands))
    }

    fn response(&self) -> SyncResponse {
        SyncResponse {
            lease_ttl_ms: self.app.config.timeouts.job_heartbeat.as_micros() / 1_000,
            log_limit_bytes: self.app.config.limits.log_stream,
            ..SyncResponse::default()
        }
    }

    /// Fills in results and jobs; returns the jobs whose heartbeat found a stop order.
    fn take(
        &self,
        response: &mut SyncResponse,
        delivery: Delivery,
        said: Vec<Said>,
        claims: bool,
    ) -> Result<Vec<Job>, ApiError> {
        let mut answers = delivery.take();
        if claims && let Some(answer) = answers.pop() {
            response.jobs = claimed_jobs(self.app, answer, self.request_id)?;
        }
        let mut answers = answers.into_iter().skip(1);
        let mut stopping = Vec::new();
        for said in said {
            let answer = if said.asked { answers.next() } else { None };
            let prepared = said.prepared;
            let (result, job) = self.result(said, answer);
            match job {
                Some(job) if job.status() == Status::Preempting => stopping.push(job),
                Some(job) if prepared && job.status() == Status::Running => {
                    let (job_id, lease) = (result.job_id.clone(), result.lease);
                    response.go.push(LeaseRef { job_id, lease });
                }
                _ => {}
            }
            response.results.push(result);
        }
        Ok(stopping)
    }

    /// The word on what was said, and the job after a sign of life.
    fn result(&self, said: Said, answer: Option<Answer>) -> (ReportResult, Option<Job>) {
        let mut heard = None;
        let refusal = match answer {
            None => Some(ApiError::job_not_found()),
            Some(Err(rejection)) => Some(ApiError::from(rejection)),
            Some(Ok(Outcome::Reported { job, repeated })) => {
                if let Some(kind) = said.kind.filter(|_| !repeated) {
                    note(self.app, &job, kind, self.request_id);
                }
                None
            }
            Some(Ok(Outcome::Heartbeat(reply))) => {
                heard = Some(reply.job);
                None
            }
            Some(Ok(_)) => None,
        };
        let (status, message) = match refusal {
            Some(error) => (error.status.as_u16(), error.message.into_owned()),
            None => (StatusCode::OK.as_u16(), String::new()),
        };
        (ReportResult { job_id: said.job_id, lease: said.lease, status, message }, heard)
    }

    /// Adds the orders that the worker was not given a moment ago.
    fn order(&self, response: &mut SyncResponse, jobs: Vec<Job>) {
        let (grace, now) = (self.app.config.grace, self.app.config.clock.now());
        let fresh = self.app.dispatcher.fresh(jobs);
        response.stop.extend(fresh.iter().map(|job| view::stop_order(job, grace, now)));
    }

    async fn read_orders(&self, response: &mut SyncResponse) {
        self.app.hub.unflag(self.worker);
        match self.app.store.stops(vec![self.worker.clone()]).await {
            Ok(jobs) => self.order(response, jobs),
            // What the worker reported is on disk and must be confirmed; orders come with the next sync.
            Err(error) => {
                self.app.metrics.store_error();
                tracing::warn!(%error, worker_id = %self.worker, "stop orders could not be read");
            }
        }
    }

    fn hand_over(&self, response: &mut SyncResponse, handed: Handed) -> Result<(), ApiError> {
        match handed {
            Handed::Work(delivery) => {
                let answer = delivery.take().pop().ok_or_else(ApiError::internal)?;
                response.jobs = claimed_jobs(self.app, answer, self.request_id)?;
            }
            Handed::Stops(jobs) => {
                let (grace, now) = (self.app.config.grace, self.app.config.clock.now());
                response.stop.extend(jobs.iter().map(|job| view::stop_order(job, grace, now)));
            }
            Handed::Terminals(terminals) => response.terminals = terminals,
            Handed::Changed(changed) => self.tell_changes(response, changed),
            Handed::Nothing => {}
        }
        Ok(())
    }

    /// What became of prepared tasks while the request waited: they start, stop, or are no longer the worker's.
    fn tell_changes(&self, response: &mut SyncResponse, changed: Vec<(Leased, Option<Job>)>) {
        let (grace, now) = (self.app.config.grace, self.app.config.clock.now());
        for ((id, lease), job) in changed {
            let (job_id, lease) = (id.to_string(), lease.0);
            match job.as_ref().map(|job| (job, job.status())) {
                Some((_, Status::Running)) => response.go.push(LeaseRef { job_id, lease }),
                Some((job, Status::Preempting)) => response.stop.push(view::stop_order(job, grace, now)),
                _ => {
                    let said = |result: &&mut ReportResult| result.job_id == job_id && result.lease == lease;
                    if let Some(result) = response.results.iter_mut().find(said) {
                        result.status = StatusCode::CONFLICT.as_u16();
                        "the task is no longer reserved here".clone_into(&mut result.message);
                    }
                }
            }
        }
    }
}

/// The prepared tasks that the worker was answered for, which are the last of the results.
fn prepared_leases(response: &SyncResponse, named: usize) -> Vec<Leased> {
    let from = response.results.len().saturating_sub(named);
    let known = |result: &ReportResult| Some((result.job_id.parse().ok()?, Lease(result.lease)));
    response.results[from..].iter().filter(|result| result.status == 200).filter_map(known).collect()
}
