//! `muster explain`.

use crate::exit;
use crate::output::{json, overview};
use crate::settings::Settings;

pub(crate) async fn run(settings: &Settings) -> anyhow::Result<u8> {
    let found = settings.client()?.explain().await?;
    if settings.screen.json {
        json::document(&found)?;
    } else {
        settings.screen.line(&overview(&found, settings.screen))?;
    }
    Ok(exit::OK)
}
