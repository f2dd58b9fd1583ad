//! `muster queue`.

use muster_protocol::{Queue, QueueUpdate};

use crate::args::{Limit, QueueAction, QueueArgs, QueueSetArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::output::{json, note, queue_details, queues};
use crate::settings::Settings;

pub(crate) async fn run(args: &QueueArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let queue = match &args.action {
        QueueAction::Ls => return list(settings).await,
        QueueAction::Show { name } => client.queue(name).await?,
        QueueAction::Set(set) => client.update_queue(&set.name, &update(set)?).await?,
        QueueAction::Pause { name } => client.update_queue(name, &paused(true)).await?,
        QueueAction::Rm { name } => {
            client.delete_queue(name).await?;
            note(&format!("queue {name} is gone"));
            return Ok(exit::OK);
        }
        QueueAction::Resume { name } => client.update_queue(name, &paused(false)).await?,
    };
    print(&queue, settings)
}

pub(crate) async fn list(settings: &Settings) -> anyhow::Result<u8> {
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
    settings.screen.line(&queues(&all, settings.screen))?;
    Ok(exit::OK)
}

fn print(queue: &Queue, settings: &Settings) -> anyhow::Result<u8> {
    if settings.screen.json {
        json::document(queue)?;
    } else {
        settings.screen.line(&queue_details(queue, settings.screen))?;
    }
    Ok(exit::OK)
}

fn paused(paused: bool) -> QueueUpdate {
    QueueUpdate { paused: Some(paused), ..QueueUpdate::default() }
}

fn update(args: &QueueSetArgs) -> Result<QueueUpdate, UsageError> {
    let args = args.clone();
    let update = QueueUpdate {
        paused: None,
        max_queued: args.max_queued.map(Limit::into_option),
        rate: args.rate.map(Limit::into_option),
        parent: args.parent.map(Limit::into_option),
        weight: args.weight.map(Limit::into_option),
        nominal: args.nominal.map(Limit::into_option),
        borrow: args.borrow.map(Limit::into_option),
        lend: args.lend.map(Limit::into_option),
        max_running: args.max_running.map(Limit::into_option),
        max_running_per_user: args.max_running_per_user.map(Limit::into_option),
        max_queued_per_user: args.max_queued_per_user.map(Limit::into_option),
        submitters: args.submitters.map(Limit::into_option),
        admins: args.admins.map(Limit::into_option),
        viewers: args.viewers.map(Limit::into_option),
    };
    if update == QueueUpdate::default() {
        let message = "there is nothing to change; write for example --nominal gpus=8 or --max-queued N";
        return Err(UsageError(message.into()));
    }
    Ok(update)
}
