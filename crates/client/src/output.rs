//! Reading the kept output of a job, once or as it grows.

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use muster_protocol::LogStream;

use crate::base_url::encode;
use crate::call::{Call, Client, refused};
use crate::error::ClientError;
use crate::jobs::Query;
use crate::transport::Body;

/// Which output to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputQuery {
    pub job_id: String,
    pub stream: LogStream,
    /// The newest attempt when absent.
    pub attempt: Option<u32>,
    /// Go on until the attempt has ended and all of its output was delivered; without an attempt, until
    /// the job has.
    pub follow: bool,
}

/// The bytes of one stream, in order.
#[derive(Debug)]
pub struct OutputReader {
    body: Body,
    url: String,
}

impl OutputReader {
    /// The next piece; `None` at the end. It waits as long as the job is silent.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        next_data(&mut self.body, &self.url).await
    }
}

/// The next bytes of a body; other frames, such as trailers, carry nothing for us.
pub(crate) async fn next_data(body: &mut Body, url: &str) -> Result<Option<Bytes>, ClientError> {
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
            Err(source) => return Err(ClientError::Interrupted { url: url.to_owned(), source }),
        }
    }
    Ok(None)
}

impl Client {
    /// Opens one stream of one attempt.
    pub async fn output(&self, query: &OutputQuery) -> Result<OutputReader, ClientError> {
        let mut target = Query::of(format!("/jobs/{}/logs", encode(&query.job_id)));
        target.add(
            "stream",
            match query.stream {
                LogStream::Stdout => "stdout",
                LogStream::Stderr => "stderr",
            },
        );
        target.add_some("attempt", query.attempt.map(|attempt| attempt.to_string()).as_deref());
        if query.follow {
            target.add("follow", "true");
        }
        let body = self.open_stream(Call::new(Method::GET, target.path)).await?;
        Ok(OutputReader { body, url: self.url().to_owned() })
    }

    /// Opens an answer that is read piece by piece; only its head is bounded in time.
    pub(crate) async fn open_stream(&self, call: Call) -> Result<Body, ClientError> {
        let timeout = call.time_limit();
        let response = tokio::time::timeout(timeout, self.open(call))
            .await
            .unwrap_or_else(|_| Err(ClientError::TimedOut { url: self.url().to_owned(), after: timeout }))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let text = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
        Err(refused(status, &text.unwrap_or_default()))
    }
}
