//! How the statements of one piece of work belong together.

/// How the statements of a [`crate::tx::PostgresTx`] belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// A transaction; each statement sees what was committed before it began.
    Write,
    /// One state of the database for all statements.
    Snapshot,
    /// Every statement for itself.
    Single,
}

impl Scope {
    pub(crate) const fn begin(self) -> Option<&'static str> {
        match self {
            Self::Write => Some("BEGIN ISOLATION LEVEL READ COMMITTED"),
            Self::Snapshot => Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            Self::Single => None,
        }
    }
}
