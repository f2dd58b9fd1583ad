//! `muster workers`.

use jiff::Timestamp;

use crate::args::{WorkerAction, WorkerArgs};
use crate::exit;
use crate::output::{human, json, note, worker_details};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<u8> {
    let mut workers = settings.client()?.workers().await?;
    workers.sort_by(|one, other| one.id.cmp(&other.id));
    let screen = settings.screen;
    if screen.json {
        json::document(&workers)?;
    } else if workers.is_empty() {
        note("no workers; start one with `muster-worker --scheduler URL`");
    } else {
        screen.line(&human::workers(&workers, Timestamp::now(), screen))?;
        for text in workers.iter().filter_map(|worker| human::quarantine(worker, screen.zone)) {
            note(&text);
        }
    }
    Ok(exit::OK)
}

/// `muster worker`.
pub(crate) async fn act(args: &WorkerArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match &args.action {
        WorkerAction::Show { worker } => {
            let found = client.workers().await?.into_iter().find(|known| known.id == *worker);
            let Some(found) = found else { return Err(unknown(worker, client.url())) };
            if settings.screen.json {
                json::document(&found)?;
            } else {
                settings.screen.line(&worker_details::worker(&found, Timestamp::now(), settings.screen))?;
            }
        }
        WorkerAction::Release { worker } => {
            let released = client.release_worker(worker).await.map_err(|error| match error.status() {
                Some(status) if status.as_u16() == 404 => unknown(worker, client.url()),
                _ => anyhow::Error::new(error),
            })?;
            if settings.screen.json {
                json::document(&released)?;
            } else {
                settings.screen.line(&format!("{} gets jobs again", released.id))?;
            }
        }
    }
    Ok(exit::OK)
}

fn unknown(worker: &str, url: &str) -> anyhow::Error {
    anyhow::anyhow!("there is no worker {worker:?} at {url}; `muster workers` lists them")
}
