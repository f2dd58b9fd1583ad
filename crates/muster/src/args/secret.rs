//! `muster secret`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  muster secret set HF_TOKEN                     type the value, it is not shown
  muster secret set HF_TOKEN < token.txt
  muster secret set kubeconfig --queue ml --file ~/.kube/config
  muster run --secret HF_TOKEN -- python train.py
  muster run --queue ml --secret-file kubeconfig -- ./deploy.sh
  muster secret ls";

/// `muster secret`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct SecretArgs {
    #[command(subcommand)]
    pub(crate) action: SecretAction,
}

/// What can be done with secrets.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum SecretAction {
    /// Seal a value and store it, as a new secret or as the next version of one
    Set(SecretSetArgs),
    /// List the secrets: names, not values
    #[command(visible_alias = "list")]
    Ls,
    /// Show what is known of a secret, but not its value
    Show {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a secret; jobs that ask for it fail when they start
    Rm {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Seal a secret to the present keys of the workers; needs its value again
    Reseal(ResealArgs),
    /// List the public keys of the workers, and which of them are trusted here
    Keys,
}

/// `muster secret set`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SecretSetArgs {
    /// Letters, digits, `_`, `-` and `.`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Jobs of this queue may use it [default: only jobs of its owner]
    #[arg(long, value_name = "QUEUE", conflicts_with = "owner")]
    pub(crate) queue: Option<String>,
    /// The user who owns it [default: $USER or $LOGNAME]
    #[arg(long, value_name = "USER")]
    pub(crate) owner: Option<String>,
    #[command(flatten)]
    pub(crate) source: SecretSourceArgs,
}

/// `muster secret reseal`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ResealArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) source: SecretSourceArgs,
}

/// Where the value comes from, and to which keys it is sealed.
#[derive(Debug, Clone, Args)]
pub(crate) struct SecretSourceArgs {
    /// Read the value from this file, as it is [default: standard input, without a line feed at its end]
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Seal to this public key only, whatever the scheduler says; may be repeated
    #[arg(long = "key", value_name = "PUBLIC_KEY")]
    pub(crate) keys: Vec<String>,
    /// Trust keys of workers that were not seen here before
    #[arg(long, conflicts_with = "keys")]
    pub(crate) accept_new_keys: bool,
}
