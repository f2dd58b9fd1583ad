//! The output of one attempt, handed on as it comes.
//!
//! Guarantee: every piece once and in order, also across lost connections; what is missing is said in
//! its place.

use std::time::Duration;

use muster_client::{Client, ClientError, LogItem, LogQuery, LogReader, status_name};
use muster_protocol::{Job, LogGap};

use super::feed::News;
use super::model::Message;
use crate::exit;

/// What is there already is read from this many lines before its end.
const TAIL: u64 = 5000;
/// Between two attempts to reach a scheduler that is away.
const AWAY: Duration = Duration::from_secs(1);
/// How often the job of an attempt that is over is looked at for its next one.
const NEXT_ATTEMPT: Duration = Duration::from_secs(1);

/// Hands on the output of one attempt to its end; then waits for the next attempt or the end of the job.
pub(super) async fn follow_output(
    client: &Client,
    job_id: &str,
    attempt: u32,
    news: &News,
) -> Result<Message, ClientError> {
    copy(client, job_id, attempt, news).await?;
    loop {
        let job = match client.job(job_id).await {
            Ok(job) => job,
            Err(error) if error.is_transient() => {
                tokio::time::sleep(AWAY).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        if job.attempts > attempt && !exit::is_final(job.status) {
            return Ok(Message::Attempt { job_id: job_id.to_owned(), number: job.attempts });
        }
        if exit::is_final(job.status) || job.attempts != attempt {
            return Ok(ended(job_id, attempt, how_it_ended(&job, attempt)));
        }
        let waiting = format!("attempt {attempt} has ended; the job is {}", status_name(job.status));
        let _ = news.send(ended(job_id, attempt, waiting)).await;
        tokio::time::sleep(NEXT_ATTEMPT).await;
    }
}

/// Goes on where it was whenever the stream breaks off.
async fn copy(client: &Client, job_id: &str, attempt: u32, news: &News) -> Result<(), ClientError> {
    let mut query = LogQuery {
        job_id: job_id.to_owned(),
        attempt: Some(attempt),
        tail: Some(TAIL),
        follow: true,
        ..LogQuery::default()
    };
    loop {
        match client.log_stream(&query).await {
            Ok(mut reader) => {
                if hand_on(&mut reader, job_id, attempt, news).await? {
                    return Ok(());
                }
                query.cursor = reader.cursor().map(str::to_owned).or(query.cursor);
            }
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(AWAY).await;
    }
}

/// True when the output has come to its end, or nobody wants it any more.
async fn hand_on(
    reader: &mut LogReader,
    job_id: &str,
    attempt: u32,
    news: &News,
) -> Result<bool, ClientError> {
    loop {
        let piece = match reader.next().await {
            Ok(Some(LogItem::Output { stream, offset, bytes, .. })) => {
                Message::Output { job_id: job_id.to_owned(), attempt, stream, offset, bytes: bytes.to_vec() }
            }
            Ok(Some(LogItem::Gap(gap))) => Message::Output {
                job_id: job_id.to_owned(),
                attempt,
                stream: gap.stream,
                offset: gap.offset,
                bytes: marker(&gap).into_bytes(),
            },
            Ok(Some(LogItem::End)) => return Ok(true),
            Ok(None) => return Ok(false),
            Err(error) if error.is_transient() => return Ok(false),
            Err(error) => return Err(error),
        };
        if news.send(piece).await.is_err() {
            return Ok(true);
        }
    }
}

fn marker(gap: &LogGap) -> String {
    format!("\n[{} bytes of output are missing here]\n", gap.bytes)
}

fn ended(job_id: &str, attempt: u32, how: String) -> Message {
    Message::OutputEnded { job_id: job_id.to_owned(), attempt, how }
}

fn how_it_ended(job: &Job, attempt: u32) -> String {
    if job.attempts != attempt {
        return format!("attempt {attempt} has ended");
    }
    let reason = job.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{}{reason}", status_name(job.status))
}
