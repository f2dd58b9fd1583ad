//! `muster events`.

use muster_client::Client;
use muster_protocol::Event;

use crate::args::EventsArgs;
use crate::exit;
use crate::follow::Patience;
use crate::job_reference::{named, resolve};
use crate::output::{Screen, event_line, json, note};
use crate::settings::Settings;

pub(crate) async fn run(args: &EventsArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let job = match &args.job {
        Some(job) => Some(resolve(&client, job).await?),
        None => None,
    };
    let screen = settings.screen;
    match job {
        Some(id) if !args.follow => {
            let events = named(client.job_events(&id, 0).await, &id, &client)?;
            if screen.json {
                json::document(&events)?;
            } else {
                for event in &events {
                    screen.line(&event_line(event, screen))?;
                }
            }
            Ok(exit::OK)
        }
        Some(id) => {
            named(client.job(&id).await, &id, &client)?;
            follow(&client, Some(&id), Some(0), screen).await
        }
        None => follow(&client, None, None, screen).await,
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
