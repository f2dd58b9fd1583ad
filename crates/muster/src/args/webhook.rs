//! `muster webhook`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const EXAMPLES: &str = "\
Examples:
  muster webhook add https://example.org/hook
  muster webhook add http://localhost:9000/ --event failed --queue nightly
  muster webhook test hook-3f0c
  muster webhook dead-letters retry --webhook hook-3f0c

HOOK is the id of a webhook, or the beginning of one.";

/// `muster webhook`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct WebhookArgs {
    #[command(subcommand)]
    pub(crate) action: WebhookAction,
}

/// What can be done with webhooks.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum WebhookAction {
    /// Make a webhook; its secret is shown this once
    Add(WebhookAddArgs),
    /// List the webhooks and how their deliveries fare
    #[command(visible_alias = "list")]
    Ls,
    /// Show everything about a webhook but its secret
    Show {
        #[arg(value_name = "HOOK")]
        hook: String,
    },
    /// Remove a webhook and its dead letters
    Rm {
        #[arg(value_name = "HOOK")]
        hook: String,
    },
    /// Deliver nothing until it is resumed; nothing is lost meanwhile
    Pause {
        #[arg(value_name = "HOOK")]
        hook: String,
    },
    /// Deliver again, from where it was paused
    Resume {
        #[arg(value_name = "HOOK")]
        hook: String,
    },
    /// Send a test delivery and say what came back; fails when it was not accepted
    Test {
        #[arg(value_name = "HOOK")]
        hook: String,
    },
    /// Look at deliveries that were given up, send them again, remove them
    DeadLetters(DeadLetterArgs),
}

/// `muster webhook add`.
#[derive(Debug, Clone, Args)]
pub(crate) struct WebhookAddArgs {
    /// Where to deliver
    #[arg(value_name = "URL")]
    pub(crate) receiver: String,
    /// Events to deliver, or all; with commas or repeated [default: done,failed,cancelled]
    #[arg(long = "event", value_name = "EVENT", value_delimiter = ',')]
    pub(crate) events: Vec<String>,
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Only jobs with this name
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What deliveries are signed with [default: made up]; others on this machine can see it
    #[arg(long, value_name = "SECRET", conflicts_with = "secret_file")]
    pub(crate) secret: Option<String>,
    /// A file whose first line is the secret
    #[arg(long, value_name = "FILE")]
    pub(crate) secret_file: Option<PathBuf>,
}

/// `muster webhook dead-letters`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeadLetterArgs {
    /// Only those of this webhook
    #[arg(long, value_name = "HOOK", global = true)]
    pub(crate) webhook: Option<String>,
    #[command(subcommand)]
    pub(crate) action: Option<DeadLetterAction>,
}

/// What can be done with dead letters; without any they are listed.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DeadLetterAction {
    /// Send them once more: those named, or all
    Retry {
        /// Ids of dead letters
        #[arg(value_name = "LETTER")]
        letters: Vec<String>,
    },
    /// Remove them: those named, those of --webhook, or --all
    Rm {
        /// Ids of dead letters
        #[arg(value_name = "LETTER")]
        letters: Vec<String>,
        /// All of them
        #[arg(long)]
        all: bool,
    },
}
