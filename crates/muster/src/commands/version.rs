//! `muster version`.

use serde::Serialize;

use crate::exit;
use crate::output::json;
use crate::settings::Settings;

/// Both ends of the wire.
#[derive(Serialize)]
struct Versions {
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler: Option<String>,
    url: String,
}

/// Prints our own version, and the scheduler's when one answers: a missing scheduler is no failure here.
pub(crate) async fn run(settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let scheduler = client.version().await.ok().map(|answer| answer.version);
    let versions = Versions { version: env!("CARGO_PKG_VERSION"), scheduler, url: client.url().to_owned() };
    if settings.screen.json {
        json::document(&versions)?;
        return Ok(exit::OK);
    }
    settings.screen.line(&format!("muster {}", versions.version))?;
    let scheduler = versions.scheduler.unwrap_or_else(|| "no answer".to_owned());
    settings.screen.line(&format!("scheduler at {}: {scheduler}", versions.url))?;
    Ok(exit::OK)
}
