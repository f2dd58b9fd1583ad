//! The public keys that were seen at a scheduler before: trust on first use.
//!
//! A scheduler that was taken over could offer a key of its own and read what is sealed to it. So the keys of the first time are
//! remembered for its URL, and others are used only when somebody says so.
//!
//! Guarantee: a value is sealed to keys that were named, that are remembered, or that are the first ones of a scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use muster_protocol::FleetKey;
use muster_seal::PublicKey;

use crate::environment;

/// Public keys by the URL of the scheduler.
type Known = BTreeMap<String, BTreeSet<String>>;

/// The keys of one scheduler, as they are remembered.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    file: PathBuf,
    url: String,
    known: Known,
}

/// What to do with the keys that a scheduler offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewKeys {
    Refuse,
    Accept,
}

impl KnownKeys {
    /// Reads what is remembered of a scheduler.
    pub(crate) fn load(url: &str) -> anyhow::Result<Self> {
        let folder = environment::config_home().context(
            "there is no home directory to remember keys in: set HOME, or name the keys with --key",
        )?;
        Self::read(&folder.join("muster").join("known-keys.json"), url)
    }

    fn read(file: &Path, url: &str) -> anyhow::Result<Self> {
        let known = match std::fs::read(file) {
            Ok(text) => serde_json::from_slice(&text)
                .with_context(|| format!("the file {} is damaged: mend or remove it", file.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Known::default(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        Ok(Self { file: file.to_owned(), url: url.trim_end_matches('/').to_owned(), known })
    }

    pub(crate) fn has(&self, key: &FleetKey) -> bool {
        self.known.get(&self.url).is_some_and(|known| known.contains(&key.public_key))
    }

    /// The keys to seal to, and what people should know about it. New ones are remembered when they are used.
    pub(crate) fn choose(
        &mut self,
        offered: &[FleetKey],
        new_keys: NewKeys,
    ) -> anyhow::Result<(Vec<PublicKey>, Option<String>)> {
        let keys = offered
            .iter()
            .map(|key| PublicKey::announced(&key.public_key, &key.id))
            .collect::<Result<Vec<_>, _>>()?;
        let new: Vec<&FleetKey> = offered.iter().filter(|key| !self.has(key)).collect();
        if new.is_empty() {
            return Ok((keys, None));
        }
        let named: Vec<String> =
            new.iter().map(|key| format!("{} of {}", key.id, key.workers.join(", "))).collect();
        let named = named.join("; ");
        let first = !self.known.contains_key(&self.url);
        if !first && new_keys == NewKeys::Refuse {
            anyhow::bail!(
                "the scheduler offers keys that were not seen here before: {named}; compare them with `muster-worker keys ls` \
                 on those machines, then add --accept-new-keys, or name the right ones with --key"
            );
        }
        let known = self.known.entry(self.url.clone()).or_default();
        known.extend(new.iter().map(|key| key.public_key.clone()));
        self.save()?;
        let note = if first {
            "the first keys of this scheduler are trusted from now on"
        } else {
            "new keys are trusted"
        };
        Ok((keys, Some(format!("{note}: {named}"))))
    }

    fn save(&self) -> anyhow::Result<()> {
        let write = || {
            let folder = self.file.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder)?;
            // Written aside and moved, so that a crash leaves the old file or the new one.
            let mut aside = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut aside, &self.known)?;
            aside.persist(&self.file)?;
            io::Result::Ok(())
        };
        write().with_context(|| format!("cannot remember the keys in {}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    use muster_seal::KeyPair;

    use super::*;

    fn key(byte: u8) -> FleetKey {
        let pair = KeyPair::from_private([byte; 32]);
        let (id, public_key) = (pair.public().id(), pair.public().to_string());
        FleetKey { id, public_key, workers: vec![format!("w{byte}")] }
    }

    #[test]
    fn the_first_keys_are_trusted_and_later_ones_are_asked_about() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("muster/known-keys.json");
        let of = |url: &str| KnownKeys::read(&file, url).unwrap();
        let (keys, note) = of("http://a/").choose(&[key(1)], NewKeys::Refuse).unwrap();
        assert!(keys.len() == 1 && note.unwrap().contains("first keys"));
        assert_eq!(of("http://a").choose(&[key(1)], NewKeys::Refuse).unwrap().1, None);
        let error = of("http://a").choose(&[key(1), key(2)], NewKeys::Refuse).unwrap_err().to_string();
        assert!(error.contains("w2") && !error.contains("w1,"), "{error}");
        let (keys, note) = of("http://a").choose(&[key(1), key(2)], NewKeys::Accept).unwrap();
        assert!(keys.len() == 2 && note.unwrap().contains("w2"));
        assert_eq!(of("http://a").choose(&[key(2)], NewKeys::Refuse).unwrap().0.len(), 1);
        assert!(of("http://b").choose(&[key(3)], NewKeys::Refuse).is_ok(), "another scheduler");
    }

    #[test]
    fn a_key_under_a_wrong_id_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let mut known = KnownKeys::read(&root.path().join("k"), "http://a").unwrap();
        let wrong = FleetKey { id: key(2).id, ..key(1) };
        assert!(known.choose(&[wrong], NewKeys::Accept).is_err());
    }
}
