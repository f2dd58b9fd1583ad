//! The flags about what is sent along with jobs.

use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::values::{SizeLimit, positive};
use crate::uploads::UploadConfig;

/// Bounds on uploads and on the standard input of jobs.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Uploads")]
pub struct UploadArgs {
    /// Bytes of one upload, such as 500M, 16G or off
    #[arg(long, value_name = "SIZE", env = "MUSTER_UPLOAD_LIMIT", default_value = "16G")]
    pub upload_limit: SizeLimit,
    /// Files, links and empty directories of one upload
    #[arg(long, value_name = "N", env = "MUSTER_UPLOAD_FILES", default_value_t = UploadConfig::default().entries,
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000))]
    pub upload_files: u64,
    /// Bytes of the standard input of a job, such as 64M or off
    #[arg(long, value_name = "SIZE", env = "MUSTER_STDIN_LIMIT", default_value = "64M")]
    pub stdin_limit: SizeLimit,
    /// How long an upload is kept that no job names, such as 24h
    #[arg(long, value_name = "TIME", env = "MUSTER_UPLOAD_KEEP", default_value = "24h", value_parser = positive)]
    pub upload_keep: Duration,
    /// The pause between two passes that remove what is older
    #[arg(long, value_name = "TIME", env = "MUSTER_UPLOAD_SWEEP_INTERVAL", default_value = "1h", value_parser = positive)]
    pub upload_sweep_interval: Duration,
}

impl UploadArgs {
    pub(super) fn config(&self) -> UploadConfig {
        UploadConfig {
            bytes: self.upload_limit.0.unwrap_or(u64::MAX),
            entries: self.upload_files,
            stdin_bytes: self.stdin_limit.0.unwrap_or(u64::MAX),
            keep: self.upload_keep,
            sweep_interval: self.upload_sweep_interval,
        }
    }
}
