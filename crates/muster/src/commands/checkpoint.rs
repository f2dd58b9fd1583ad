//! `muster checkpoint`.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use muster_client::{CheckpointReader, Client};
use serde::Serialize;

use crate::args::{CheckpointAction, CheckpointArgs};
use crate::environment;
use crate::exit;
use crate::failure::UsageError;
use crate::follow::Patience;
use crate::inside_job;
use crate::job_reference::{named, resolve};
use crate::output::{json, note};
use crate::settings::Settings;

/// What was kept.
#[derive(Serialize)]
struct Saved {
    job_id: String,
    bytes: usize,
}

pub(crate) async fn run(args: &CheckpointArgs, settings: &Settings) -> anyhow::Result<u8> {
    match &args.action {
        CheckpointAction::Save { file } => save(file, settings).await,
        CheckpointAction::Get { job, output } => get(job.as_deref(), output.as_deref(), settings).await,
    }
}

async fn save(file: &Path, settings: &Settings) -> anyhow::Result<u8> {
    let (job_id, proof) = inside_job::speaker("muster checkpoint save")?;
    let bytes = bytes::Bytes::from(read(file)?);
    if bytes.is_empty() {
        anyhow::bail!("{} is empty; a checkpoint has at least one byte", shown(file));
    }
    let client = settings.client()?;
    let mut patience = Patience::default();
    loop {
        match client.save_checkpoint(&job_id, &proof, None, bytes.clone()).await {
            Ok(()) => break,
            Err(error) => patience
                .bear(error)
                .await
                .with_context(|| format!("the checkpoint of {} bytes was not saved", bytes.len()))?,
        }
    }
    let saved = Saved { job_id, bytes: bytes.len() };
    if settings.screen.json {
        json::document(&saved)?;
    } else {
        settings.screen.line(&format!("saved {} bytes", saved.bytes))?;
    }
    Ok(exit::OK)
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read {}", shown(file)))?;
    Ok(bytes)
}

fn shown(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

async fn get(job: Option<&str>, output: Option<&Path>, settings: &Settings) -> anyhow::Result<u8> {
    let client = settings.client()?;
    let id = match job {
        Some(text) => resolve(&client, text).await?,
        None => inside_job::job_id().ok_or_else(|| {
            UsageError(format!(
                "name a job, such as `muster checkpoint get job-3f0c`: outside of a job {} is not set",
                environment::JOB_ID
            ))
        })?,
    };
    let Some(reader) = open(&client, &id).await? else {
        note(&format!("{id} has no checkpoint"));
        return Ok(exit::FAILURE);
    };
    match output {
        Some(path) => to_file(reader, path).await?,
        None => copy(reader, &mut io::stdout().lock()).await?,
    }
    Ok(exit::OK)
}

/// Opens the checkpoint, patient with a scheduler that restarts.
async fn open(client: &Client, id: &str) -> anyhow::Result<Option<CheckpointReader>> {
    let mut patience = Patience::default();
    loop {
        match client.checkpoint(id).await {
            Err(error) if error.is_transient() => patience.bear(error).await?,
            other => return named(other, id, client),
        }
    }
}

/// Whole or not at all: a program that looks for the file must not find a part of it.
async fn to_file(reader: CheckpointReader, path: &Path) -> anyhow::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    let aside = PathBuf::from(aside);
    let written = write_aside(reader, &aside, path).await;
    if written.is_err() {
        // The failure itself says more than one to tidy up.
        let _ = std::fs::remove_file(&aside);
    }
    written.with_context(|| format!("cannot write {}", path.display()))
}

async fn write_aside(reader: CheckpointReader, aside: &Path, path: &Path) -> anyhow::Result<()> {
    copy(reader, &mut File::create(aside)?).await?;
    std::fs::rename(aside, path)?;
    Ok(())
}

async fn copy(mut reader: CheckpointReader, sink: &mut impl Write) -> anyhow::Result<()> {
    while let Some(piece) = reader.next().await? {
        sink.write_all(&piece)?;
    }
    sink.flush()?;
    Ok(())
}
