//! Calls about artifacts: handing them in, listing and reading them.

use std::time::Duration;

use bytes::Bytes;
use http::header::LOCATION;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use muster_protocol::{
    ArtifactCompletion, ArtifactKept, ArtifactList, ArtifactOffer, ArtifactPlaces, ArtifactUrl,
    ArtifactsCompleted, InputFile, InputList,
};

use crate::base_url::encode;
use crate::blob_transport::{BlobClient, counted, watch};
use crate::call::{Call, Client, decode, refused};
use crate::checkpoints::{Proof, with_token};
use crate::error::ClientError;
use crate::jobs::Query;
use crate::output::next_data;
use crate::request_body::Pieces;
use crate::transport::Body;

/// How long nothing may move while an artifact is sent; the scheduler may have to wait for the blob store.
const STANDSTILL: Duration = Duration::from_secs(60);
/// What was sent is looked at file by file.
const COMPLETION: Duration = Duration::from_secs(300);
/// However much moves, it ends some time.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// The longest silence in the middle of an artifact.
const SILENCE: Duration = Duration::from_secs(60);

/// Which artifacts of a job are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArtifactQuery {
    /// The last attempt that left any, unless said.
    pub attempt: Option<u32>,
    /// Those behind this name.
    pub after: Option<String>,
}

/// The bytes of an artifact, in order.
#[derive(Debug)]
pub struct ArtifactReader {
    body: Body,
    url: String,
}

impl ArtifactReader {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        let url = self.url.clone();
        tokio::time::timeout(SILENCE, next_data(&mut self.body, &self.url))
            .await
            .unwrap_or(Err(ClientError::TimedOut { url, after: SILENCE }))
    }
}

fn path(job_id: &str, name: &str) -> String {
    format!("/jobs/{}/artifacts/{}", encode(job_id), encode(name))
}

impl Client {
    /// A page of the artifacts of a job.
    pub async fn artifacts(&self, job_id: &str, query: &ArtifactQuery) -> Result<ArtifactList, ClientError> {
        let mut target = Query::of(format!("/jobs/{}/artifacts", encode(job_id)));
        target.add_some("attempt", query.attempt.map(|attempt| attempt.to_string()).as_deref());
        target.add_some("after", query.after.as_deref());
        let (status, body) = self.whole(Call::new(Method::GET, target.path)).await?;
        // A job without artifacts is told by a status of its own beside the empty list.
        match decode("artifacts", &body) {
            Ok(list) if status.is_success() || status == StatusCode::NOT_FOUND => Ok(list),
            Err(error) if status.is_success() => Err(error),
            _ => Err(refused(status, &body)),
        }
    }

    /// Keeps a file of the attempt that the proof speaks for, and tells what arrived.
    pub async fn put_artifact(
        &self,
        job_id: &str,
        proof: &Proof,
        name: &str,
        (size, pieces): (u64, Pieces),
    ) -> Result<ArtifactKept, ClientError> {
        let mut target = Query::of(path(job_id, name));
        target.add_some("lease", proof.lease.map(|lease| lease.to_string()).as_deref());
        target.add_some("size", Some(&size.to_string()));
        let (pieces, taken) = counted(pieces);
        let call = Call::new(Method::PUT, target.path).pieces(size, pieces);
        let sent = watch(&taken, self.whole(with_token(call, proof)?.timeout(LONGEST)), STANDSTILL).await;
        let late = || ClientError::TimedOut { url: self.url().to_owned(), after: STANDSTILL };
        let (status, body) = sent.unwrap_or_else(|| Err(late()))?;
        if status.is_success() { decode("artifact", &body) } else { Err(refused(status, &body)) }
    }

    /// Says why a file of the attempt could not be kept.
    pub async fn miss_artifact(
        &self,
        job_id: &str,
        proof: &Proof,
        name: &str,
        why: &str,
    ) -> Result<(), ClientError> {
        let mut target = Query::of(path(job_id, name));
        target.add_some("lease", proof.lease.map(|lease| lease.to_string()).as_deref());
        target.add_some("missing", Some(why));
        self.accepted(with_token(Call::new(Method::PUT, target.path), proof)?).await
    }

    /// Asks where files of the attempt are to be sent.
    pub async fn offer_artifacts(
        &self,
        job_id: &str,
        proof: &Proof,
        offer: &ArtifactOffer,
    ) -> Result<ArtifactPlaces, ClientError> {
        let mut target = Query::of(format!("/jobs/{}/artifact-uploads", encode(job_id)));
        target.add_some("lease", proof.lease.map(|lease| lease.to_string()).as_deref());
        let call = Call::new(Method::POST, target.path).json(offer)?;
        self.exchange(with_token(call, proof)?.timeout(STANDSTILL)).await
    }

    /// Says that files were sent to the blob store; they are kept when the answer is good.
    pub async fn complete_artifacts(
        &self,
        job_id: &str,
        proof: &Proof,
        completion: &ArtifactCompletion,
    ) -> Result<ArtifactsCompleted, ClientError> {
        let mut target = Query::of(format!("/jobs/{}/artifact-uploads/complete", encode(job_id)));
        target.add_some("lease", proof.lease.map(|lease| lease.to_string()).as_deref());
        let call = Call::new(Method::POST, target.path).json(completion)?;
        self.exchange(with_token(call, proof)?.timeout(COMPLETION)).await
    }

    /// Opens an artifact at an offset, in the blob store itself where the scheduler leads there and it can be reached, else
    /// through the scheduler.
    pub async fn artifact_from_store(
        &self,
        blobs: &BlobClient,
        (job_id, name): (&str, &str),
        attempt: Option<u32>,
        offset: u64,
    ) -> Result<Option<ArtifactReader>, ClientError> {
        let mut target = Query::of(path(job_id, name));
        target.add_some("attempt", attempt.map(|attempt| attempt.to_string()).as_deref());
        let response = self.open_artifact(target.path, offset).await?;
        let led = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let Some(url) = led.filter(|_| response.status() == StatusCode::TEMPORARY_REDIRECT) else {
            return self.read_artifact(response).await;
        };
        match blobs.get(&url, offset).await {
            Ok(Some(body)) => Ok(Some(ArtifactReader { body, url: "the blob store".to_owned() })),
            Ok(None) => Ok(None),
            // The scheduler reaches it perhaps, or says what is wrong.
            Err(_) => self.artifact(job_id, name, attempt, offset).await,
        }
    }

    /// Opens an artifact at an offset, through the scheduler; `None` when nothing lies behind it.
    pub async fn artifact(
        &self,
        job_id: &str,
        name: &str,
        attempt: Option<u32>,
        offset: u64,
    ) -> Result<Option<ArtifactReader>, ClientError> {
        let mut target = Query::of(path(job_id, name));
        target.add_some("attempt", attempt.map(|attempt| attempt.to_string()).as_deref());
        target.add_some("redirect", Some("false"));
        let response = self.open_artifact(target.path, offset).await?;
        self.read_artifact(response).await
    }

    /// What a job finds when it starts of the artifacts of those that it needs.
    pub async fn job_inputs(&self, job_id: &str) -> Result<InputList, ClientError> {
        self.exchange(Call::new(Method::GET, format!("/jobs/{}/inputs", encode(job_id)))).await
    }

    /// Opens one of them at an offset; `None` when nothing lies behind it.
    pub async fn job_input(
        &self,
        job_id: &str,
        file: &InputFile,
        offset: u64,
    ) -> Result<Option<ArtifactReader>, ClientError> {
        let mut target = Query::of(format!("/jobs/{}/inputs/{}", encode(job_id), encode(&file.name)));
        target.add_some("from", Some(&file.from));
        let response = self.open_artifact(target.path, offset).await?;
        self.read_artifact(response).await
    }

    async fn open_artifact(&self, path: String, offset: u64) -> Result<Response<Body>, ClientError> {
        let mut call = Call::new(Method::GET, path);
        if offset > 0 {
            call = call.header("range", &format!("bytes={offset}-"));
        }
        let after = call.time_limit();
        tokio::time::timeout(after, self.open(call))
            .await
            .unwrap_or_else(|_| Err(ClientError::TimedOut { url: self.url().to_owned(), after }))
    }

    async fn read_artifact(&self, response: Response<Body>) -> Result<Option<ArtifactReader>, ClientError> {
        match response.status() {
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(None),
            status if status.is_success() => {
                Ok(Some(ArtifactReader { body: response.into_body(), url: self.url().to_owned() }))
            }
            status => {
                let text = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                Err(refused(status, &text.unwrap_or_default()))
            }
        }
    }

    /// A link to an artifact that anybody can follow until it expires.
    pub async fn artifact_url(
        &self,
        job_id: &str,
        name: &str,
        attempt: Option<u32>,
        expires: Option<&str>,
    ) -> Result<ArtifactUrl, ClientError> {
        let mut target = Query::of(format!("{}/url", path(job_id, name)));
        target.add_some("attempt", attempt.map(|attempt| attempt.to_string()).as_deref());
        target.add_some("expires", expires);
        self.exchange(Call::new(Method::POST, target.path)).await
    }
}
