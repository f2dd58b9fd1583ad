//! `muster webhook`.

use anyhow::Context as _;
use jiff::Timestamp;
use muster_client::{Client, LetterChoice};
use muster_protocol::{DeadLetter, DeadLetterCount, Webhook, WebhookRequest};

use crate::args::{DeadLetterAction, DeadLetterArgs, WebhookAction, WebhookAddArgs, WebhookArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::output::{dead_letters, json, note, webhook_details, webhooks};
use crate::settings::Settings;

pub(crate) async fn run(args: &WebhookArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match &args.action {
        WebhookAction::Add(add) => return self::add(add, &client, settings).await,
        WebhookAction::Ls => return list(&client, settings).await,
        WebhookAction::Test { hook } => return test(&find(&client, hook).await?, &client, settings).await,
        WebhookAction::DeadLetters(args) => return letters(args, &client, settings).await,
        WebhookAction::Rm { hook } => {
            let hook = find(&client, hook).await?;
            client.delete_webhook(&hook.id).await?;
            note(&format!("removed {}", hook.id));
        }
        WebhookAction::Show { hook } => show(&find(&client, hook).await?, settings)?,
        WebhookAction::Pause { hook } => {
            let hook = find(&client, hook).await?;
            show(&client.pause_webhook(&hook.id, true).await?, settings)?;
        }
        WebhookAction::Resume { hook } => {
            let hook = find(&client, hook).await?;
            show(&client.pause_webhook(&hook.id, false).await?, settings)?;
        }
    }
    Ok(exit::OK)
}

/// The one webhook whose id begins so.
async fn find(client: &Client, text: &str) -> anyhow::Result<Webhook> {
    let all = client.webhooks().await?;
    let bare = |id: &str| id.trim_start_matches("hook-").to_owned();
    let matches = |hook: &&Webhook| !bare(text).is_empty() && bare(&hook.id).starts_with(&bare(text));
    let found: Vec<&Webhook> = all.iter().filter(matches).collect();
    match found.as_slice() {
        [only] => Ok((*only).clone()),
        [] => anyhow::bail!("there is no webhook {text:?}; `muster webhook ls` lists them"),
        several => {
            let ids: Vec<&str> = several.iter().map(|hook| hook.id.as_str()).collect();
            anyhow::bail!("{text:?} is the beginning of several webhooks: {}", ids.join(", "))
        }
    }
}

fn show(hook: &Webhook, settings: &Settings) -> anyhow::Result<()> {
    if settings.screen.json {
        json::document(hook)?;
    } else {
        settings.screen.line(&webhook_details(hook, Timestamp::now(), settings.screen))?;
    }
    Ok(())
}

async fn add(args: &WebhookAddArgs, client: &Client, settings: &Settings) -> anyhow::Result<u8> {
    let secret = match &args.secret_file {
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("the secret cannot be read from {}", file.display()))?;
            let first = text.lines().next().unwrap_or_default().to_owned();
            if first.is_empty() {
                let problem =
                    format!("the first line of {} is empty; write the secret there", file.display());
                return Err(UsageError(problem).into());
            }
            Some(first)
        }
        None => args.secret.clone(),
    };
    let request = WebhookRequest {
        url: args.receiver.clone(),
        secret,
        events: args.events.clone(),
        queue_name: args.queue.clone(),
        job_name: args.name.clone(),
    };
    let made = client.create_webhook(&request).await?;
    show(&made, settings)?;
    if request.secret.is_none() && !settings.screen.json {
        note("keep the secret: it is not shown again");
    }
    Ok(exit::OK)
}

async fn list(client: &Client, settings: &Settings) -> anyhow::Result<u8> {
    let all = client.webhooks().await?;
    if settings.screen.json {
        json::document(&all)?;
    } else if all.is_empty() {
        note("no webhooks; `muster webhook add URL` makes one");
    } else {
        settings.screen.line(&webhooks(&all, Timestamp::now(), settings.screen))?;
    }
    Ok(exit::OK)
}

async fn test(hook: &Webhook, client: &Client, settings: &Settings) -> anyhow::Result<u8> {
    let result = client.test_webhook(&hook.id).await?;
    if settings.screen.json {
        json::document(&result)?;
    } else if result.accepted {
        let status = result.status.map_or_else(String::new, |status| format!(" with status {status}"));
        settings.screen.line(&format!("accepted{status} in {} ms", result.took_ms))?;
    } else {
        let why = result.error.as_deref().unwrap_or("nothing came back");
        note(&format!("{} did not accept the delivery: {why}", hook.url));
    }
    Ok(if result.accepted { exit::OK } else { exit::FAILURE })
}

async fn letters(args: &DeadLetterArgs, client: &Client, settings: &Settings) -> anyhow::Result<u8> {
    let webhook = match &args.webhook {
        Some(hook) => Some(find(client, hook).await?.id),
        None => None,
    };
    let count = match &args.action {
        None => return list_letters(webhook.as_deref(), client, settings).await,
        Some(DeadLetterAction::Retry { letters }) => {
            let choice = LetterChoice { webhook, ids: letters.clone() };
            told(client.retry_dead_letters(&choice).await?, "to be sent once more", settings)?
        }
        Some(DeadLetterAction::Rm { letters, all }) => {
            let choice = LetterChoice { webhook, ids: letters.clone() };
            if choice == LetterChoice::default() && !all {
                let problem = "say which dead letters to remove: their ids, --webhook HOOK or --all";
                return Err(UsageError(problem.into()).into());
            }
            told(client.delete_dead_letters(&choice).await?, "removed", settings)?
        }
    };
    // Whoever names some expects that they are there.
    let named = match &args.action {
        Some(DeadLetterAction::Retry { letters } | DeadLetterAction::Rm { letters, .. }) => letters.len(),
        None => 0,
    };
    Ok(if count < named { exit::FAILURE } else { exit::OK })
}

fn told(count: usize, what: &str, settings: &Settings) -> anyhow::Result<usize> {
    if settings.screen.json {
        json::document(&DeadLetterCount { count })?;
    } else {
        let noun = if count == 1 { "dead letter" } else { "dead letters" };
        note(&format!("{count} {noun} {what}"));
    }
    Ok(count)
}

async fn list_letters(webhook: Option<&str>, client: &Client, settings: &Settings) -> anyhow::Result<u8> {
    let (mut all, mut cursor): (Vec<DeadLetter>, Option<String>) = (Vec::new(), None);
    loop {
        let (page, next) = client.dead_letters(webhook, cursor.as_deref()).await?;
        all.extend(page);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    if settings.screen.json {
        json::document(&all)?;
    } else if all.is_empty() {
        note("no dead letters");
    } else {
        settings.screen.line(&dead_letters(&all, Timestamp::now(), settings.screen))?;
    }
    Ok(exit::OK)
}
