//! The body of a delivery.

use bytes::Bytes;
use muster_domain as domain;
use muster_protocol::{Event, EventData, WebhookPayload};

use crate::error::ApiError;
use crate::{clock, view};

/// An event with its job as it is now, without the checkpoint, which can be large.
pub(crate) fn payload(event: &domain::Event, job: Option<&domain::Job>) -> Result<Bytes, ApiError> {
    write(&WebhookPayload { event: view::event(event), job: job.map(|job| view::job(job, None)) })
}

/// What a test delivery carries: an event that is in no log.
pub(crate) fn test_payload(now: domain::Timestamp) -> Result<Bytes, ApiError> {
    let event = Event {
        id: 0,
        at: clock::to_wire(now),
        kind: "test".to_owned(),
        job_id: None,
        worker_id: None,
        by: None,
        data: EventData::new(),
    };
    write(&WebhookPayload { event, job: None })
}

fn write(payload: &WebhookPayload) -> Result<Bytes, ApiError> {
    serde_json::to_vec(payload).map(Bytes::from).map_err(|error| {
        tracing::error!(%error, "a delivery could not be written");
        ApiError::internal()
    })
}
