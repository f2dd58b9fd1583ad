//! `muster join-token`.

use muster_protocol::JoinTokenRequest;

use super::token::{find, list, show_once};
use crate::args::{JoinTokenAction, JoinTokenArgs};
use crate::exit;
use crate::output::note;
use crate::settings::Settings;

pub(crate) async fn run(args: &JoinTokenArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match &args.action {
        JoinTokenAction::Create { name, uses, tags, expires } => {
            let request = JoinTokenRequest {
                name: name.clone(),
                uses: Some(*uses),
                tags: (!tags.is_empty()).then(|| tags.clone()),
                expires_in: Some(expires.as_secs()),
            };
            let made = client.create_join_token(&request).await?;
            show_once(&made, settings)?;
            if !settings.screen.json {
                note(&format!("on the machine: {}", command_line(settings)));
            }
        }
        JoinTokenAction::Ls => {
            let empty = "no join tokens and no keys; `muster join-token create NAME` makes one";
            list(&client.worker_keys().await?, empty, settings)?;
        }
        JoinTokenAction::Revoke { keys } => {
            let all = client.worker_keys().await?;
            for key in keys {
                let found = find(&all, key)?;
                client.revoke_worker_key(&found.id).await?;
                let whose = found.worker.as_ref().unwrap_or(&found.name);
                note(&format!("revoked {} ({whose})", found.id));
            }
        }
    }
    Ok(exit::OK)
}

/// What to type where a worker is to run. The token is not in it: others see the arguments of a process.
fn command_line(settings: &Settings) -> String {
    let pin = settings.trust.fingerprint.map(|pin| format!(" --tls-fingerprint {pin}")).unwrap_or_default();
    format!("MUSTER_JOIN_TOKEN=msj_... muster-worker --scheduler {}{pin}", settings.url)
}
