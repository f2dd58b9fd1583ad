//! Making the worker known to the scheduler, at the start and whenever the scheduler has forgotten it.

use muster_client::{Client, ClientError};
use muster_protocol::{RegisterRequest, Worker};
use muster_seal::KeyPair;
use tokio::sync::watch;
use tokio::time::Instant;

use super::drain::Shutdown;
use crate::backoff::Backoff;
use crate::config::WorkerConfig;
use crate::error::WorkerError;
use crate::keeper::IsolationForm;
use crate::{machine, rendezvous, secret_keys};

/// What the worker says about itself. An address that it was not given is found out at each registration.
pub(super) fn request(config: &WorkerConfig, worker_id: &str) -> RegisterRequest {
    RegisterRequest {
        id: worker_id.to_owned(),
        exec_addr: config.exec_addr.clone(),
        resources: Some(config.resources.clone()),
        tags: config.tags.clone(),
        gpus: config.gpus.clone(),
        labels: config.labels.clone(),
        slots: Some(config.slots),
        run_as: Some(config.run_as.to_string()),
        hostname: machine::hostname(),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..RegisterRequest::default()
    }
}

/// Adds what is known once the keeper is there: the keys that secrets are sealed to, and how attempts are isolated.
pub(super) fn equip(request: &mut RegisterRequest, keys: &[KeyPair], isolation: Option<IsolationForm>) {
    request.sealing_keys = secret_keys::announced(keys);
    request.isolation = isolation.map(|form| form.as_str().to_owned());
}

/// Registers, under the address that reaches the scheduler now unless another was given.
pub(super) async fn register(
    client: &Client,
    request: &RegisterRequest,
) -> Result<(Worker, String), ClientError> {
    let exec_addr = match request.exec_addr.as_str() {
        "" => rendezvous::reaching(client.url()).await.unwrap_or_default(),
        given => given.to_owned(),
    };
    let request = RegisterRequest { exec_addr, ..request.clone() };
    Ok((client.register_worker(&request).await?, request.exec_addr))
}

/// Registers for the first time: tries for a bounded time, and gives up at once when the scheduler says
/// no. Returns whether a shutdown came first.
pub(super) async fn first(
    client: &Client,
    request: &RegisterRequest,
    config: &WorkerConfig,
    shutdown: &mut watch::Receiver<Shutdown>,
) -> Result<bool, WorkerError> {
    let begun = Instant::now();
    let mut backoff = Backoff::new(super::start::RETRY_FIRST, super::start::RETRY_MOST);
    let exec_addr = loop {
        if *shutdown.borrow() != Shutdown::No {
            return Ok(true);
        }
        let error = match register(client, request).await {
            Ok((_, exec_addr)) => break exec_addr,
            Err(error) => error,
        };
        if refused(&error) {
            return Err(WorkerError::RegisterRefused { cause: error });
        }
        if begun.elapsed() >= config.timing.register {
            return Err(WorkerError::Register { after: config.timing.register, cause: error });
        }
        if backoff.is_fresh() {
            tracing::warn!(url = client.url(), error = %error, "cannot register, trying again");
        }
        let wait = backoff.fail();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = shutdown.changed() => {}
        }
    };
    tracing::info!(
        worker_id = %request.id,
        %exec_addr,
        vram_mb = config.resources.vram_mb,
        gpus = config.gpus.len(),
        memory_mb = config.resources.memory_mb,
        slots = config.slots,
        "worker registered"
    );
    Ok(false)
}

/// Whether trying again would only bring the same answer.
pub(super) fn refused(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { status, .. } => status.is_client_error() && !error.is_transient(),
        ClientError::Untrusted { .. } => true,
        _ => false,
    }
}
