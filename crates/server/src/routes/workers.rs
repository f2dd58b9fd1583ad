//! Workers: registration, heartbeat, list.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::container::engine_tags;
use muster_domain::{Resources, SealingKey, WorkerId, WorkerStatus};
use muster_protocol::{RegisterRequest, Worker};
use muster_store::{Command, Outcome, SecretCommand, StoreExt, WorkerUsage};

use crate::app::{App, Shared};
use crate::body::read_body;
use crate::config::{Limits, ServerConfig};
use crate::error::ApiError;
use crate::extract::{Call, WorkerPath, empty, json};
use crate::lenient::{self, lenient_object};
use crate::ownership;
use crate::placement_fields::{self, GpuBody};
use crate::submission::{ResourcesBody, check_tags, check_text};
use crate::view;

use super::secrets::{KeyBody, change, check_keys};

/// The most ports that one worker may keep for gangs.
const MAX_PORTS: usize = 1024;

lenient_object! {
    /// A registration as a worker writes it. Status and times must decode and are then ignored.
    struct RegisterBody {
        id: String = "id",
        exec_addr: String = "exec_addr",
        resources: ResourcesBody = "resources",
        tags: Vec<String> = "tags",
        gpus: Vec<GpuBody> = "gpus",
        labels: BTreeMap<String, String> = "labels",
        slots: u32 = "slots",
        ports: Vec<u16> = "ports",
        hostname: String = "hostname",
        isolation: String = "isolation",
        run_as: String = "run_as",
        version: String = "version",
        sealing_keys: Vec<KeyBody> = "sealing_keys",
        containers: EngineBody = "containers",
        status: String = "status",
        last_heartbeat: jiff::Timestamp = "last_heartbeat",
        registered_at: jiff::Timestamp = "registered_at",
    }
}

lenient_object! {
    /// What runs the containers of a worker.
    struct EngineBody { name: String = "name", version: String = "version" }
}

/// The tags that a worker gave, and those that tell of its containers.
fn tags(
    given: Option<Vec<String>>,
    engine: Option<EngineBody>,
    limits: &Limits,
) -> Result<BTreeSet<String>, ApiError> {
    let mut tags = check_tags(given.unwrap_or_default(), limits)?;
    if let Some(engine) = engine {
        let (name, version) = (engine.name.unwrap_or_default(), engine.version.unwrap_or_default());
        for text in [&name, &version] {
            check_text("containers", text, limits.name)?;
        }
        if name.is_empty() || name.contains(':') {
            return Err(ApiError::invalid_field(
                "containers",
                "containers.name must name an engine, such as docker",
            ));
        }
        tags.extend(engine_tags(&name, &version));
    }
    Ok(tags)
}

impl RegisterBody {
    fn check(self, config: &ServerConfig) -> Result<muster_domain::Worker, ApiError> {
        let limits = &config.limits;
        let id = self.id.unwrap_or_default();
        if id.is_empty() {
            return Err(ApiError::bad_request("worker_id_required", "worker id is required").at("id"));
        }
        check_text("id", &id, limits.name)?;
        let exec_addr = self.exec_addr.unwrap_or_default();
        check_text("exec_addr", &exec_addr, limits.name)?;
        for (field, text) in [
            ("hostname", &self.hostname),
            ("version", &self.version),
            ("isolation", &self.isolation),
            ("run_as", &self.run_as),
        ] {
            check_text(field, text.as_deref().unwrap_or_default(), limits.name)?;
        }
        let resources = self.resources.map(|amounts| amounts.check(limits)).transpose()?;
        let devices = placement_fields::devices(self.gpus, limits)?;
        let now = config.clock.now();
        Ok(muster_domain::Worker {
            kept: None,
            id: WorkerId::new(id),
            exec_addr,
            resources: resources.unwrap_or_default().with_devices(&devices),
            tags: tags(self.tags, self.containers, limits)?,
            labels: placement_fields::labels(self.labels, limits)?,
            devices,
            slots: self.slots,
            hostname: self.hostname,
            isolation: self.isolation,
            run_as: self.run_as,
            version: self.version,
            status: WorkerStatus::Active,
            last_heartbeat: now,
            registered_at: now,
            assumed: false,
            health: muster_domain::Health::default(),
            ports: muster_domain::Ports { kept: check_ports(self.ports)?, ..muster_domain::Ports::default() },
        })
    }
}

/// The ports that a worker keeps for gangs.
pub(super) fn check_ports(ports: Option<Vec<u16>>) -> Result<Vec<u16>, ApiError> {
    let ports = ports.unwrap_or_default();
    if ports.len() > MAX_PORTS {
        return Err(ApiError::over_limit("ports", MAX_PORTS, "entries"));
    }
    Ok(ports)
}

/// A worker of which nobody asked what it holds.
fn unused(worker: muster_domain::Worker) -> WorkerUsage {
    let used = Resources::default();
    WorkerUsage { worker, used, running: 0, exclusive: false, holders: Vec::new() }
}

/// Makes a worker known, or changes what is known of it.
#[utoipa::path(
    post, path = "/workers/register", tag = "workers", request_body = RegisterRequest,
    responses((status = 201, description = "Known now", body = Worker))
)]
pub(crate) async fn register(
    State(app): State<Shared>,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let mut request = lenient::decode::<RegisterBody>(&bytes, call.reading())?;
    let keys = check_keys(request.sealing_keys.take())?;
    let worker = request.check(&app.config)?;
    ownership::check_registration(&call.identity.principal, &worker)?;
    ownership::check_name(&app, &call.identity.principal, Some(&worker.id)).await?;
    if !call.identity.principal.is_known() && !keys.is_empty() {
        // Users would seal their secrets to the key of anybody.
        let message =
            "sealing_keys: a worker without a key of its own gets no secrets; let it join with a join token";
        return Err(ApiError::not_yours("sealing_keys", message.to_owned()));
    }
    // First, so that a worker that is known has its keys known: a secret could not be sealed to it in between.
    announce(&app, &call, &worker.id, keys).await?;
    let Outcome::Registered(worker) = app.batcher.submit_one(Command::RegisterWorker(worker)).await? else {
        return Err(ApiError::internal());
    };
    tracing::info!(worker_id = %worker.id, request_id = %call.request_id, exec_addr = worker.exec_addr, "worker registered");
    json(StatusCode::CREATED, &view::worker(&unused(worker)))
}

/// Keeps the keys of a worker. Most registrations repeat what is known.
async fn announce(app: &App, call: &Call, worker: &WorkerId, keys: Vec<SealingKey>) -> Result<(), ApiError> {
    let known = app.store.sealing_keys(Some(worker.clone())).await?.pop();
    if known.map(|known| known.keys).unwrap_or_default() != keys {
        change(app, call, SecretCommand::Announce { worker: worker.clone(), keys }).await?;
    }
    Ok(())
}

/// Shows that a worker is alive.
#[utoipa::path(
    post, path = "/workers/{id}/heartbeat", tag = "workers", params(("id" = String, Path)),
    responses((status = 200, description = "Noted"))
)]
pub(crate) async fn worker_heartbeat(
    State(app): State<Shared>,
    WorkerPath(worker): WorkerPath,
) -> Result<Response, ApiError> {
    app.batcher.submit_one(Command::WorkerHeartbeat { worker, ports: None }).await?;
    Ok(empty(StatusCode::OK))
}

/// All workers, with what their jobs take.
#[utoipa::path(
    get, path = "/workers", tag = "workers",
    responses((status = 200, description = "The workers", body = Vec<Worker>))
)]
pub(crate) async fn list_workers(State(app): State<Shared>) -> Result<Response, ApiError> {
    let workers = app.store.workers().await?;
    let shown: Vec<Worker> = workers.iter().map(view::worker).collect();
    json(StatusCode::OK, &shown)
}

/// Ends the quarantine of a worker.
#[utoipa::path(
    post, path = "/workers/{id}/release", tag = "workers", params(("id" = String, Path)),
    responses((status = 200, description = "The worker gets work again", body = Worker))
)]
pub(crate) async fn release_worker(
    State(app): State<Shared>,
    WorkerPath(worker): WorkerPath,
    call: Call,
) -> Result<Response, ApiError> {
    let command = call.audited(Command::ReleaseWorker { worker });
    let Outcome::Worker(worker) = app.batcher.submit_one(command).await? else {
        return Err(ApiError::internal());
    };
    json(StatusCode::OK, &view::worker(&unused(worker)))
}
