//! The key of a worker: got once with a join token, kept in the data directory, shown with every request.
//!
//! Guarantees: nobody but the worker's user can read the key; it is on disk before it is used.

use std::io;
use std::path::Path;

use muster_client::{Client, ClientError};
use tokio::sync::watch;

use super::drain::Shutdown;
use super::registration::refused;
use crate::backoff::Backoff;
use crate::config::WorkerConfig;
use crate::data_dir::{DataDir, write_private};
use crate::error::WorkerError;

const KEY_FILE: &str = "worker-key";

/// The client with which the worker speaks from now on. Without a key and without a join token it shows nothing, as on a
/// machine of one person. `None` when a shutdown came first.
pub(super) async fn admitted(
    client: Client,
    config: &WorkerConfig,
    directory: &DataDir,
    worker_id: &str,
    shutdown: &mut watch::Receiver<Shutdown>,
) -> Result<Option<Client>, WorkerError> {
    let file = directory.path().join(KEY_FILE);
    if let Some(key) = kept(&file)? {
        let known = shown(client.clone(), &key)?;
        if config.join_token.is_none() || !is_worthless(known.whoami().await) {
            return Ok(Some(known));
        }
        tracing::warn!(worker_id, "the key in the data directory was revoked; joining again");
    }
    let Some(token) = &config.join_token else { return Ok(Some(client)) };
    let joining = shown(client.clone(), token.expose())?;
    let Some(key) = join(&joining, config, worker_id, shutdown).await? else { return Ok(None) };
    write_private(&file, &key).map_err(|cause| WorkerError::DataDirectory { path: file.clone(), cause })?;
    tracing::info!(worker_id, "joined; the key is kept in the data directory");
    shown(client, &key).map(Some)
}

/// Whether the scheduler has said that it takes no such key. A scheduler that says nothing may still know it.
fn is_worthless<T>(answer: Result<T, ClientError>) -> bool {
    answer.is_err_and(|error| is_revoked(&error))
}

/// Whether what the worker showed counts no more.
pub(super) fn is_revoked(error: &ClientError) -> bool {
    error.status().is_some_and(|status| status.as_u16() == 401)
}

fn kept(file: &Path) -> Result<Option<String>, WorkerError> {
    match std::fs::read_to_string(file) {
        Ok(key) => Ok(Some(key.trim().to_owned()).filter(|key| !key.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(WorkerError::DataDirectory { path: file.to_owned(), cause }),
    }
}

fn shown(client: Client, key: &str) -> Result<Client, WorkerError> {
    client.with_token(key).map_err(|cause| WorkerError::JoinRefused { cause })
}

/// Asks until it is let in or refused.
async fn join(
    client: &Client,
    config: &WorkerConfig,
    worker_id: &str,
    shutdown: &mut watch::Receiver<Shutdown>,
) -> Result<Option<String>, WorkerError> {
    let begun = tokio::time::Instant::now();
    let mut backoff = Backoff::new(super::start::RETRY_FIRST, super::start::RETRY_MOST);
    loop {
        if *shutdown.borrow() != Shutdown::No {
            return Ok(None);
        }
        let error: ClientError = match client.join(worker_id).await {
            Ok(issued) => return Ok(Some(issued.token)),
            Err(error) => error,
        };
        if refused(&error) {
            return Err(WorkerError::JoinRefused { cause: error });
        }
        if begun.elapsed() >= config.timing.register {
            return Err(WorkerError::Register { after: config.timing.register, cause: error });
        }
        if backoff.is_fresh() {
            tracing::warn!(url = client.url(), error = %error, "cannot join, trying again");
        }
        let wait = backoff.fail();
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = shutdown.changed() => {}
        }
    }
}
