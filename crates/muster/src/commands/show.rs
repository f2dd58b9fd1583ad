//! `muster show`.

use jiff::Timestamp;
use muster_protocol::{Event, Job};
use serde::Serialize;

use crate::args::ShowArgs;
use crate::exit;
use crate::job_reference::{named, resolve};
use crate::output::{job_details, json, timeline};
use crate::settings::Settings;

/// The job with its history, as one document.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    job: &'a Job,
    events: &'a [Event],
}

pub(crate) async fn run(args: &ShowArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let id = resolve(&client, &args.job).await?;
    let job = named(client.job(&id).await, &id, &client)?;
    let events = named(client.job_events(&id, 0).await, &id, &client)?;
    let screen = settings.screen;
    if screen.json {
        json::document(&Shown { job: &job, events: &events })?;
        return Ok(exit::OK);
    }
    screen.line(&job_details(&job, Timestamp::now(), screen))?;
    if !events.is_empty() {
        screen.line(&format!("\n{}", timeline(&events, screen)))?;
    }
    Ok(exit::OK)
}
