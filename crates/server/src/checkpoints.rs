//! Checkpoints on their way in and out: small ones go into the database, larger ones into the blob store where that is shared.
//! Where it is not, or is away, they go into the database in parts where several schedulers share it, else into a file beside
//! the output of their job, which goes when the job goes.
//!
//! Guarantee: a file or object is complete and on disk before the database names it, all parts are there before one of them is
//! read, and what the database no longer names is removed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use http::StatusCode;
use http_body_util::BodyExt as _;
use muster_blob::{BlobError, BlobKey, Expected};
use muster_domain::JobId;
use muster_store::{CheckpointPart, Command, Content, PARTS_PREFIX, Store, StoreExt as _};
use tokio::fs::{self, File};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::app::App;
use crate::error::ApiError;
use crate::{artifacts, ids};

/// What keys of checkpoints begin with.
pub(crate) const CHECKPOINTS: &str = "checkpoints/";
/// The names of checkpoints in the blob store begin with this; what follows is the key.
const OBJECT_PREFIX: &str = "object-";
/// Up to this size a checkpoint is kept in the database.
const SMALL: usize = 64 * 1024;
/// Bytes of a part of a checkpoint in the store.
const PART: usize = 1024 * 1024;
/// Read at a time.
const PIECE: usize = 256 * 1024;

/// The directory that the files of one job are in.
fn path(directory: &Path, name: &str) -> PathBuf {
    directory.join(name)
}

/// Takes a checkpoint in: at most `limit` bytes, each piece within `patience`. Where several schedulers share a store, a
/// large one goes into the store in parts, so that it outlives the scheduler that took it in.
pub(crate) async fn receive(app: &App, job: JobId, mut body: Body) -> Result<Content, ApiError> {
    let (limit, patience) = (app.config.limits.checkpoint, app.config.body_timeout);
    let directory = &app.logs.directory(job);
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
            // While the blob store is known to be away its place is taken: who stops a job does not wait for long.
            if app.config.blobs.is_shared() && app.blobs.outage().is_none() {
                return object_of(app, job, small.freeze(), body).await;
            }
            if app.store.is_shared() {
                return parts(app, job, small, body).await;
            }
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

/// Puts what came and what comes into the blob store, under a name that nothing else has. What is never saved is swept.
async fn object_of(app: &App, job: JobId, first: Bytes, body: Body) -> Result<Content, ApiError> {
    let (limit, patience) = (app.config.limits.checkpoint as u64, app.config.body_timeout);
    let key = format!("{CHECKPOINTS}{}/{}", job.as_uuid().simple(), ids::secret());
    let key = BlobKey::new(key).map_err(|_| ApiError::internal())?;
    let rest = artifacts::content(body, patience, Some(limit.saturating_sub(first.len() as u64)));
    let content = stream::iter([Ok(first)]).chain(rest).boxed();
    let stored = app.blobs.put(&key, content, Expected::default()).await.map_err(|error| {
        if let BlobError::Source(_) = error {
            return match artifacts::refusal(error) {
                told if told.status == StatusCode::PAYLOAD_TOO_LARGE => ApiError::too_large(limit as usize),
                told => told,
            };
        }
        // Sent once more, it goes to where checkpoints lie without a blob store.
        app.blobs.failed(&error);
        artifacts::refusal(error)
    })?;
    Ok(Content::File { name: format!("{OBJECT_PREFIX}{key}").into(), bytes: stored.size })
}

/// The object that a checkpoint of this name lies in.
pub(crate) fn object(name: &str) -> Option<String> {
    name.strip_prefix(OBJECT_PREFIX).map(str::to_owned)
}

/// The content of an object as a body.
pub(crate) async fn send_object(app: &App, key: &str) -> Result<Body, ApiError> {
    let key = BlobKey::new(key).map_err(|_| ApiError::internal())?;
    let reader = app.blobs.get(&key, None).await.map_err(|error| {
        tracing::error!(%error, "a checkpoint could not be read");
        ApiError::blobs_unavailable(
            "the checkpoint lies in the blob store, which is out of reach: try again later",
        )
    })?;
    Ok(Body::from_stream(reader.body.map_err(io::Error::other)))
}

/// Removes what held a checkpoint that is no longer named.
pub(crate) async fn forget(app: &App, job: JobId, name: &str) {
    match object(name) {
        Some(key) => artifacts::remove(app, &[key]).await,
        None => remove(&app.logs.directory(job), name).await,
    }
}

/// Puts what came and what comes into the store, a part at a time. Parts of a checkpoint that is never saved go with the
/// next one that is, or with the job.
async fn parts(app: &App, job: JobId, mut held: BytesMut, mut body: Body) -> Result<Content, ApiError> {
    let (limit, patience) = (app.config.limits.checkpoint, app.config.body_timeout);
    let name: Arc<str> = format!("{PARTS_PREFIX}{}", ids::secret()).into();
    let (mut number, mut bytes, mut ended) = (0, held.len() as u64, false);
    while !ended || !held.is_empty() {
        while !ended && held.len() < PART {
            match next(&mut body, patience).await? {
                Some(piece) => {
                    bytes += piece.len() as u64;
                    if bytes > limit as u64 {
                        return Err(ApiError::too_large(limit));
                    }
                    held.extend_from_slice(&piece);
                }
                None => ended = true,
            }
        }
        let part = held.split_to(held.len().min(PART)).to_vec();
        if !part.is_empty() {
            let part = CheckpointPart { job, name: Arc::clone(&name), number, bytes: part };
            put(app, part).await?;
            number += 1;
        }
    }
    Ok(Content::Parts { name, bytes })
}

/// One part in a transaction of its own: others need not wait until it is on disk.
async fn put(app: &App, part: CheckpointPart) -> Result<(), ApiError> {
    let now = app.config.clock.now();
    let (answer, _) = app.store.apply_one(now, Command::PutPart(part)).await?;
    answer.map(|_| ()).map_err(ApiError::from)
}

/// The content of a checkpoint in parts as a body. One that is replaced meanwhile breaks off.
pub(crate) fn send_parts(store: Arc<dyn Store>, name: Arc<str>, bytes: u64) -> Body {
    let pieces = stream::unfold(Some((0, bytes)), move |place| {
        let (store, name) = (Arc::clone(&store), Arc::clone(&name));
        async move {
            let (number, left) = place.filter(|(_, left)| *left > 0)?;
            match store.part(name, number).await {
                Ok(Some(part)) => {
                    let left = left.saturating_sub(part.len() as u64);
                    Some((Ok(Bytes::from(part)), Some((number + 1, left))))
                }
                Ok(None) => Some((Err(io::Error::other("the checkpoint was replaced")), None)),
                Err(error) => Some((Err(io::Error::other(error)), None)),
            }
        }
    });
    Body::from_stream(pieces)
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
async fn remove(directory: &Path, name: &str) {
    let path = path(directory, name);
    if let Err(error) = fs::remove_file(&path).await
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "an old checkpoint could not be removed");
    }
}
