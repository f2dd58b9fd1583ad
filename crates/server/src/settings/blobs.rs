//! The flags about the blob store and about artifacts.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use muster_blob::{Place, S3Credentials};
use muster_domain::ArtifactBounds;

use super::values::{Retention, SizeLimit, positive};
use crate::config::BlobConfig;

/// How URLs name a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UrlStyle {
    /// In the path.
    Path,
    /// In the name of the host.
    Host,
}

/// Whether workers send straight to S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DirectUse {
    /// Where it works.
    Auto,
    /// Everything goes through the schedulers.
    Never,
}

/// Where large results lie, and how much of them is kept.
#[derive(Debug, Clone, Args)]
pub struct BlobArgs {
    #[arg(
        long,
        help = "Where artifacts lie, and, if this is given, finished output and large checkpoints: a directory, or s3://BUCKET or s3://BUCKET/PREFIX. Several schedulers need S3 or a directory that all of them share [default: blobs in the data directory, for artifacts only]",
        value_name = "PLACE",
        env = "MUSTER_BLOB_STORE"
    )]
    pub blob_store: Option<Place>,
    #[arg(
        long,
        help = "URL of S3, such as http://s3.example:8333; workers and clients use it too unless --s3-public-endpoint names another [default: AWS]",
        value_name = "URL",
        env = "MUSTER_S3_ENDPOINT"
    )]
    pub s3_endpoint: Option<String>,
    #[arg(
        long,
        help = "URL of the same S3 in links for workers and clients, where they reach it by another name than the scheduler [default: --s3-endpoint]",
        value_name = "URL",
        env = "MUSTER_S3_PUBLIC_ENDPOINT"
    )]
    pub s3_public_endpoint: Option<String>,
    #[arg(
        long,
        help = "Whether workers send artifacts straight to S3 by signed links: auto where S3 checks their SHA-256 and the worker reaches it, or never",
        value_name = "WHEN",
        env = "MUSTER_BLOB_DIRECT",
        default_value = "auto"
    )]
    pub blob_direct: DirectUse,
    /// Region of the bucket
    #[arg(long, value_name = "REGION", env = "MUSTER_S3_REGION", default_value = "us-east-1")]
    pub s3_region: String,
    /// How URLs name the bucket: path or host [default: path with --s3-endpoint, else host]
    #[arg(long, value_name = "STYLE", env = "MUSTER_S3_URL_STYLE")]
    pub s3_url_style: Option<UrlStyle>,
    #[arg(
        long,
        help = "A file with the lines AWS_ACCESS_KEY_ID=... and AWS_SECRET_ACCESS_KEY=..., perhaps AWS_SESSION_TOKEN=... [default: the variables of these names]",
        value_name = "FILE",
        env = "MUSTER_S3_CREDENTIALS_FILE"
    )]
    pub s3_credentials_file: Option<PathBuf>,
    #[arg(long, env = "AWS_ACCESS_KEY_ID", hide = true, hide_env_values = true)]
    pub s3_access_key_id: Option<String>,
    #[arg(long, env = "AWS_SECRET_ACCESS_KEY", hide = true, hide_env_values = true)]
    pub s3_secret_access_key: Option<String>,
    #[arg(long, env = "AWS_SESSION_TOKEN", hide = true, hide_env_values = true)]
    pub s3_session_token: Option<String>,
    /// The largest artifact, such as 10G, or off
    #[arg(long, value_name = "SIZE", env = "MUSTER_ARTIFACT_LIMIT", default_value = "off")]
    pub artifact_limit: SizeLimit,
    /// Artifacts of one attempt
    #[arg(long, value_name = "N", env = "MUSTER_ARTIFACT_FILES", default_value_t = 10_000)]
    pub artifact_files: u64,
    /// Bytes of artifacts of all attempts of a job, such as 50G, or off
    #[arg(long, value_name = "SIZE", env = "MUSTER_ARTIFACT_BYTES_PER_JOB", default_value = "off")]
    pub artifact_bytes_per_job: SizeLimit,
    /// Bytes of artifacts of all jobs of a user, or off
    #[arg(long, value_name = "SIZE", env = "MUSTER_ARTIFACT_BYTES_PER_USER", default_value = "off")]
    pub artifact_bytes_per_user: SizeLimit,
    /// Bytes of artifacts of all jobs of a queue, or off
    #[arg(long, value_name = "SIZE", env = "MUSTER_ARTIFACT_BYTES_PER_QUEUE", default_value = "off")]
    pub artifact_bytes_per_queue: SizeLimit,
    /// How long artifacts are kept while their jobs are, counted from when they were handed in, or off
    #[arg(long, value_name = "TIME", env = "MUSTER_ARTIFACT_RETENTION", default_value = "off")]
    pub artifact_retention: Retention,
    /// Age at which an object of the blob store that no job names is removed; longer than any upload takes
    #[arg(long, value_name = "TIME", env = "MUSTER_BLOB_SWEEP_AFTER", default_value = "24h", value_parser = positive)]
    pub blob_sweep_after: Duration,
}

impl BlobArgs {
    pub(super) fn config(&self) -> BlobConfig {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let pair = filled(&self.s3_access_key_id).zip(filled(&self.s3_secret_access_key));
        let session_token = filled(&self.s3_session_token);
        BlobConfig {
            place: self.blob_store.clone(),
            endpoint: filled(&self.s3_endpoint),
            public_endpoint: filled(&self.s3_public_endpoint),
            direct: self.blob_direct == DirectUse::Auto,
            region: self.s3_region.clone(),
            path_style: self.s3_url_style.map(|style| style == UrlStyle::Path),
            // Read only where they are used, so that a scheduler without S3 is the same with and without them.
            credentials: pair
                .filter(|_| matches!(self.blob_store, Some(Place::Bucket { .. })))
                .map(|(access_key, secret_key)| S3Credentials { access_key, secret_key, session_token }),
            credentials_file: self.s3_credentials_file.clone().filter(|path| !path.as_os_str().is_empty()),
            artifact_limit: self.artifact_limit.0,
            bounds: ArtifactBounds {
                files: (self.artifact_files > 0).then_some(self.artifact_files),
                job: self.artifact_bytes_per_job.0,
                user: self.artifact_bytes_per_user.0,
                queue: self.artifact_bytes_per_queue.0,
            },
            retention: self.artifact_retention.0,
            sweep_after: self.blob_sweep_after,
            ..BlobConfig::default()
        }
    }
}
