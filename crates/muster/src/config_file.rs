//! `muster.toml`, as far as it concerns every command. The section of `muster up` becomes the defaults of
//! its flags; sections of the other programs are left alone.

use std::io;
use std::path::{Path, PathBuf};

use muster_client::Fingerprint;
use serde::Deserialize;

use crate::failure::UsageError;

/// Looked for in the current directory when no file is named.
const DEFAULT_FILE: &str = "muster.toml";

/// What is read here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ConfigFile {
    pub(crate) client: ClientSection,
}

/// `[client]`: how to reach a scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct ClientSection {
    pub(crate) url: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) tls_fingerprint: Option<Fingerprint>,
}

impl ConfigFile {
    /// Reads the named file, which must be there, or the default one, which need not.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, UsageError> {
        let path = named.unwrap_or_else(|| Path::new(DEFAULT_FILE));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text)
                .map_err(|error| UsageError(format!("the file {} is wrong: {error}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(Self::default()),
            Err(error) => Err(UsageError(format!("cannot read the file {}: {error}", path.display()))),
        }
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_others_are_left_alone_and_typing_errors_found() {
        let file = ConfigFile::parse("[scheduler]\nx = 1\n[client]\nurl = \"http://h\"").unwrap();
        assert_eq!(file.client.url.as_deref(), Some("http://h"));
        let error = ConfigFile::parse("[client]\nulr = \"x\"").unwrap_err().to_string();
        assert!(error.contains("ulr"), "{error}");
    }

    #[test]
    fn a_named_file_must_be_there() {
        let error = ConfigFile::load(Some(Path::new("no-such.toml"))).unwrap_err();
        assert!(error.to_string().contains("no-such.toml"));
    }
}
