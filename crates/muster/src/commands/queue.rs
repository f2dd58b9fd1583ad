//! `muster queue`.

use muster_protocol::{Queue, QueueUpdate};

use crate::args::{QueueAction, QueueArgs, QueueSetArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::output::{json, note, queues};
use crate::settings::Settings;

pub(crate) async fn run(args: &QueueArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let queue = match &args.action {
        QueueAction::Ls => return list(settings).await,
        QueueAction::Show { name } => client.queue(name).await?,
        QueueAction::Set(set) => client.update_queue(&set.name, &update(set)?).await?,
        QueueAction::Pause { name } => client.update_queue(name, &paused(true)).await?,
        QueueAction::Resume { name } => client.update_queue(name, &paused(false)).await?,
    };
    print(&[queue], settings)
}

async fn list(settings: &Settings) -> anyhow::Result<u8> {
    let mut all = settings.client()?.queues().await?;
    all.sort_by(|one, other| one.name.cmp(&other.name));
    if settings.screen.json {
        json::document(&all)?;
        return Ok(exit::OK);
    }
    if all.is_empty() {
        note("no queues; one comes with the first job in it, or with `muster queue set`");
        return Ok(exit::OK);
    }
    print(&all, settings)
}

fn print(list: &[Queue], settings: &Settings) -> anyhow::Result<u8> {
    match list {
        [only] if settings.screen.json => json::document(only)?,
        _ => settings.screen.line(&queues(list, settings.screen))?,
    }
    Ok(exit::OK)
}

fn paused(paused: bool) -> QueueUpdate {
    QueueUpdate { paused: Some(paused), ..QueueUpdate::default() }
}

fn update(args: &QueueSetArgs) -> Result<QueueUpdate, UsageError> {
    let update = QueueUpdate {
        paused: None,
        max_queued: args.max_queued.map(crate::args::Limit::into_option),
        rate: args.rate.map(crate::args::Limit::into_option),
    };
    if update == QueueUpdate::default() {
        return Err(UsageError("there is nothing to change; write --max-queued N or --rate N/TIME".into()));
    }
    Ok(update)
}
