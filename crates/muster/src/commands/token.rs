//! `muster token`.

use jiff::Timestamp;
use muster_protocol::{Credential, Issued, TokenRequest};

use crate::args::{TokenAction, TokenArgs};
use crate::exit;
use crate::output::{credentials, json, note};
use crate::settings::Settings;

pub(crate) async fn run(args: &TokenArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match &args.action {
        TokenAction::Create(create) => {
            let request = TokenRequest {
                name: create.name.clone(),
                user: create.user.clone(),
                role: create.role.map(|role| role.name().to_owned()),
                queues: (!create.queues.is_empty()).then(|| create.queues.clone()),
                expires_in: create.expires.map(|expires| expires.as_secs()),
            };
            show_once(&client.create_token(&request).await?, settings)?;
        }
        TokenAction::Ls => {
            list(&client.tokens().await?, "no tokens; `muster token create NAME` makes one", settings)?;
        }
        TokenAction::Revoke { tokens } => {
            let all = client.tokens().await?;
            for token in tokens {
                let found = find(&all, token)?;
                client.revoke_token(&found.id).await?;
                note(&format!("revoked {} ({})", found.id, found.name));
            }
        }
    }
    Ok(exit::OK)
}

/// Prints what nobody will be shown again.
pub(super) fn show_once(made: &Issued, settings: &Settings) -> anyhow::Result<()> {
    if settings.screen.json {
        return Ok(json::document(made)?);
    }
    settings.screen.line(&made.token)?;
    note("keep it: it is not shown again");
    Ok(())
}

pub(super) fn list(all: &[Credential], when_empty: &str, settings: &Settings) -> anyhow::Result<()> {
    if settings.screen.json {
        return Ok(json::document(&all)?);
    }
    if all.is_empty() {
        note(when_empty);
        return Ok(());
    }
    Ok(settings.screen.line(&credentials(all, Timestamp::now(), settings.screen))?)
}

/// The one credential whose id begins so.
pub(super) fn find<'a>(all: &'a [Credential], text: &str) -> anyhow::Result<&'a Credential> {
    let bare = |id: &str| id.trim_start_matches("cred-").to_owned();
    let matches = |one: &&Credential| !bare(text).is_empty() && bare(&one.id).starts_with(&bare(text));
    let found: Vec<&Credential> = all.iter().filter(matches).collect();
    match found.as_slice() {
        [only] => Ok(only),
        [] => anyhow::bail!("there is no credential {text:?} among those that you may see"),
        several => {
            let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
            anyhow::bail!("{text:?} is the beginning of several: {}", ids.join(", "))
        }
    }
}
