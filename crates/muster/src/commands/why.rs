//! `muster why`.

use crate::args::WhyArgs;
use crate::exit;
use crate::job_reference::named;
use crate::output::{human, json};
use crate::set_reference::{JobOrGang, resolve_job_or_gang};
use crate::settings::Settings;

pub(crate) async fn run(args: &WhyArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let why = match resolve_job_or_gang(&client, &args.job).await? {
        JobOrGang::Gang(id) => named(client.gang_why(&id).await, &id, &client)?,
        JobOrGang::Job(id) => named(client.why(&id).await, &id, &client)?,
    };
    if settings.screen.json {
        json::document(&why)?;
    } else {
        settings.screen.line(&human::why(&why, settings.screen))?;
    }
    Ok(exit::OK)
}
