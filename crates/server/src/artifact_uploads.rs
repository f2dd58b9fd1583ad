//! Artifacts that their holder sends straight to the blob store: places for them, and the check of what came.
//!
//! Guarantees: the key of a file follows from job, lease, name and content, so that a worker finds after a crash
//! what has arrived; a link takes the announced content only; a file is listed after the store has said that it is there.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use muster_blob::{BlobError, BlobKey, Link, SentPart, Sha256};
use muster_domain::{Artifact, ArtifactContent, Caller, Job, JobId, check_artifact_name};
use muster_protocol::{
    ArrivedPart, ArtifactPlace, BlobLink, CompletedArtifact, OfferedArtifact, SentArtifact,
};
use muster_store::{ArtifactFilter, StoreExt as _};

use crate::app::App;
use crate::artifacts::{self, announced, check_room, folder, guess, holder};
use crate::error::ApiError;

/// How long a link works.
const LINK: Duration = Duration::from_secs(3600);
/// Files of one request, and parts of one file.
pub(crate) const MOST_FILES: usize = 200;
const MOST_PARTS: usize = 200;
/// Files that the store is asked about at the same time.
const AT_ONCE: usize = 8;
/// What S3 takes for a part, in bytes, and how many parts.
const LEAST_PART: u64 = 5 * 1024 * 1024;
const LARGEST_PART: u64 = 5 * 1024 * 1024 * 1024;
const MOST_PARTS_OF_ALL: u64 = 10_000;

/// Whether files can be sent straight to the store.
pub(crate) async fn is_direct(app: &App) -> bool {
    app.config.blobs.direct && app.blobs.checks_content_once().await
}

/// A file as a request names it.
#[derive(Debug, Clone, Copy)]
struct Named<'a> {
    name: &'a str,
    size: u64,
    sha256: Sha256,
    part_size: Option<u64>,
}

impl<'a> Named<'a> {
    fn new(name: &'a str, size: u64, sha256: &str, part_size: Option<u64>) -> Result<Self, ApiError> {
        let wrong =
            |why: String| ApiError::bad_request("invalid_name", format!("{name:?}: {why}")).at("name");
        check_artifact_name(name).map_err(|why| wrong(why.to_string()))?;
        let sha256 = announced(Some(sha256))?.ok_or_else(ApiError::internal)?;
        if let Some(part) = part_size {
            let fits =
                (LEAST_PART..=LARGEST_PART).contains(&part) && size.div_ceil(part) <= MOST_PARTS_OF_ALL;
            if !fits {
                let message = format!("{size} bytes cannot be sent in parts of {part}");
                return Err(ApiError::bad_request("invalid_parameter", message).at("part_size"));
            }
        }
        Ok(Self { name, size, sha256, part_size })
    }

    /// The key of this content under this name of this attempt.
    fn key(&self, job: &Job) -> Result<BlobKey, ApiError> {
        let said = format!("{}\n{}\n{:?}\n{}", self.sha256, self.size, self.part_size, self.name);
        let own = Sha256::of(said.as_bytes());
        BlobKey::new(format!("{}{}/d{own}", folder(job.id), job.lease.0)).map_err(|_| ApiError::internal())
    }

    /// Bytes of a part, numbered from 1.
    fn length(&self, number: u16) -> Option<u64> {
        let size = self.part_size?;
        let before = size.checked_mul(u64::from(number.checked_sub(1)?))?;
        (before < self.size).then(|| size.min(self.size - before))
    }
}

/// Tells where files are to be sent; a refusal of one is no refusal of the others.
pub(crate) async fn places(
    app: &App,
    job: JobId,
    caller: &Caller,
    files: &[OfferedArtifact],
) -> Result<Vec<ArtifactPlace>, ApiError> {
    let job = holder(app, job, caller).await?;
    let asked: Vec<BoxFuture<'_, _>> = files.iter().map(|file| place(app, &job, file).boxed()).collect();
    let found: Vec<Result<ArtifactPlace, ApiError>> =
        futures::stream::iter(asked).buffered(AT_ONCE).collect().await;
    found.into_iter().map(|place| place.or_else(|error| of_one(&error).map(refused))).collect()
}

fn refused(why: String) -> ArtifactPlace {
    ArtifactPlace { refused: Some(why), ..ArtifactPlace::default() }
}

/// What is wrong with one file, in words; what is wrong with the store or the caller concerns all.
fn of_one(error: &ApiError) -> Result<String, ApiError> {
    const OF_ONE: [&str; 7] = [
        "artifacts_full",
        "too_many_artifacts",
        "artifact_too_large",
        "invalid_name",
        "invalid_parameter",
        "wrong_content",
        "artifact_gone",
    ];
    if OF_ONE.contains(&error.code) { Ok(error.message.to_string()) } else { Err(error.clone()) }
}

async fn place(app: &App, job: &Job, file: &OfferedArtifact) -> Result<ArtifactPlace, ApiError> {
    let named = Named::new(&file.name, file.size, &file.sha256, file.part_size)?;
    let key = named.key(job)?;
    if let Some(upload) = &file.upload {
        return links(app, (&key, upload), &named, file);
    }
    if is_kept(app, job, &named).await? {
        return Ok(ArtifactPlace { kept: true, ..ArtifactPlace::default() });
    }
    if let Some(limit) = app.config.blobs.artifact_limit.filter(|limit| named.size > *limit) {
        return Err(ApiError::artifact_too_large(limit));
    }
    check_room(app, job, named.name, named.size).await?;
    if named.part_size.is_none() {
        let put = app.blobs.put_link(&key, named.sha256, LINK).map(link);
        return Ok(ArtifactPlace { put, ..ArtifactPlace::default() });
    }
    let begun = app.blobs.take_up(&key).await.map_err(artifacts::refusal)?;
    let (upload, there) = begun.ok_or_else(ApiError::internal)?;
    let whole = there.into_iter().filter(|part| named.length(part.number) == Some(part.size));
    let there = whole.map(|part| ArrivedPart { number: part.number, etag: part.etag }).collect();
    Ok(ArtifactPlace { upload: Some(upload), there, ..ArtifactPlace::default() })
}

fn links(
    app: &App,
    at: (&BlobKey, &str),
    named: &Named<'_>,
    file: &OfferedArtifact,
) -> Result<ArtifactPlace, ApiError> {
    let wrong = |message: &str| ApiError::bad_request("invalid_parameter", message.to_owned()).at("parts");
    if file.parts.len() > MOST_PARTS {
        return Err(wrong("at most 200 parts can be asked for at a time"));
    }
    let mut parts = Vec::new();
    for part in &file.parts {
        if named.length(part.number).is_none() {
            return Err(wrong("the file has no such part"));
        }
        let sha256 = announced(Some(&part.sha256))?.ok_or_else(ApiError::internal)?;
        parts.extend(app.blobs.part_link(at, part.number, sha256, LINK).map(link));
    }
    Ok(ArtifactPlace { parts, ..ArtifactPlace::default() })
}

fn link(link: Link) -> BlobLink {
    let headers = link.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    BlobLink { url: link.url, headers }
}

/// Whether the attempt has left this very content under this name before.
async fn is_kept(app: &App, job: &Job, named: &Named<'_>) -> Result<bool, ApiError> {
    let name = Some(named.name.to_owned());
    let filter = ArtifactFilter { name, limit: 1, ..ArtifactFilter::of(job.id, job.lease) };
    let found: Option<Artifact> = app.store.artifacts(filter).await?.pop();
    Ok(found.is_some_and(|found| match found.content {
        ArtifactContent::Kept { size, sha256, .. } => {
            size == named.size && sha256 == named.sha256.to_string()
        }
        _ => false,
    }))
}

/// Lists files that were sent, once the store has them.
pub(crate) async fn complete(
    app: &App,
    id: JobId,
    caller: &Caller,
    files: &[SentArtifact],
) -> Result<Vec<CompletedArtifact>, ApiError> {
    let job = holder(app, id, caller).await?;
    let asked: Vec<BoxFuture<'_, _>> = files.iter().map(|file| arrived(app, &job, file).boxed()).collect();
    let found: Vec<Result<(String, ArtifactContent), ApiError>> =
        futures::stream::iter(asked).buffered(AT_ONCE).collect().await;
    let there: Vec<(String, ArtifactContent)> = found.iter().filter_map(|one| one.clone().ok()).collect();
    // Files that are too much for a bound are refused together; then each is tried by itself.
    let together = match artifacts::list(app, id, caller.clone(), there.clone()).await {
        Err(error) if of_one(&error).is_ok() => false,
        other => other.map(|()| true)?,
    };
    let mut answers = Vec::new();
    for one in found {
        answers.push(match one {
            Ok(_) if together => CompletedArtifact::default(),
            Ok(file) => alone(app, &job, caller, file).await?,
            Err(error) => {
                let again = error.code == "artifact_gone" || error.code == "wrong_content";
                CompletedArtifact { refused: Some(of_one(&error)?), again }
            }
        });
    }
    Ok(answers)
}

/// Lists one file. The bytes of one that is refused are removed.
async fn alone(
    app: &App,
    job: &Job,
    caller: &Caller,
    (name, content): (String, ArtifactContent),
) -> Result<CompletedArtifact, ApiError> {
    let blob = match &content {
        ArtifactContent::Kept { blob, .. } => vec![blob.clone()],
        _ => Vec::new(),
    };
    match artifacts::list(app, job.id, caller.clone(), vec![(name, content)]).await {
        Ok(()) => Ok(CompletedArtifact::default()),
        Err(error) => {
            let why = of_one(&error)?;
            artifacts::remove(app, &blob).await;
            Ok(CompletedArtifact { refused: Some(why), again: false })
        }
    }
}

/// Makes sure that a file is there, and says what is to be listed.
async fn arrived(app: &App, job: &Job, file: &SentArtifact) -> Result<(String, ArtifactContent), ApiError> {
    let named = Named::new(&file.name, file.size, &file.sha256, file.part_size)?;
    let key = named.key(job)?;
    let mut digests = Vec::new();
    if let Some(upload) = &file.upload {
        let mut parts = Vec::new();
        for part in &file.parts {
            let sha256 = announced(Some(&part.sha256))?.ok_or_else(ApiError::internal)?;
            digests.push(sha256);
            parts.push(SentPart { etag: part.etag.clone(), sha256: Some(sha256) });
        }
        app.blobs.complete((&key, upload), &parts, named.size).await.map_err(incomplete)?;
    }
    // What is there and is something else is swept: nothing names it.
    app.blobs.check(&key, named.size, named.sha256, &digests).await.map_err(artifacts::refusal)?;
    let content = ArtifactContent::Kept {
        blob: key.as_str().to_owned(),
        size: named.size,
        sha256: named.sha256.to_string(),
        content_type: guess(named.name).to_owned(),
    };
    Ok((named.name.to_owned(), content))
}

/// An upload that S3 does not know, or whose parts are not there, is begun anew.
fn incomplete(error: BlobError) -> ApiError {
    match &error {
        BlobError::Refused { status, .. } if *status < 500 && *status != 429 && *status != 403 => {
            ApiError::bad_request("wrong_content", error.to_string())
        }
        _ => artifacts::refusal(error),
    }
}
