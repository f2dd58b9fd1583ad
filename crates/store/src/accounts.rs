//! Commands and questions about accounts, credentials and the audit log.

use muster_domain::sign_in::{Change, SignIn};
use muster_domain::{Account, AccountChange, Actor, Credential, CredentialId, Deed, Span, Timestamp};

/// The most credentials of one kind that are kept.
pub const MAX_CREDENTIALS: usize = 10_000;

/// A change of accounts or credentials, and who wants it. It leaves a line in the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountCommand {
    pub by: Actor,
    pub verb: AccountVerb,
}

/// What is to be done. Digests are those of what holders show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountVerb {
    Create(Account),
    Change {
        name: String,
        change: AccountChange,
    },
    /// Removes an account and all that speaks for it.
    Remove {
        name: String,
    },
    /// Takes in a credential.
    Issue {
        digest: String,
        credential: Credential,
    },
    /// Lets somebody in who has logged in at a provider: makes or updates the account, and takes in the session. The name
    /// and the user of `credential` are those of the account.
    SignIn {
        sign_in: SignIn,
        digest: String,
        credential: Credential,
    },
    /// Uses a join token once, and takes in the key of a worker. The tags are those of the token.
    Join {
        token: String,
        digest: String,
        credential: Credential,
    },
    /// Replaces what its holder shows; the old one stays good for `overlap`.
    Rotate {
        old: String,
        new: String,
        id: CredentialId,
        overlap: Span,
    },
    /// Makes a credential worthless. What a worker holds is taken away from it.
    Revoke {
        id: CredentialId,
    },
    /// Notes that a credential is in use. Leaves no line.
    Used {
        digest: String,
    },
    /// Writes a line about something that changed nothing here, such as a refused login.
    Note {
        action: String,
        object: Option<String>,
    },
    /// Forgets lines of the audit log from before a time. Leaves no line.
    ForgetAudit {
        before: Timestamp,
        limit: usize,
    },
}

/// What became of an [`AccountCommand`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountOutcome {
    Account(Box<Account>),
    Credential(Box<Credential>),
    /// Somebody is in by a new session.
    SignedIn {
        credential: Box<Credential>,
        change: Change,
    },
    /// It is done, and there is nothing to show.
    Done,
    /// So many lines are gone.
    Forgotten(u32),
}

/// A credential with the account that it speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownCredential {
    pub credential: Credential,
    pub account: Option<Account>,
}

/// A line of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub seq: u64,
    pub at: Timestamp,
    pub deed: Deed,
}
