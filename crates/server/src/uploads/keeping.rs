//! Chunks and manifests on their way into the blob store and out of it.

use std::collections::BTreeMap;

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use muster_blob::BlobError;
use muster_domain::UploadRef;
use muster_protocol::{UploadChunk, UploadEntry, UploadManifest};
use muster_store::{Command, Outcome, UploadCommand, UploadOutcome};
use muster_upload::{Cutter, Digest, FRAME_HEAD, encode_frame, manifest_id};
use tokio::sync::OwnedSemaphorePermit;

use super::place::{chunk_key, manifest_key};
use crate::app::{App, Shared};
use crate::error::ApiError;

/// How many chunks are looked for at the same time.
const LOOKS: usize = 32;
/// How many chunks are read ahead of what is sent.
const AHEAD: usize = 3;

/// What a caller is told of a blob store that does not do as it is asked: its own words may name hosts and files.
pub(crate) fn failed(error: &BlobError) -> ApiError {
    tracing::warn!(%error, "an upload could not be kept or read");
    if error.is_full() { ApiError::store_full(None) } else { ApiError::storage_unavailable() }
}

/// Keeps a chunk whose digest was checked.
pub(crate) async fn keep_chunk(
    app: &App,
    space: &str,
    digest: &Digest,
    chunk: Bytes,
) -> Result<(), ApiError> {
    app.blobs.put_bytes(&chunk_key(space, digest)?, chunk).await.map_err(|error| failed(&error))?;
    Ok(())
}

/// The chunks of a manifest that are not there, each by its first place.
pub(crate) async fn absent(app: &App, space: &str, manifest: &UploadManifest) -> Result<Vec<u32>, ApiError> {
    let mut places: BTreeMap<Digest, (u32, u64)> = BTreeMap::new();
    for (place, chunk) in manifest.chunks.iter().enumerate() {
        let digest = chunk.sha256.parse().map_err(|_| ApiError::internal())?;
        places.entry(digest).or_insert((place as u32, u64::from(chunk.size)));
    }
    let looks = places.into_iter().map(|(digest, (place, size))| async move {
        let found = app.blobs.size(&chunk_key(space, &digest)?).await.map_err(|error| failed(&error))?;
        Ok::<_, ApiError>((found != Some(size)).then_some(place))
    });
    let found: Vec<Option<u32>> = stream::iter(looks).buffer_unordered(LOOKS).try_collect().await?;
    let mut absent: Vec<u32> = found.into_iter().flatten().collect();
    absent.sort_unstable();
    Ok(absent)
}

/// Keeps a manifest under its digest, in the one form that has it.
pub(crate) async fn keep_whole(
    app: &App,
    upload: &UploadRef,
    manifest: &UploadManifest,
) -> Result<(), ApiError> {
    let text = serde_json::to_vec(manifest).map_err(|_| ApiError::internal())?;
    app.blobs.put_bytes(&manifest_key(upload)?, Bytes::from(text)).await.map_err(|error| failed(&error))?;
    Ok(())
}

/// The bytes of a manifest; `None` when it is not there.
pub(crate) async fn manifest(app: &App, upload: &UploadRef) -> Result<Option<Vec<u8>>, ApiError> {
    match app.blobs.get(&manifest_key(upload)?, None).await {
        Ok(reader) => reader.collect().await.map(Some).map_err(|error| failed(&error)),
        Err(BlobError::NotFound { .. }) => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Chunks as the body of an answer, framed one after the other.
pub(crate) fn stream(app: Shared, space: String, wanted: Vec<Digest>, place: OwnedSemaphorePermit) -> Body {
    let frames = stream::iter(wanted).map(move |digest| {
        let (app, space) = (app.clone(), space.clone());
        async move {
            let key = chunk_key(&space, &digest).map_err(|error| std::io::Error::other(error.message))?;
            let reader = app.blobs.get(&key, None).await.map_err(std::io::Error::other)?;
            let chunk = reader.collect().await.map_err(std::io::Error::other)?;
            let mut frame = Vec::with_capacity(chunk.len() + FRAME_HEAD);
            encode_frame(&digest, &chunk, &mut frame);
            Ok::<_, std::io::Error>(Bytes::from(frame))
        }
    });
    // The place is held as long as the answer lives.
    let frames = frames.buffered(AHEAD).inspect(move |_| {
        let _ = &place;
    });
    Body::from_stream(frames)
}

/// Keeps a text as an upload of one file, and returns its id.
pub(crate) async fn keep_text(app: &App, space: &str, text: &str) -> Result<String, ApiError> {
    let bytes = Bytes::copy_from_slice(text.as_bytes());
    let manifest = of_one_file(&bytes);
    let id = manifest_id(&manifest).to_string();
    let upload = UploadRef { space: space.to_owned(), id: id.clone() };
    let declare = UploadCommand::Declare { upload: upload.clone(), files: 1, bytes: bytes.len() as u64 };
    let outcome = app.batcher.submit_one(Command::Uploads(declare)).await?;
    if matches!(outcome, Outcome::Uploads(UploadOutcome::Declared { complete: true })) {
        return Ok(id);
    }
    keep_whole(app, &upload, &manifest).await?;
    let mut at = 0;
    for chunk in &manifest.chunks {
        let end = at + chunk.size as usize;
        let digest = chunk.sha256.parse().map_err(|_| ApiError::internal())?;
        keep_chunk(app, space, &digest, bytes.slice(at..end)).await?;
        at = end;
    }
    app.batcher.submit_one(Command::Uploads(UploadCommand::Complete(upload))).await?;
    Ok(id)
}

fn of_one_file(bytes: &Bytes) -> UploadManifest {
    let mut cutter = Cutter::default();
    cutter.push(bytes);
    let mut chunks = Vec::new();
    while let Some(chunk) = cutter.last_chunk() {
        chunks.push(UploadChunk { sha256: Digest::of(chunk).to_string(), size: chunk.len() as u32 });
    }
    let entry = UploadEntry { path: "stdin".to_owned(), size: bytes.len() as u64, ..UploadEntry::default() };
    UploadManifest { entries: vec![entry], chunks }
}
