//! `POST /jobs/{id}/image`: what the worker that holds a job says about the image of its container.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_domain::Span;
use muster_domain::image::{ImageNote, Pulled};
use muster_protocol::ImageReport;
use muster_store::Command;

use crate::app::Shared;
use crate::body::read_body;
use crate::error::ApiError;
use crate::extract::{Call, JobPath, empty};
use crate::lenient::{self, lenient_object};
use crate::submission::check_text;

/// Longer than any digest.
const DIGEST_BYTES: usize = 256;
/// The most that is believed of a pull: a pebibyte, and thirty years.
const MOST_BYTES: u64 = 1 << 50;
const MOST_SECONDS: f64 = 1e9;

lenient_object! {
    struct PullBody { bytes: u64 = "bytes", total_bytes: u64 = "total_bytes" }
}

lenient_object! {
    struct PulledBody { bytes: u64 = "bytes", seconds: f64 = "seconds" }
}

lenient_object! {
    struct ImageBody { pulling: PullBody = "pulling", digest: String = "digest", pulled: PulledBody = "pulled" }
}

/// Says how far the pull of the job's image is, or which image its container runs.
#[utoipa::path(
    post, path = "/jobs/{id}/image", tag = "reports", request_body = ImageReport, params(
        ("id" = String, Path), ("lease" = Option<u64>, Query), ("worker_id" = Option<String>, Query),
    ),
    responses((status = 200, description = "Written down"))
)]
pub(crate) async fn note_image(
    State(app): State<Shared>,
    JobPath(id): JobPath,
    call: Call,
    body: Body,
) -> Result<Response, ApiError> {
    let bytes = read_body(&app, body, app.config.limits.body).await?;
    let note = note(lenient::decode(&bytes, call.reading())?)?;
    app.batcher.submit_one(Command::NoteImage { job: id, caller: call.caller()?, note }).await?;
    Ok(empty(StatusCode::OK))
}

fn note(said: ImageBody) -> Result<ImageNote, ApiError> {
    let real = |bytes: Option<u64>| bytes.unwrap_or(0).min(MOST_BYTES);
    match (said.digest, said.pulling) {
        (Some(digest), _) => {
            check_text("digest", &digest, DIGEST_BYTES)?;
            let pulled = said.pulled.map(|pulled| {
                let seconds = pulled.seconds.unwrap_or(0.0).clamp(0.0, MOST_SECONDS);
                Pulled { bytes: real(pulled.bytes), took: Span::from_micros((seconds * 1e6) as u64) }
            });
            Ok(ImageNote::Ready { digest: digest.into(), pulled })
        }
        (None, Some(pull)) => {
            Ok(ImageNote::Pulling { bytes: real(pull.bytes), total: real(pull.total_bytes) })
        }
        (None, None) => Err(ApiError::bad_request("invalid_body", "the body has neither pulling nor digest")),
    }
}
