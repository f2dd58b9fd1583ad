//! The checkpoint that an attempt starts from.
//!
//! Guarantee: a job that has a checkpoint never starts without it.

use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use muster_client::{Client, ClientError};
use nix::libc;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;

use super::super::start::{RETRY_FIRST, RETRY_MOST};
use super::{Cost, Unready};
use crate::attempt_files::AttemptFiles;
use crate::backoff::Backoff;
use crate::job_user::{JobUser, acting_as};
use crate::keeper::StartSpec;

/// How long a scheduler that answers, but not well, is asked again. One that does not answer at all is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Puts the checkpoint of a job into the file that is meant for it, if there is one.
pub(super) async fn fetch(client: &Client, spec: &mut StartSpec) -> Result<(), Unready> {
    let place = Place { path: Path::new(&spec.paths.checkpoint), user: spec.user.as_deref() };
    if !fetched(client, &spec.key.job_id, place).await? {
        AttemptFiles::without_checkpoint(spec);
    }
    Ok(())
}

/// Where it goes, and whose it is where that is not the worker's user.
#[derive(Clone, Copy)]
struct Place<'a> {
    path: &'a Path,
    user: Option<&'a JobUser>,
}

async fn fetched(client: &Client, job_id: &str, place: Place<'_>) -> Result<bool, Unready> {
    let mut answered: Option<Instant> = None;
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MOST);
    loop {
        let error = match fetch_once(client, job_id, place).await {
            Ok(found) => return Ok(found),
            Err(Fetch::File(error)) => {
                let message =
                    format!("the checkpoint cannot be written to {}: {error}", place.path.display());
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

async fn fetch_once(client: &Client, job_id: &str, place: Place<'_>) -> Result<bool, Fetch> {
    let Some(mut reader) = client.checkpoint(job_id).await.map_err(Fetch::Call)? else { return Ok(false) };
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = acting_as(place.user, || options.open(place.path)).map_err(Fetch::File)?;
    let mut file = tokio::fs::File::from_std(file);
    while let Some(piece) = reader.next().await.map_err(Fetch::Call)? {
        file.write_all(&piece).await.map_err(Fetch::File)?;
    }
    file.flush().await.map_err(Fetch::File)?;
    Ok(true)
}
