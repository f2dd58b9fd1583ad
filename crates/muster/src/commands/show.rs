//! `muster show`: a job, a gang, a pipeline or an array.

use jiff::Timestamp;
use muster_client::{ArtifactQuery, Client, JobFilter};
use muster_protocol::{Event, Job, JobSet, JobStatus, Pipeline};
use serde::Serialize;

use crate::args::ShowArgs;
use crate::exit;
use crate::follow::all_events;
use crate::job_reference::named;
use crate::output::{
    GangDocument, array_details, artifact_summary, gang_details, job_details, json, pipeline_tree, timeline,
};
use crate::set_reference::{Named, resolve_any};
use crate::settings::Settings;

/// Failed elements that are named; the others are counted.
const FAILURES: u32 = 1000;

/// The job with its history, as one document.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    job: &'a Job,
    events: &'a [Event],
}

pub(crate) async fn run(args: &ShowArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match resolve_any(&client, &args.id).await? {
        Named::Job(id) => show_job(&client, &id, settings).await?,
        Named::Gang(id) => show_gang(&client, &id, settings).await?,
        Named::Pipeline(pipeline) => show_pipeline(&pipeline, settings)?,
        Named::Array(array) => show_array(&client, &array, settings).await?,
    }
    Ok(exit::OK)
}

async fn show_job(client: &Client, id: &str, settings: &Settings) -> anyhow::Result<()> {
    let job = named(client.job(id).await, id, client)?;
    let events = named(client.job_events(id, 0).await, id, client)?;
    let screen = settings.screen;
    if screen.json {
        json::document(&Shown { job: &job, events: &events })?;
        return Ok(());
    }
    screen.line(&job_details(&job, Timestamp::now(), screen))?;
    if job.lease > 0 {
        let left = named(client.artifacts(id, &ArtifactQuery::default()).await, id, client)?;
        if left.files + left.missing > 0 {
            screen.line(&format!("{:<12}{}", "artifacts:", artifact_summary(&left)))?;
        }
    }
    if !events.is_empty() {
        screen.line(&format!("\n{}", timeline(&events, screen)))?;
    }
    Ok(())
}

async fn show_gang(client: &Client, id: &str, settings: &Settings) -> anyhow::Result<()> {
    let tasks = named(client.gang(id).await, id, client)?;
    let events = named(all_events(client, id).await, id, client)?;
    let screen = settings.screen;
    if screen.json {
        json::document(&GangDocument::new(id, &tasks, &events).with_events(&events))?;
        return Ok(());
    }
    screen.line(&gang_details(id, &tasks, &events, Timestamp::now(), screen))?;
    Ok(())
}

fn show_pipeline(pipeline: &Pipeline, settings: &Settings) -> anyhow::Result<()> {
    if settings.screen.json {
        json::document(pipeline)?;
    } else {
        settings.screen.line(&pipeline_tree(pipeline, Timestamp::now(), settings.screen))?;
    }
    Ok(())
}

async fn show_array(client: &Client, array: &JobSet, settings: &Settings) -> anyhow::Result<()> {
    if settings.screen.json {
        json::document(array)?;
        return Ok(());
    }
    let failed = if array.counts.contains_key(&JobStatus::Failed) {
        client.jobs(&failed_of(&array.id)).await?.jobs
    } else {
        Vec::new()
    };
    settings.screen.line(&array_details(array, &failed, Timestamp::now(), settings.screen))?;
    Ok(())
}

/// The elements of an array that failed, as far as they are named.
pub(super) fn failed_of(array: &str) -> JobFilter {
    JobFilter {
        statuses: vec![JobStatus::Failed],
        array: Some(array.to_owned()),
        limit: Some(FAILURES),
        ..JobFilter::default()
    }
}
