//! Commands and questions about webhooks and their dead letters.

use muster_domain::{DeadLetter, DeliveryId, Progress, Webhook, WebhookId};

/// The most webhooks that are kept.
pub const MAX_WEBHOOKS: usize = 100;
/// The most dead letters that are kept of one webhook; older ones go.
pub const MAX_LETTERS: usize = 1_000;

/// What deliveries have led to. Ignored when the webhook has come further meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    pub id: WebhookId,
    pub progress: Progress,
    /// The receiver wants no more.
    pub pause: bool,
    /// Given up.
    pub dead: Vec<DeadLetter>,
    /// Dead letters that reached their receiver after all.
    pub revived: Vec<DeliveryId>,
}

/// Which dead letters a command is about: those of a webhook, those named, or all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterChoice {
    pub hook: Option<WebhookId>,
    /// Empty means any.
    pub letters: Vec<DeliveryId>,
}

/// A change of webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookCommand {
    /// Takes in a webhook; it begins after the newest event.
    Create(Webhook),
    /// Pauses or resumes.
    Pause {
        id: WebhookId,
        paused: bool,
    },
    /// Removes a webhook and its dead letters.
    Delete {
        id: WebhookId,
    },
    Deliver(Delivered),
    /// Has dead letters sent once more.
    Retry(LetterChoice),
    /// Removes dead letters.
    Forget(LetterChoice),
}

/// What became of a [`WebhookCommand`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookOutcome {
    /// The webhook as it is now.
    Webhook(Box<Webhook>),
    Deleted,
    /// So many dead letters were meant.
    Letters(usize),
}

/// Which dead letters to read: all conditions hold together; by webhook and event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterFilter {
    pub hook: Option<WebhookId>,
    /// Empty means any.
    pub letters: Vec<DeliveryId>,
    /// Only those that somebody asked to send again.
    pub retry: bool,
    /// The last one of the page before.
    pub after: Option<DeliveryId>,
    pub limit: usize,
}

/// A webhook with the number of its dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookView {
    pub webhook: Webhook,
    pub dead_letters: u64,
}
