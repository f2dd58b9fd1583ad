//! The arguments of `muster artifacts`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  muster run -- sh -c 'date > \"$MUSTER_ARTIFACTS/when.txt\"'
  muster artifacts ls job-3f0c
  muster artifacts get job-3f0c                   all of them, into this directory
  muster artifacts get job-3f0c model.pt -o out   one, as out/model.pt
  muster artifacts get job-3f0c when.txt -o -     to standard output
  muster artifacts url job-3f0c when.txt --expires 1h";

/// `muster artifacts`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct ArtifactArgs {
    #[command(subcommand)]
    pub(crate) action: ArtifactAction,
}

/// What can be done with artifacts.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum ArtifactAction {
    /// List the files that a job left
    Ls {
        /// The job: its id, or the beginning of it
        #[arg(value_name = "JOB")]
        job: String,
        /// Of this attempt [default: the last one that left any]
        #[arg(long, value_name = "N")]
        attempt: Option<u32>,
    },
    /// Download files; a download that broke off goes on where it was, and each is checked by its SHA-256
    Get {
        /// The job: its id, or the beginning of it
        #[arg(value_name = "JOB")]
        job: String,
        /// The names of the files [default: all]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
        /// The directory to put them into, or - to write one file to standard output
        #[arg(long, short, value_name = "DIR", default_value = ".")]
        output: PathBuf,
        /// Of this attempt [default: the last one that left any]
        #[arg(long, value_name = "N")]
        attempt: Option<u32>,
    },
    /// Print a link to a file that anybody can follow until it expires
    Url {
        /// The job: its id, or the beginning of it
        #[arg(value_name = "JOB")]
        job: String,
        /// The name of the file
        #[arg(value_name = "NAME")]
        name: String,
        /// How long it lives, such as 15m or 24h; 7d at the most
        #[arg(long, value_name = "TIME", default_value = "1h")]
        expires: String,
        /// Of this attempt [default: the last one that left any]
        #[arg(long, value_name = "N")]
        attempt: Option<u32>,
    },
}
