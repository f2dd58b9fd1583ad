//! What can go wrong with a store. Refusals by the rules are not errors; they are answers.

/// A failure of the store itself. The transaction it happened in has changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or did not answer; trying again later may help.
    #[error("the store is unavailable ({operation}): {source}")]
    Unavailable { operation: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    /// No space is left where the store keeps its data; it passes when somebody makes room.
    #[error("no space is left {} ({operation})", .place.as_deref().unwrap_or("for the store"))]
    Full {
        operation: &'static str,
        /// Where, in words that fit after "no space is left": `in DIRECTORY`.
        place: Option<String>,
    },
    /// Two transactions met; the same one tried again will pass.
    #[error("the transaction collided with another ({operation})")]
    Conflict { operation: &'static str },
    /// The store answered with an error that trying again will not mend.
    #[error("the store failed ({operation}): {source}")]
    Failed { operation: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    /// A row does not make sense.
    #[error("the store holds a damaged record ({record}): {detail}")]
    Corrupt { record: String, detail: String },
    /// The schema is newer than this program.
    #[error("the store's schema is at version {found}, this program knows only {known}: use a newer program")]
    SchemaTooNew { found: i64, known: i64 },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// What was in the way, without the words around it.
    pub fn reason(&self) -> String {
        match self {
            Self::Unavailable { source, .. } => source.to_string(),
            error => error.to_string(),
        }
    }

    /// Whether the same call may succeed later without anything being changed by hand.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Full { .. } | Self::Conflict { .. })
    }
}
