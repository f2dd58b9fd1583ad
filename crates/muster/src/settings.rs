//! What the arguments, the environment and the file come to: flag > environment > file > default.

use std::path::PathBuf;

use jiff::Timestamp;
use muster_client::{BaseUrl, Client, Trust};

use crate::args::{GlobalArgs, WrittenTime};
use crate::config_file::ConfigFile;
use crate::credentials::Credentials;
use crate::environment;
use crate::failure::UsageError;
use crate::output::{Screen, note};

pub(crate) const DEFAULT_URL: &str = "http://localhost:8080";

/// What every command needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) url: String,
    /// Somebody named the URL, so that nothing else will do.
    pub(crate) url_is_explicit: bool,
    /// What to show there.
    pub(crate) token: Option<String>,
    /// Whom to believe there.
    pub(crate) trust: Trust,
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
        let kept = Credentials::load();
        let token = environment::api_token().or_else(|| kept.token(&url));
        let trust = Trust {
            ca_file: global.ca_file.clone().or(file.client.ca_file),
            fingerprint: global
                .tls_fingerprint
                .or(file.client.tls_fingerprint)
                .or_else(|| kept.fingerprint(&url)),
        };
        let (screen, config) = (Screen::find(global), global.config.clone());
        Ok(Self { url, url_is_explicit, token, trust, screen, config })
    }

    /// The time of `--since`; how it was read is said when it names no zone.
    pub(crate) fn since(
        &self,
        written: Option<&WrittenTime>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, UsageError> {
        self.back("--since", written, now)
    }

    /// The time that an option names, of which `2h` lies in the past.
    pub(crate) fn back(
        &self,
        option: &str,
        written: Option<&WrittenTime>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, UsageError> {
        let Some(written) = written else { return Ok(None) };
        let wrong = |why| UsageError(format!("{option}: {why}"));
        let meant = written.back_from(now, self.screen.zone).map_err(wrong)?;
        if let Some(remark) = &meant.remark {
            note(&format!("{option} {remark}"));
        }
        Ok(Some(meant.at))
    }

    /// Who submits: the one named, or else the user of this machine. A scheduler that is shown a token knows better.
    pub(crate) fn submitter(&self, named: Option<&String>) -> Option<String> {
        let here = || if self.token.is_some() { None } else { environment::user() };
        named.cloned().or_else(here)
    }

    /// A client that shows the token of the environment, or what was kept at a login.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let client = self.stranger()?;
        Ok(match &self.token {
            Some(token) => client.with_token(token)?,
            None => client,
        })
    }

    /// A client that shows nothing.
    pub(crate) fn stranger(&self) -> anyhow::Result<Client> {
        Ok(Client::connect(&self.url, &self.trust)?)
    }
}
