//! The blob store as a scheduler uses it: opened and tried at the start, watched afterwards.
//!
//! Guarantees: a wrong setting keeps the scheduler from starting; an S3 that is away does not: jobs run without it, and
//! `/readyz` and the metrics tell.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_blob::{
    BlobError, BlobSettings, BlobStore, InvalidBlobSettings, Place, S3Credentials, S3Settings,
};
use muster_tls::Trust;
use tokio::sync::OnceCell;

use crate::config::{BlobConfig, ServerConfig};
use crate::error::ServerError;
use crate::logs::Objects;

/// How long the start waits for S3.
const PATIENCE: Duration = Duration::from_secs(5);

/// The store, and why it is out of reach if it is.
#[derive(Debug)]
pub(crate) struct Blobs {
    store: BlobStore,
    /// Where moved output is read from.
    objects: Arc<Objects>,
    outage: Mutex<Option<Arc<str>>>,
    /// Whether it refuses content with another SHA-256, once it was tried.
    checks_content: OnceCell<bool>,
}

impl Deref for Blobs {
    type Target = BlobStore;

    fn deref(&self) -> &BlobStore {
        &self.store
    }
}

impl Blobs {
    pub(crate) async fn open(config: &ServerConfig) -> Result<Self, ServerError> {
        let settings = settings(config).map_err(BlobError::from)?;
        let store = BlobStore::open(&settings)?;
        let objects = Arc::new(Objects::new(store.clone()));
        let blobs = Self { store, objects, outage: Mutex::default(), checks_content: OnceCell::new() };
        if blobs.is_direct() {
            blobs.first_probe().await?;
        }
        Ok(blobs)
    }

    pub(crate) fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    async fn first_probe(&self) -> Result<(), BlobError> {
        let probed = tokio::time::timeout(PATIENCE, self.store.probe()).await;
        match probed {
            Ok(Err(error)) if !error.is_passing() => return Err(error),
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.note(Some(&error.to_string())),
            Err(_) => self.note(Some("it does not answer")),
        }
        Ok(())
    }

    /// Asks the store for a sign of life.
    pub(crate) async fn watch(&self) {
        match self.store.probe().await {
            Ok(()) => self.note(None),
            Err(error) => self.note(Some(&error.to_string())),
        }
    }

    /// Whether the store refuses content that has not the SHA-256 that was announced. One that does not, or cannot be asked,
    /// gets no content but through schedulers.
    pub(crate) async fn checks_content_once(&self) -> bool {
        let tried = self.checks_content.get_or_try_init(|| self.store.checks_content()).await;
        if let Ok(false) = tried
            && self.store.is_direct()
        {
            tracing::debug!(
                place = self.store.place(),
                "S3 does not check SHA-256: artifacts go through schedulers"
            );
        }
        tried.is_ok_and(|checks| *checks)
    }

    /// Something could not be done with it: until it answers again, it counts as away.
    pub(crate) fn failed(&self, error: &BlobError) {
        if error.is_passing() {
            self.note(Some(&error.to_string()));
        }
    }

    fn note(&self, why: Option<&str>) {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        match (why, outage.is_some()) {
            (Some(reason), false) => {
                tracing::warn!(reason, place = self.store.place(), "the blob store is out of reach");
            }
            (None, true) => tracing::info!(place = self.store.place(), "the blob store is in reach again"),
            _ => {}
        }
        *outage = why.map(Arc::from);
    }

    /// Why it is out of reach, if it is.
    pub(crate) fn outage(&self) -> Option<Arc<str>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn settings(config: &ServerConfig) -> Result<BlobSettings, InvalidBlobSettings> {
    let blobs = &config.blobs;
    let (bucket, prefix) = match &blobs.place {
        None => return Ok(BlobSettings::Directory(config.data_dir.join("blobs"))),
        Some(Place::Directory(path)) => return Ok(BlobSettings::Directory(path.clone())),
        Some(Place::Bucket { bucket, prefix }) => (bucket.clone(), prefix.clone()),
    };
    let defaults = S3Settings::new(blobs.endpoint.clone(), credentials(blobs)?);
    let settings = S3Settings {
        public_endpoint: blobs.public_endpoint.clone(),
        region: blobs.region.clone(),
        path_style: blobs.path_style,
        trust: Trust { ca_file: config.ca_file.clone(), fingerprint: None },
        ..defaults
    };
    Ok(BlobSettings::S3 { bucket, prefix, settings: Box::new(settings) })
}

fn credentials(blobs: &BlobConfig) -> Result<S3Credentials, InvalidBlobSettings> {
    match &blobs.credentials_file {
        Some(path) => read_credentials(path),
        None => blobs.credentials.clone().ok_or(InvalidBlobSettings::NoCredentials),
    }
}

fn read_credentials(path: &Path) -> Result<S3Credentials, InvalidBlobSettings> {
    let wrong = |reason: String| {
        let path = path.display().to_string();
        InvalidBlobSettings::CredentialsFile { path, reason }
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let read = S3Credentials::from_lines(&text);
    read.ok_or_else(|| wrong("AWS_ACCESS_KEY_ID= or AWS_SECRET_ACCESS_KEY= is missing".to_owned()))
}
