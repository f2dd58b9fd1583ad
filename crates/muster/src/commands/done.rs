//! `muster done`: the job that this runs in has finished, whatever it was told.

use std::fs::File;

use anyhow::Context as _;
use serde_json::json;

use crate::exit;
use crate::inside_job;
use crate::output::json;
use crate::settings::Settings;

pub(crate) fn run(settings: &Settings) -> anyhow::Result<u8> {
    let path = inside_job::done_file("muster done")?;
    File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    if settings.screen.json {
        json::document(&json!({ "done": true }))?;
    }
    Ok(exit::OK)
}
