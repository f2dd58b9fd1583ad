//! `muster secret`.
//!
//! Guarantee: a value comes from a terminal, standard input or a file, never from an argument, and leaves this program only sealed.

use std::io::{IsTerminal as _, Read as _};

use anyhow::Context as _;
use jiff::Timestamp;
use muster_client::{Client, ClientError};
use muster_protocol::{FleetKey, SecretRequest, SecretSummary};
use muster_seal::{Context, MAX_VALUE_BYTES, PublicKey, SecretValue, seal};

use crate::args::{ResealArgs, SecretAction, SecretArgs, SecretSetArgs, SecretSourceArgs};
use crate::failure::UsageError;
use crate::known_keys::{KnownKeys, NewKeys};
use crate::output::{fleet_keys, json, note, secret_details, secrets};
use crate::settings::Settings;
use crate::{exit, hidden_input};

pub(crate) async fn run(args: &SecretArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match &args.action {
        SecretAction::Set(args) => set(args, &client, settings).await?,
        SecretAction::Reseal(args) => reseal(args, &client, settings).await?,
        SecretAction::Ls => list(&client, settings).await?,
        SecretAction::Show { name } => show(&client.secret(name).await?, settings)?,
        SecretAction::Rm { name } => {
            client.delete_secret(name).await?;
            note(&format!("removed {name}"));
        }
        SecretAction::Keys => keys(&client, settings).await?,
    }
    Ok(exit::OK)
}

/// The secret of this name, if there is one.
async fn present(client: &Client, name: &str) -> Result<Option<SecretSummary>, ClientError> {
    match client.secret(name).await {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::Refused { status, .. }) if status.as_u16() == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

async fn set(args: &SecretSetArgs, client: &Client, settings: &Settings) -> anyhow::Result<()> {
    let before = present(client, &args.name).await?;
    let (queue, owner) = match (&args.queue, &args.owner, &before) {
        (Some(queue), _, _) => (Some(queue.clone()), None),
        (None, Some(owner), _) => (None, Some(owner.clone())),
        (None, None, Some(before)) => (before.queue.clone(), before.owner.clone()),
        (None, None, None) => (None, own_name(client, settings).await?),
    };
    if queue.is_none() && owner.is_none() {
        return Err(UsageError("say whose the secret is: --queue QUEUE or --owner USER".into()).into());
    }
    let version = before.map_or(1, |before| before.version + 1);
    store(Context { name: args.name.clone(), queue, owner, version }, &args.source, client, settings).await
}

/// The name under which the scheduler knows the caller, or else the user of this machine.
async fn own_name(client: &Client, settings: &Settings) -> Result<Option<String>, ClientError> {
    match settings.submitter(None) {
        None => Ok(Some(client.whoami().await?.name)),
        here => Ok(here),
    }
}

/// Nobody here can open what is stored, so that the value is needed once more.
async fn reseal(args: &ResealArgs, client: &Client, settings: &Settings) -> anyhow::Result<()> {
    let before = client.secret(&args.name).await?;
    let SecretSummary { name, queue, owner, version, .. } = before;
    store(Context { name, queue, owner, version: version + 1 }, &args.source, client, settings).await
}

async fn store(
    context: Context,
    source: &SecretSourceArgs,
    client: &Client,
    settings: &Settings,
) -> anyhow::Result<()> {
    let recipients = recipients(source, client).await?;
    let value = read_value(source, &context.name)?;
    let boxes = seal(&value, &context, &recipients).map_err(|error| UsageError(error.to_string()))?;
    drop(value);
    let Context { name, queue, owner, version } = context;
    let stored = client.put_secret(&name, &SecretRequest { queue, owner, version, boxes }).await?;
    show(&stored, settings)
}

async fn recipients(source: &SecretSourceArgs, client: &Client) -> anyhow::Result<Vec<PublicKey>> {
    if !source.keys.is_empty() {
        let read = |text: &String| {
            PublicKey::parse(text).map_err(|error| UsageError(format!("--key {text}: {error}")))
        };
        return Ok(source.keys.iter().map(read).collect::<Result<_, _>>()?);
    }
    let offered = client.fleet_keys().await?;
    if offered.is_empty() {
        anyhow::bail!(
            "no worker has said which keys it has: start a worker, or name keys with --key (`muster-worker keys ls` shows them)"
        );
    }
    let new_keys = if source.accept_new_keys { NewKeys::Accept } else { NewKeys::Refuse };
    let (keys, remark) = KnownKeys::load(client.url())?.choose(&offered, new_keys)?;
    if let Some(remark) = remark {
        note(&remark);
    }
    Ok(keys)
}

fn read_value(source: &SecretSourceArgs, name: &str) -> anyhow::Result<SecretValue> {
    if let Some(file) = &source.file {
        let bytes =
            std::fs::read(file).with_context(|| format!("cannot read the value from {}", file.display()))?;
        return Ok(SecretValue::new(bytes));
    }
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        return hidden_input::line(&format!("value of {name} (not shown): ")).map(SecretValue::new);
    }
    // One byte too many is enough to see that there are too many.
    let mut bytes = Vec::with_capacity(MAX_VALUE_BYTES + 3);
    stdin.take(MAX_VALUE_BYTES as u64 + 2).read_to_end(&mut bytes).context("cannot read the value")?;
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    Ok(SecretValue::new(bytes))
}

fn show(secret: &SecretSummary, settings: &Settings) -> anyhow::Result<()> {
    if settings.screen.json {
        json::document(secret)?;
    } else {
        settings.screen.line(&secret_details(secret, settings.screen))?;
    }
    Ok(())
}

async fn list(client: &Client, settings: &Settings) -> anyhow::Result<()> {
    let all = client.secrets().await?;
    if settings.screen.json {
        json::document(&all)?;
    } else if all.is_empty() {
        note("no secrets; `muster secret set NAME` makes one");
    } else {
        settings.screen.line(&secrets(&all, Timestamp::now(), settings.screen))?;
    }
    Ok(())
}

async fn keys(client: &Client, settings: &Settings) -> anyhow::Result<()> {
    let offered = client.fleet_keys().await?;
    if settings.screen.json {
        json::document(&offered)?;
        return Ok(());
    }
    let known = KnownKeys::load(client.url())?;
    let shown: Vec<(FleetKey, bool)> = offered
        .into_iter()
        .map(|key| {
            let trusted = known.has(&key);
            (key, trusted)
        })
        .collect();
    if shown.is_empty() {
        note("no worker has said which keys it has");
    } else {
        settings.screen.line(&fleet_keys(&shown, settings.screen))?;
    }
    Ok(())
}
