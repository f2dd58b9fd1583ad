//! `muster why`.

use crate::args::WhyArgs;
use crate::exit;
use crate::job_reference::{named, resolve};
use crate::output::{human, json};
use crate::settings::Settings;

pub(crate) async fn run(args: &WhyArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let id = resolve(&client, &args.job).await?;
    let why = named(client.why(&id).await, &id, &client)?;
    if settings.screen.json {
        json::document(&why)?;
    } else {
        settings.screen.line(&human::why(&why, settings.screen))?;
    }
    Ok(exit::OK)
}
