//! `muster cancel`.

use std::collections::BTreeMap;

use muster_protocol::CancelResult;

use crate::args::CancelArgs;
use crate::exit;
use crate::job_reference::{named, resolve};
use crate::output::{human, json, note};
use crate::settings::Settings;

/// Cancels each of the jobs; one that cannot be cancelled does not keep the others.
pub(crate) async fn run(args: &CancelArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let mut results: BTreeMap<String, CancelResult> = BTreeMap::new();
    let mut code = exit::OK;
    for job in &args.jobs {
        let cancelled = match resolve(&client, job).await {
            Ok(id) => named(client.cancel(&id).await, &id, &client).map(|result| (id, result)),
            Err(error) => Err(error),
        };
        match cancelled {
            Ok((id, result)) => {
                if !settings.screen.json {
                    settings.screen.line(&human::cancelled(&result))?;
                }
                results.insert(id, result);
            }
            // Nobody to answer means nobody to answer for the other jobs either.
            Err(error) if is_connection(&error) => return Err(error),
            Err(error) => {
                note(&format!("{error:#}"));
                code = exit::FAILURE;
            }
        }
    }
    if settings.screen.json {
        json::document(&results)?;
    }
    Ok(code)
}

fn is_connection(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<muster_client::ClientError>()
            .is_some_and(muster_client::ClientError::is_transient)
    })
}
