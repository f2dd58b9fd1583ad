//! What the arguments, the environment and the file come to: flag > environment > file > default.

use std::path::PathBuf;

use jiff::Timestamp;
use muster_client::{BaseUrl, Client};

use crate::args::{GlobalArgs, WrittenTime};
use crate::config_file::ConfigFile;
use crate::failure::UsageError;
use crate::output::{Screen, note};

pub(crate) const DEFAULT_URL: &str = "http://localhost:8080";

/// What every command needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) url: String,
    /// Somebody named the URL, so that nothing else will do.
    pub(crate) url_is_explicit: bool,
    pub(crate) screen: Screen,
    /// The configuration file, when one was named.
    pub(crate) config: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn resolve(global: &GlobalArgs) -> Result<Self, UsageError> {
        let file = ConfigFile::load(global.config.as_deref())?;
        let named = global.url.clone().filter(|url| !url.is_empty()).or_else(|| file.client.url.clone());
        let url_is_explicit = named.is_some();
        let url = named.unwrap_or_else(|| DEFAULT_URL.to_owned());
        BaseUrl::parse(&url).map_err(|error| UsageError(error.to_string()))?;
        Ok(Self { url, url_is_explicit, screen: Screen::find(global), config: global.config.clone() })
    }

    /// The time of `--since`; how it was read is said when it names no zone.
    pub(crate) fn since(
        &self,
        written: Option<&WrittenTime>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, UsageError> {
        let Some(written) = written else { return Ok(None) };
        let wrong = |why| UsageError(format!("--since: {why}"));
        let meant = written.back_from(now, self.screen.zone).map_err(wrong)?;
        if let Some(remark) = &meant.remark {
            note(&format!("--since {remark}"));
        }
        Ok(Some(meant.at))
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::http(&self.url)?)
    }
}
