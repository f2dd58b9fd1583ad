//! `muster artifacts`: list, download, link.
//!
//! Guarantee: a file appears under its name whole and with the SHA-256 that the scheduler knows, or not at all; nothing is
//! written outside of the directory that was named.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use muster_client::{ArtifactQuery, BlobClient, Client};
use muster_protocol::{Artifact, ArtifactList};
use sha2::{Digest as _, Sha256};

use crate::args::{ArtifactAction, ArtifactArgs};
use crate::exit;
use crate::failure::UsageError;
use crate::follow::Patience;
use crate::job_reference::named;
use crate::output::{artifact_summary, artifacts, json, note};
use crate::set_reference::{JobOrGang, resolve_job_or_gang};
use crate::settings::Settings;

pub(crate) async fn run(args: &ArtifactArgs, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    match &args.action {
        ArtifactAction::Ls { job, attempt } => list(&client, job, *attempt, settings).await,
        ArtifactAction::Get { job, names, output, attempt } => {
            let id = resolve(&client, job).await?;
            let blobs = BlobClient::new(&settings.trust)?;
            let wanted = Wanted { client: &client, blobs, id: &id, attempt: *attempt };
            wanted.get(names, output, settings).await
        }
        ArtifactAction::Url { job, name, expires, attempt } => {
            let id = resolve(&client, job).await?;
            let link =
                client.artifact_url(&id, name, *attempt, Some(expires)).await.with_context(|| id.clone())?;
            if settings.screen.json {
                json::document(&link)?;
            } else {
                settings.screen.line(&link.url)?;
            }
            Ok(exit::OK)
        }
    }
}

async fn resolve(client: &Client, text: &str) -> anyhow::Result<String> {
    match resolve_job_or_gang(client, text).await? {
        JobOrGang::Job(id) => Ok(id),
        JobOrGang::Gang(id) => {
            Err(UsageError(format!("{id} is a gang: name one of its tasks, which `muster show {id}` lists"))
                .into())
        }
    }
}

/// All artifacts of an attempt.
async fn all(client: &Client, id: &str, attempt: Option<u32>) -> anyhow::Result<ArtifactList> {
    let mut query = ArtifactQuery { attempt, after: None };
    let mut whole = named(client.artifacts(id, &query).await, id, client)?;
    while let Some(after) = whole.next.take() {
        query = ArtifactQuery { attempt: whole.attempt, after: Some(after) };
        let page = named(client.artifacts(id, &query).await, id, client)?;
        whole.artifacts.extend(page.artifacts);
        whole.next = page.next;
    }
    Ok(whole)
}

async fn list(client: &Client, job: &str, attempt: Option<u32>, settings: &Settings) -> anyhow::Result<u8> {
    let id = resolve(client, job).await?;
    let list = all(client, &id, attempt).await?;
    let screen = settings.screen;
    if screen.json {
        json::document(&list)?;
        return Ok(exit::OK);
    }
    if list.artifacts.is_empty() {
        note(&format!("{id} has no artifacts"));
        return Ok(exit::OK);
    }
    screen.line(&artifacts(&list.artifacts, Timestamp::now(), screen))?;
    let attempt = list.attempt.map_or_else(String::new, |attempt| format!(" of attempt {attempt}"));
    note(&format!("{}{attempt}", artifact_summary(&list)));
    Ok(exit::OK)
}

/// Artifacts of one job that are to be downloaded.
struct Wanted<'a> {
    client: &'a Client,
    blobs: BlobClient,
    id: &'a str,
    attempt: Option<u32>,
}

impl Wanted<'_> {
    async fn get(&self, names: &[String], output: &Path, settings: &Settings) -> anyhow::Result<u8> {
        let list = all(self.client, self.id, self.attempt).await?;
        let mut chosen: Vec<&Artifact> = Vec::new();
        for name in names {
            let found = list.artifacts.iter().find(|artifact| artifact.name == *name);
            chosen.push(found.with_context(|| {
                format!("{} has no artifact {name:?}; `muster artifacts ls {}` lists them", self.id, self.id)
            })?);
        }
        if names.is_empty() {
            chosen = list
                .artifacts
                .iter()
                .filter(|artifact| artifact.missing.is_none() && artifact.removed_at.is_none())
                .collect();
        }
        if let Some((artifact, why)) = chosen.iter().find_map(|found| Some((found, found.missing.as_ref()?)))
        {
            bail!("{} was not kept: {why}", artifact.name);
        }
        if let Some(gone) = chosen.iter().find(|artifact| artifact.removed_at.is_some()) {
            bail!(
                "{} was removed: the scheduler keeps artifacts for a time only (--artifact-retention)",
                gone.name
            );
        }
        if output == Path::new("-") {
            let [only] = chosen.as_slice() else {
                return Err(UsageError(
                    "only one file can be written to standard output: name it".to_owned(),
                )
                .into());
            };
            self.copy(only, list.attempt, 0, &mut io::stdout().lock()).await?;
            return Ok(exit::OK);
        }
        for artifact in &chosen {
            let path = self.to_file(artifact, list.attempt, output).await?;
            if !settings.screen.json {
                settings.screen.line(&path.display().to_string())?;
            }
        }
        if settings.screen.json {
            json::document(&chosen)?;
        } else if chosen.is_empty() {
            note(&format!("{} has no artifacts", self.id));
        }
        Ok(exit::OK)
    }

    /// Downloads aside and gives the file its name when it is whole.
    async fn to_file(
        &self,
        artifact: &Artifact,
        attempt: Option<u32>,
        output: &Path,
    ) -> anyhow::Result<PathBuf> {
        let path = place(output, &artifact.name)?;
        let expected = artifact.sha256.as_deref().unwrap_or_default();
        if digest(&path).is_ok_and(|(_, found)| found == expected) {
            return Ok(path);
        }
        let mut aside = path.as_os_str().to_owned();
        aside.push(".part");
        let aside = PathBuf::from(aside);
        // What is there of an earlier download may be of something else: then it is begun anew, once.
        for from_the_start in [false, true] {
            let mut options = OpenOptions::new();
            options.create(true).truncate(from_the_start).write(true).append(!from_the_start);
            let mut file =
                options.open(&aside).with_context(|| format!("cannot write {}", aside.display()))?;
            let offset = file.metadata()?.len();
            if offset <= artifact.size.unwrap_or(0) {
                self.copy(artifact, attempt, offset, &mut file).await?;
            }
            file.sync_all()?;
            let (_, found) = digest(&aside)?;
            if found == expected {
                fs::rename(&aside, &path).with_context(|| format!("cannot write {}", path.display()))?;
                return Ok(path);
            }
        }
        let _ = fs::remove_file(&aside);
        bail!("{}: the SHA-256 of what came is not {expected}", artifact.name)
    }

    /// Copies from an offset on, and goes on where the connection broke off.
    async fn copy(
        &self,
        artifact: &Artifact,
        attempt: Option<u32>,
        offset: u64,
        sink: &mut impl Write,
    ) -> anyhow::Result<()> {
        let size = artifact.size.unwrap_or(0);
        let mut at = offset;
        let mut patience = Patience::default();
        while at < size {
            let named = (self.id, artifact.name.as_str());
            match self.client.artifact_from_store(&self.blobs, named, attempt, at).await {
                Ok(None) => break,
                Ok(Some(mut reader)) => loop {
                    match reader.next().await {
                        Ok(Some(piece)) => {
                            sink.write_all(&piece)?;
                            at += piece.len() as u64;
                            patience = Patience::default();
                        }
                        Ok(None) => break,
                        Err(error) => {
                            patience.bear(error).await?;
                            break;
                        }
                    }
                },
                Err(error) => patience.bear(error).await.with_context(|| artifact.name.clone())?,
            }
        }
        sink.flush()?;
        Ok(())
    }
}

/// Where an artifact goes; its folders are made. Neither its name nor a link on the way leads out of the directory.
fn place(output: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let relative = Path::new(name);
    let stays = relative.components().all(|part| matches!(part, Component::Normal(_)));
    if name.is_empty() || !stays {
        bail!("{name:?} leads out of the directory; it is not written");
    }
    let path = output.join(relative);
    let folder = path.parent().unwrap_or(output);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let root = output.canonicalize().with_context(|| output.display().to_string())?;
    if !folder.canonicalize()?.starts_with(&root) {
        bail!(
            "{} is behind a link that leads out of {}; it is not written",
            path.display(),
            output.display()
        );
    }
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
        bail!("{} is there and is no plain file; it is not written over", path.display());
    }
    Ok(path)
}

/// The length and the SHA-256 of a file.
fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut size, mut piece) = (Sha256::new(), 0, vec![0; 256 * 1024]);
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        size += length as u64;
        hash.update(&piece[..length]);
    }
    let text = hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    });
    Ok((size, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_outside() {
        let root = tempfile::tempdir().unwrap();
        let output = root.path().join("out");
        fs::create_dir(&output).unwrap();
        assert_eq!(place(&output, "a/b").unwrap(), output.join("a/b"));
        for wrong in ["", "/etc/passwd", "../x", "a/../../x", "./x"] {
            assert!(place(&output, wrong).is_err(), "{wrong}");
        }
        std::os::unix::fs::symlink(root.path(), output.join("link")).unwrap();
        assert!(place(&output, "link/x").is_err());
        std::os::unix::fs::symlink("/etc/hostname", output.join("file")).unwrap();
        assert!(place(&output, "file").is_err());
    }
}
