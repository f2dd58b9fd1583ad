//! `muster events`.

use std::time::Duration;

use muster_client::Client;
use muster_protocol::{Event, Job};

use crate::args::EventsArgs;
use crate::exit;
use crate::follow::{Patience, all_events};
use crate::job_reference::named;
use crate::output::{Screen, event_line, json, note};
use crate::set_reference::{JobOrGang, resolve_job_or_gang};
use crate::settings::Settings;

/// How often the events of a gang are looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(crate) async fn run(args: &EventsArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let job = match &args.job {
        Some(job) => Some(resolve_job_or_gang(&client, job).await?),
        None => None,
    };
    let screen = settings.screen;
    match job {
        Some(JobOrGang::Job(id)) if !args.follow => {
            list(&named(client.job_events(&id, 0).await, &id, &client)?, screen)
        }
        Some(JobOrGang::Gang(id)) if !args.follow => {
            let tasks = named(client.gang(&id).await, &id, &client)?;
            let events = named(all_events(&client, &id).await, &id, &client)?;
            if screen.json {
                return list(&events, screen);
            }
            for event in &events {
                screen.line(&ranked(event, &tasks, screen))?;
            }
            Ok(exit::OK)
        }
        Some(JobOrGang::Job(id)) => {
            named(client.job(&id).await, &id, &client)?;
            follow(&client, Some(&id), Some(0), screen).await
        }
        Some(JobOrGang::Gang(id)) => follow_gang(&client, &id, screen).await,
        None => follow(&client, None, None, screen).await,
    }
}

fn list(events: &[Event], screen: Screen) -> anyhow::Result<u8> {
    if screen.json {
        json::document(&events)?;
    } else {
        for event in events {
            screen.line(&event_line(event, screen))?;
        }
    }
    Ok(exit::OK)
}

/// An event with the number of the task that it happened to.
fn ranked(event: &Event, tasks: &[Job], screen: Screen) -> String {
    let rank = tasks.iter().find(|task| Some(&task.id) == event.job_id.as_ref()).map(|task| task.gang_index);
    let width = tasks.len().saturating_sub(1).to_string().len();
    let label = rank.map_or_else(String::new, |rank| format!("[{rank:>width$}] "));
    let room = screen.width.map(|width| width.saturating_sub(label.len() as u16));
    format!("{label}{}", event_line(event, Screen { width: room, ..screen }))
}

/// The events of all tasks, looked for again and again: the stream is that of one job or of all.
async fn follow_gang(client: &Client, id: &str, screen: Screen) -> anyhow::Result<u8> {
    let tasks = named(client.gang(id).await, id, client)?;
    let mut patience = Patience::default();
    let mut after = 0;
    loop {
        match client.gang_events(id, after).await {
            Ok(mut events) => {
                patience.restore();
                events.retain(|event| event.id > after);
                for event in &events {
                    after = event.id;
                    if screen.json {
                        json::line(event)?;
                    } else {
                        screen.line(&ranked(event, &tasks, screen))?;
                    }
                }
                if events.is_empty() {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            }
            Err(error) => patience.bear(error).await?,
        }
    }
}

/// Prints events until somebody ends the program, through restarts of the scheduler.
async fn follow(
    client: &Client,
    job_id: Option<&str>,
    mut after: Option<u64>,
    screen: Screen,
) -> anyhow::Result<u8> {
    let mut patience = Patience::default();
    loop {
        let mut events = match client.follow_events(job_id, after).await {
            Ok(events) => events,
            Err(error) => {
                patience.bear(error).await?;
                continue;
            }
        };
        patience.restore();
        loop {
            match events.next().await {
                Ok(Some(event)) => {
                    for gap in events.take_gaps() {
                        let (first, last) = (gap.after + 1, gap.first - 1);
                        note(&format!(
                            "events {first} to {last} are missing: they were removed with their jobs"
                        ));
                    }
                    after = Some(event.id);
                    print(&event, screen)?;
                }
                Ok(None) => break,
                Err(error) => {
                    patience.bear(error).await?;
                    break;
                }
            }
        }
    }
}

fn print(event: &Event, screen: Screen) -> std::io::Result<()> {
    if screen.json { json::line(event) } else { screen.line(&event_line(event, screen)) }
}
