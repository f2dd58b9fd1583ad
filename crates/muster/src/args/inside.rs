//! The commands for use inside of a job.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const CHECKPOINT_EXAMPLES: &str = "\
Examples:
  muster checkpoint save model.pt        inside a job: keep this file
  tar c state | muster checkpoint save -
  muster checkpoint get -o model.pt      inside a job: what was kept last
  muster checkpoint get job-3f0c > checkpoint";

const NOTICE_EXAMPLES: &str = "\
Examples:
  if muster notice; then ./save-and-leave.sh; fi
  muster notice --wait | jq -r .deadline
  muster notice --wait && muster checkpoint save state.bin";

/// `muster checkpoint`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = CHECKPOINT_EXAMPLES)]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    pub(crate) action: CheckpointAction,
}

/// What can be done with checkpoints.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum CheckpointAction {
    /// Keep a checkpoint of the job that this runs in, in the place of the one before
    Save {
        /// The file, or - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Write out the checkpoint of a job
    Get {
        /// The job: its id, or the beginning of it; inside a job its own when absent
        #[arg(value_name = "JOB")]
        job: Option<String>,
        /// Write it to this file instead of standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// `muster notice`.
#[derive(Debug, Clone, Args)]
#[command(after_help = NOTICE_EXAMPLES)]
pub(crate) struct NoticeArgs {
    /// Wait until the job is told to stop
    #[arg(long, short)]
    pub(crate) wait: bool,
}
