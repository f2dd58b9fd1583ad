//! `muster workers`.

use jiff::Timestamp;

use crate::exit;
use crate::output::{human, json, note};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<u8> {
    let mut workers = settings.client()?.workers().await?;
    workers.sort_by(|one, other| one.id.cmp(&other.id));
    let screen = settings.screen;
    if screen.json {
        json::document(&workers)?;
    } else if workers.is_empty() {
        note("no workers; start one with `muster-worker --scheduler URL`");
    } else {
        screen.line(&human::workers(&workers, Timestamp::now(), screen))?;
    }
    Ok(exit::OK)
}
