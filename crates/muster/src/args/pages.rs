//! What is made of the definitions of the program itself: man pages and the reference.

use std::path::PathBuf;

use clap::Args;

/// `muster man`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ManArgs {
    /// The directory to write muster.1 and the pages of the commands into
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
}
