//! What logins gave, for each scheduler: `muster/credentials.json` in the user's directory of settings.
//!
//! Guarantees: only the user can read the file; it is replaced whole; nothing of it is ever printed.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use muster_client::Fingerprint;

use crate::environment;

/// What is kept, by the URL of the scheduler.
#[derive(Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Credentials {
    servers: BTreeMap<String, Kept>,
}

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// None after a logout: which certificate to trust is no secret, and stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    /// The certificate that was pinned at the login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.servers.keys()).finish()
    }
}

fn file() -> Option<PathBuf> {
    Some(environment::config_home()?.join("muster").join("credentials.json"))
}

/// One spelling for one scheduler.
fn key(url: &str) -> &str {
    url.trim_end_matches('/')
}

impl Credentials {
    /// What was kept; a file that cannot be read is as good as none.
    pub(crate) fn load() -> Self {
        let text = file().and_then(|path| std::fs::read_to_string(path).ok());
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    pub(crate) fn token(&self, url: &str) -> Option<String> {
        self.servers.get(key(url))?.token.clone()
    }

    /// The certificate that a scheduler must show.
    pub(crate) fn fingerprint(&self, url: &str) -> Option<Fingerprint> {
        self.servers.get(key(url))?.fingerprint.as_ref()?.parse().ok()
    }

    /// Keeps a token for a scheduler, and the certificate that it must show.
    pub(crate) fn keep(url: &str, token: &str, fingerprint: Option<Fingerprint>) -> anyhow::Result<PathBuf> {
        let mut all = Self::load();
        let fingerprint = fingerprint.map(|fingerprint| fingerprint.to_string());
        all.servers.insert(key(url).to_owned(), Kept { token: Some(token.to_owned()), fingerprint });
        all.store()
    }

    /// Forgets the token for a scheduler, and all of it where no certificate was pinned.
    pub(crate) fn forget(url: &str) -> anyhow::Result<()> {
        let mut all = Self::load();
        let Some(kept) = all.servers.get_mut(key(url)) else { return Ok(()) };
        kept.token = None;
        if kept.fingerprint.is_none() {
            all.servers.remove(key(url));
        }
        all.store().map(drop)
    }

    fn store(&self) -> anyhow::Result<PathBuf> {
        let path =
            file().context("there is no home directory to keep credentials in: set XDG_CONFIG_HOME")?;
        let cannot = || format!("cannot keep credentials in {}", path.display());
        if let Some(directory) = path.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).with_context(cannot)?;
        }
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = || -> anyhow::Result<()> {
            let mut opened = options.open(&new)?;
            opened.write_all(&serde_json::to_vec_pretty(self)?)?;
            opened.sync_all()?;
            Ok(std::fs::rename(&new, &path)?)
        };
        written().with_context(cannot)?;
        Ok(path)
    }
}
