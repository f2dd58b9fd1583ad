//! Calls on events: the history of a job, and the live stream.

use std::collections::VecDeque;

use http::Method;
use muster_protocol::{Event, EventGap};

use crate::base_url::encode;
use crate::call::{Call, Client, decode};
use crate::error::ClientError;
use crate::event_stream::Parser;
use crate::jobs::Query;
use crate::output::next_data;
use crate::transport::Body;

/// Events as they happen, oldest first.
#[derive(Debug)]
pub struct EventReader {
    body: Body,
    url: String,
    parser: Parser,
    ready: VecDeque<Event>,
    gaps: Vec<EventGap>,
}

impl EventReader {
    /// Where events were missing among those that have been read, since this was last asked.
    pub fn take_gaps(&mut self) -> Vec<EventGap> {
        std::mem::take(&mut self.gaps)
    }

    /// The next event; `None` when the scheduler ends the stream, as it does when it stops.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let Some(bytes) = next_data(&mut self.body, &self.url).await? else { return Ok(None) };
            for message in self.parser.feed(&bytes) {
                match message.kind.as_str() {
                    "gap" => self.gaps.push(decode("/events", message.data.as_bytes())?),
                    // The scheduler ends the stream after this.
                    "dropped" => {}
                    _ => self.ready.push_back(decode("/events", message.data.as_bytes())?),
                }
            }
        }
    }
}

impl Client {
    /// What has happened to a job, oldest first, after the event with this id (0 for all).
    pub async fn job_events(&self, id: &str, after: u64) -> Result<Vec<Event>, ClientError> {
        let mut query = Query::of(format!("/jobs/{}/events", encode(id)));
        if after > 0 {
            query.add("after", &after.to_string());
        }
        self.exchange(Call::new(Method::GET, query.path)).await
    }

    /// Events after the one with this id, then new ones as they come; without `after` only new ones.
    /// With a job, only its own.
    pub async fn follow_events(
        &self,
        job_id: Option<&str>,
        after: Option<u64>,
    ) -> Result<EventReader, ClientError> {
        let mut query = Query::of("/events");
        query.add_some("job_id", job_id);
        query.add_some("after", after.map(|id| id.to_string()).as_deref());
        let body = self.open_stream(Call::new(Method::GET, query.path)).await?;
        Ok(EventReader {
            body,
            url: self.url().to_owned(),
            parser: Parser::default(),
            ready: VecDeque::new(),
            gaps: Vec::new(),
        })
    }
}
