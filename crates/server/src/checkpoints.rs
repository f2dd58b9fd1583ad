//! Checkpoints on their way in and out: small ones go into the database, larger ones into a file beside the
//! output of their job, which goes when the job goes.
//!
//! Guarantee: a file is complete and on disk before the database names it, and what the database no longer
//! names is removed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body_util::BodyExt as _;
use muster_store::Content;
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::error::ApiError;
use crate::ids;

/// Up to this size a checkpoint is kept in the database.
const SMALL: usize = 64 * 1024;
/// Read at a time.
const PIECE: usize = 256 * 1024;

/// The directory that the files of one job are in.
fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join(name)
}

/// Takes a checkpoint in: at most `limit` bytes, each piece within `patience`.
pub(crate) async fn receive(
    directory: &Path,
    mut body: Body,
    limit: usize,
    patience: Duration,
) -> Result<Content, ApiError> {
    if body.size_hint().lower() > limit as u64 {
        return Err(ApiError::too_large(limit));
    }
    let mut small = BytesMut::new();
    while let Some(piece) = next(&mut body, patience).await? {
        if small.len() + piece.len() > limit {
            return Err(ApiError::too_large(limit));
        }
        small.extend_from_slice(&piece);
        if small.len() > SMALL {
            return spill(directory, small.freeze(), body, limit, patience).await;
        }
    }
    Ok(Content::Bytes(small.to_vec()))
}

async fn next(body: &mut Body, patience: Duration) -> Result<Option<Bytes>, ApiError> {
    loop {
        let frame = tokio::time::timeout(patience, body.frame()).await.map_err(|_| ApiError::slow_body())?;
        let Some(frame) = frame else { return Ok(None) };
        if let Ok(data) = frame.map_err(|_| ApiError::unreadable_body())?.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Writes what came and what comes into a file of its own.
async fn spill(
    directory: &Path,
    first: Bytes,
    body: Body,
    limit: usize,
    patience: Duration,
) -> Result<Content, ApiError> {
    let name: Arc<str> = format!("checkpoint-{}", ids::secret()).into();
    let written = write(&path(directory, &name), first, body, limit, patience).await;
    if written.is_err() {
        remove(directory, &name).await;
    }
    Ok(Content::File { name, bytes: written? })
}

async fn write(
    path: &Path,
    first: Bytes,
    mut body: Body,
    limit: usize,
    patience: Duration,
) -> Result<u64, ApiError> {
    let failed = |error: io::Error| {
        tracing::error!(%error, path = %path.display(), "a checkpoint could not be written");
        ApiError::store_unavailable()
    };
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).await.map_err(failed)?;
    }
    let mut file = File::create(path).await.map_err(failed)?;
    let mut length = first.len();
    file.write_all(&first).await.map_err(failed)?;
    while let Some(piece) = next(&mut body, patience).await? {
        length += piece.len();
        if length > limit {
            return Err(ApiError::too_large(limit));
        }
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.sync_all().await.map_err(failed)?;
    // The name must outlive a loss of power as the content does.
    if let Some(directory) = path.parent() {
        File::open(directory).await.map_err(failed)?.sync_all().await.map_err(failed)?;
    }
    Ok(length as u64)
}

/// The content of a file as a body.
pub(crate) async fn send(directory: &Path, name: &str) -> io::Result<Body> {
    let file = File::open(path(directory, name)).await?;
    let pieces = stream::unfold(Some(file), |file| async move {
        let mut file = file?;
        let mut piece = BytesMut::with_capacity(PIECE);
        match file.read_buf(&mut piece).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(piece.freeze()), Some(file))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(Body::from_stream(pieces))
}

/// Removes a file that is no longer named.
pub(crate) async fn remove(directory: &Path, name: &str) {
    let path = path(directory, name);
    if let Err(error) = fs::remove_file(&path).await
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "an old checkpoint could not be removed");
    }
}
