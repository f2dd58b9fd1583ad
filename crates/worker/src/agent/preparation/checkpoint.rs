//! The checkpoint that an attempt starts from.
//!
//! Guarantee: a job that has a checkpoint never starts without it.

use std::io;
use std::path::Path;
use std::time::Duration;

use muster_client::{Client, ClientError};
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use super::super::start::{RETRY_FIRST, RETRY_MOST};
use super::{Cost, Unready};
use crate::attempt_files::AttemptFiles;
use crate::backoff::Backoff;
use crate::keeper::StartSpec;

/// How long a scheduler that answers, but not well, is asked again. One that does not answer at all is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Puts the checkpoint of a job into the file that is meant for it, if there is one.
pub(super) async fn fetch(client: &Client, spec: &mut StartSpec) -> Result<(), Unready> {
    if !fetched(client, &spec.key.job_id, Path::new(&spec.paths.checkpoint)).await? {
        AttemptFiles::without_checkpoint(spec);
    }
    Ok(())
}

async fn fetched(client: &Client, job_id: &str, path: &Path) -> Result<bool, Unready> {
    let mut answered: Option<Instant> = None;
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
    loop {
        let error = match fetch_once(client, job_id, path).await {
            Ok(found) => return Ok(found),
            Err(Fetch::File(error)) => {
                let message = format!("the checkpoint cannot be written to {}: {error}", path.display());
                return Err(Unready { message, cost: Cost::Attempt });
            }
            Err(Fetch::Call(error)) => error,
        };
        if !matches!(error, ClientError::Unreachable { .. }) {
            let since = *answered.get_or_insert_with(Instant::now);
            if !error.is_transient() || since.elapsed() > PATIENCE {
                let message = format!("the checkpoint cannot be fetched: {error}");
                let cost = if error.is_transient() { Cost::Free } else { Cost::Attempt };
                return Err(Unready { message, cost });
            }
        }
        tokio::time::sleep(backoff.fail()).await;
    }
}

enum Fetch {
    Call(ClientError),
    File(io::Error),
}

async fn fetch_once(client: &Client, job_id: &str, path: &Path) -> Result<bool, Fetch> {
    let Some(mut reader) = client.checkpoint(job_id).await.map_err(Fetch::Call)? else { return Ok(false) };
    let mut options = tokio::fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(path).await.map_err(Fetch::File)?;
    while let Some(piece) = reader.next().await.map_err(Fetch::Call)? {
        file.write_all(&piece).await.map_err(Fetch::File)?;
    }
    file.flush().await.map_err(Fetch::File)?;
    Ok(true)
}
