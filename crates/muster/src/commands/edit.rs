//! `muster edit`.

use muster_protocol::{JobEdit, Resources};

use crate::args::EditArgs;
use crate::exit;
use crate::failure::UsageError;
use crate::job_reference::{named, resolve};
use crate::output::json;
use crate::settings::Settings;

pub(crate) async fn run(args: &EditArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    if edit(args, None) == JobEdit::default() {
        return Err(UsageError("there is nothing to change; write for example --priority 10".into()).into());
    }
    let id = resolve(&client, &args.job).await?;
    // Amounts are replaced as a whole, so that those that stay have to be sent along.
    let amounts = match edit(args, None).resources {
        Some(_) => named(client.job(&id).await, &id, &client)?.resources,
        None => None,
    };
    let job = named(client.edit(&id, &edit(args, amounts)).await, &id, &client)?;
    if settings.screen.json {
        json::document(&job)?;
    } else {
        settings.screen.line(&format!("{} changed", job.id))?;
    }
    Ok(exit::OK)
}

/// The change, given the amounts that the job has now.
fn edit(args: &EditArgs, amounts: Option<Resources>) -> JobEdit {
    let current = amounts.unwrap_or_default();
    let given = args.cpus.is_some() || args.memory.is_some() || args.gpus.is_some() || args.vram.is_some();
    JobEdit {
        priority: args.priority,
        resources: given.then(|| Resources {
            cpus: args.cpus.unwrap_or(current.cpus),
            memory_mb: args.memory.unwrap_or(current.memory_mb),
            gpus: args.gpus.unwrap_or(current.gpus),
            vram_mb: args.vram.unwrap_or(current.vram_mb),
            counters: current.counters,
        }),
        max_retries: args.max_retries,
        timeout_seconds: args.timeout.map(|timeout| timeout.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_that_are_not_named_stay() {
        let args = EditArgs {
            job: "x".into(),
            priority: None,
            cpus: None,
            memory: None,
            gpus: Some(2),
            vram: None,
            max_retries: None,
            timeout: None,
        };
        let now = Resources { cpus: 4.0, gpus: 1, ..Resources::default() };
        let changed = edit(&args, Some(now)).resources.unwrap();
        assert_eq!((changed.cpus, changed.gpus), (4.0, 2));
        let nothing = EditArgs { gpus: None, ..args };
        assert_eq!(edit(&nothing, None), JobEdit::default());
    }
}
