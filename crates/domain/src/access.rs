//! Who may do what: one table of callers and actions, and the one function that reads it.
//!
//! Guarantees: every pair of a caller and an action has its cell; a caller that nobody vouched for may do nothing; what a
//! caller may do only with its own is refused where it is not known whose the object is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, QueueName, WorkerId};

/// Who sends a request, as far as that is proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// The user who started the scheduler, root, or anyone where the operator trusts everyone who can connect.
    Local,
    /// Nobody that the scheduler knows.
    Stranger(Unproven),
    /// A person or program with an account.
    User {
        name: String,
        role: UserRole,
        /// The queues that it may submit to; `None` means all.
        queues: Option<Vec<QueueName>>,
    },
    /// The agent on a machine.
    Worker {
        id: WorkerId,
        /// The tags that it may have; `None` means all.
        tags: Option<Vec<String>>,
    },
    /// A machine that may become a worker.
    Joiner,
    /// A running job that speaks for itself.
    Job(JobId),
    /// Shows nothing, where workers need not: it may be one of the original system, under any name that has no key.
    Keyless(Unproven),
}

/// What an account is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserRole {
    /// Sees jobs, queues and workers.
    Viewer,
    /// Submits jobs, and changes those that it submitted.
    User,
    /// Changes all jobs, queues, workers and webhooks.
    Operator,
    /// May also do what concerns accounts and settings.
    Admin,
}

impl UserRole {
    pub const ALL: [Self; 4] = [Self::Viewer, Self::User, Self::Operator, Self::Admin];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// Why a caller is a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unproven {
    /// Another user of this machine.
    OtherUser { caller: u32, scheduler: u32 },
    /// The machine does not tell whose connection it is.
    OwnerUnknown { scheduler: u32 },
    /// The caller shows nothing, where something must be shown.
    NoCredential,
}

/// What a route does. Each route has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Health, version and documentation of the scheduler.
    ReadHealth,
    ReadMetrics,
    /// The cluster as a whole: what runs, what waits, and why.
    ReadCluster,
    /// Jobs, pipelines, arrays and gangs: one or a list, their events, why they wait.
    ReadJobs,
    /// The stream of the events of all jobs.
    ReadEvents,
    /// What jobs wrote.
    ReadOutput,
    /// Files that attempts of jobs left.
    ReadArtifacts,
    /// A file behind a signed link.
    FollowLink,
    ReadCheckpoint,
    /// What was sent along with a job.
    ReadInputs,
    SubmitJobs,
    /// Cancel, hold, retry, edit, delete, preempt.
    ChangeJobs,
    /// Register as a worker, say that it lives, take jobs.
    ClaimJobs,
    /// Say how a claimed job goes or ended, send its output.
    ReportJobs,
    /// Hand in what an attempt left.
    SaveArtifacts,
    SaveCheckpoint,
    /// What a running job is told about its own end.
    ReadNotice,
    /// Enter a running job: attach to its terminal, or run a program beside it.
    OpenTerminal,
    /// Bring a worker into a session that somebody has opened. Who does must know the secret of the session as well.
    ServeTerminal,
    ReadQueues,
    /// Set a queue. What an admin of the queue may set of it is less than what an operator may.
    ChangeQueues,
    RemoveQueues,
    ReadWorkers,
    ChangeWorkers,
    ReadWebhooks,
    ChangeWebhooks,
    /// Log in, log out, ask who one is.
    UseAccount,
    /// Tokens: a user has its own.
    ManageTokens,
    ManageAccounts,
    /// Join tokens and the keys of workers.
    ManageKeys,
    /// Exchange a join token for the key of a worker.
    Join,
    ReadAudit,
    /// Names of secrets, whose they are, and the public keys of the fleet. Values are not known to the scheduler.
    ReadSecrets,
    /// Store, replace and remove secrets; which of them, `secrets::may_change` says.
    ChangeSecrets,
}

/// What a request is about, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Object<'a> {
    pub job: Option<JobId>,
    /// The user who submitted the job.
    pub owner: Option<&'a str>,
    /// The worker itself, or the worker that holds the job.
    pub worker: Option<&'a WorkerId>,
    /// Workers that held the job before: what they have to say of their leases may come late.
    pub former: &'a [WorkerId],
    /// It is a worker that has no key, or a job that such a worker holds, or a claimer without a name.
    pub keyless: bool,
    /// The users who administrate the queue, or the queue of the job: they may change it as its owner may.
    pub admins: &'a [String],
}

impl Object<'_> {
    /// Nothing is known: it is nobody's own.
    pub const UNKNOWN: Self =
        Self { job: None, owner: None, worker: None, former: &[], keyless: false, admins: &[] };
}

/// Why something is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("{0}")]
    Stranger(Unproven),
    /// No caller of this kind may do it.
    #[error("a {caller} may not {action}")]
    Never { caller: &'static str, action: Action },
    /// It is allowed only with what is the caller's own.
    #[error("a {caller} may {action} only where it is its own")]
    NotOwn { caller: &'static str, action: Action },
    /// Workers show keys here.
    #[error(
        "workers show a key here (--allow-legacy-workers none), and nothing else may {action}: start the worker with a join \
         token, or put name:key@ into its URL"
    )]
    NoKey { action: Action },
}

/// How far a right goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    All,
    Own,
    Nothing,
}

/// The columns of the table.
#[derive(Debug, Clone, Copy)]
enum Column {
    Local,
    Stranger,
    Viewer,
    User,
    Operator,
    Admin,
    Worker,
    Job,
    Joiner,
    Keyless,
}

const COLUMNS: usize = 10;

/// The table. Its columns are aligned by hand, so that it reads as one.
#[rustfmt::skip]
#[expect(clippy::match_same_arms, reason = "each action has a row of its own, which can be read and changed alone")]
const fn row(action: Action) -> [Right; COLUMNS] {
    use Right::{All, Nothing as No, Own};
    match action {
        //                         local  stranger  viewer  user  operator  admin  worker  job  joiner  keyless
        Action::ReadHealth     => [All,   All,      All,    All,  All,      All,   All,    All, All, All],
        Action::ReadMetrics    => [All,   No,       All,    All,  All,      All,   No,     No,  No, No],
        Action::ReadCluster    => [All,   No,       All,    All,  All,      All,   No,     No,  No, No],
        Action::ReadJobs       => [All,   No,       All,    All,  All,      All,   Own,    Own, No, No],
        Action::ReadEvents     => [All,   No,       All,    All,  All,      All,   No,     No,  No, No],
        Action::ReadOutput     => [All,   No,       All,    All,  All,      All,   Own,    Own, No, No],
        Action::ReadArtifacts  => [All,   No,       All,    All,  All,      All,   Own,    Own, No, No],
        Action::FollowLink     => [All,   All,      All,    All,  All,      All,   All,    All, All, All],
        Action::ReadCheckpoint => [All,   No,       No,     Own,  All,      All,   Own,    Own, No, No],
        Action::ReadInputs     => [All,   No,       No,     Own,  All,      All,   Own,    Own, No, No],
        Action::SubmitJobs     => [All,   No,       No,     All,  All,      All,   No,     No,  No, No],
        Action::ChangeJobs     => [All,   No,       No,     Own,  All,      All,   No,     No,  No, No],
        Action::ClaimJobs      => [All,   No,       No,     No,   No,       No,    Own,    No,  No, Own],
        Action::ReportJobs     => [All,   No,       No,     No,   No,       No,    Own,    No,  No, Own],
        Action::SaveArtifacts  => [All,   No,       No,     No,   No,       No,    Own,    Own, No, Own],
        Action::SaveCheckpoint => [All,   No,       No,     No,   No,       No,    Own,    Own, No, Own],
        Action::ReadNotice     => [All,   No,       No,     No,   No,       No,    No,     Own, No, No],
        Action::OpenTerminal   => [All,   No,       No,     Own,  All,      All,   No,     No,  No, No],
        Action::ServeTerminal  => [All,   No,       No,     No,   No,       No,    Own,    Own, No, Own],
        Action::ReadQueues     => [All,   No,       All,    All,  All,      All,   No,     No,  No, No],
        Action::ChangeQueues   => [All,   No,       No,     Own,  All,      All,   No,     No,  No, No],
        Action::RemoveQueues   => [All,   No,       No,     No,   All,      All,   No,     No,  No, No],
        Action::ReadWorkers    => [All,   No,       All,    All,  All,      All,   No,     No,  No, No],
        Action::ChangeWorkers  => [All,   No,       No,     No,   All,      All,   No,     No,  No, No],
        Action::ReadWebhooks   => [All,   No,       No,     No,   All,      All,   No,     No,  No, No],
        Action::ChangeWebhooks => [All,   No,       No,     No,   All,      All,   No,     No,  No, No],
        Action::UseAccount     => [All,   All,      All,    All,  All,      All,   All,    No,  No, All],
        Action::ManageTokens   => [All,   No,       Own,    Own,  Own,      All,   No,     No,  No, No],
        Action::ManageAccounts => [All,   No,       No,     No,   No,       All,   No,     No,  No, No],
        Action::ManageKeys     => [All,   No,       No,     No,   All,      All,   No,     No,  No, No],
        Action::Join           => [All,   No,       No,     No,   No,       No,    No,     No,  All, No],
        Action::ReadAudit      => [All,   No,       No,     No,   No,       All,   No,     No,  No, No],
        Action::ReadSecrets    => [All,   No,       No,     All,  All,      All,   No,     No,  No, No],
        Action::ChangeSecrets  => [All,   No,       No,     All,  All,      All,   No,     No,  No, No],
    }
}

/// Whether it depends on whose the object is.
pub fn depends_on_owner(principal: &Principal, action: Action) -> bool {
    row(action)[principal.column() as usize] == Right::Own
}

/// Whether only workers do it. Jobs save checkpoints too, so that this is no work.
pub const fn is_work(action: Action) -> bool {
    matches!(action, Action::ClaimJobs | Action::ReportJobs)
}

/// Whether `principal` may do `action` with `object`.
pub fn may(principal: &Principal, action: Action, object: &Object<'_>) -> Result<(), Denied> {
    let column = principal.column();
    let caller = column.name();
    match (row(action)[column as usize], principal) {
        (Right::All, _) => Ok(()),
        (Right::Own, principal)
            if principal.owns(object)
                || principal.administrates(action, object)
                || principal.held(action, object) =>
        {
            Ok(())
        }
        (_, Principal::Stranger(unproven)) | (Right::Nothing, Principal::Keyless(unproven)) => {
            Err(Denied::Stranger(*unproven))
        }
        (Right::Own, _) => Err(Denied::NotOwn { caller, action }),
        (Right::Nothing, _) => Err(Denied::Never { caller, action }),
    }
}

impl Principal {
    const fn column(&self) -> Column {
        match self {
            Self::Local => Column::Local,
            Self::Stranger(_) => Column::Stranger,
            Self::User { role: UserRole::Viewer, .. } => Column::Viewer,
            Self::User { role: UserRole::User, .. } => Column::User,
            Self::User { role: UserRole::Operator, .. } => Column::Operator,
            Self::User { role: UserRole::Admin, .. } => Column::Admin,
            Self::Worker { .. } => Column::Worker,
            Self::Job(_) => Column::Job,
            Self::Joiner => Column::Joiner,
            Self::Keyless(_) => Column::Keyless,
        }
    }

    /// Whether it has shown who it is, or is trusted without that.
    pub const fn is_known(&self) -> bool {
        !matches!(self, Self::Stranger(_) | Self::Keyless(_))
    }

    /// Whether it may submit in the name of another user.
    pub const fn may_speak_for_others(&self) -> bool {
        matches!(self, Self::Local | Self::User { role: UserRole::Operator | UserRole::Admin, .. })
    }

    /// Whether it is named where users of a queue are.
    fn administrates(&self, action: Action, object: &Object<'_>) -> bool {
        let is_change = matches!(action, Action::ChangeJobs | Action::OpenTerminal | Action::ChangeQueues);
        matches!(self, Self::User { name, .. } if is_change && object.admins.contains(name))
    }

    /// Whether it speaks of a job that it held: the lease tells what still counts.
    fn held(&self, action: Action, object: &Object<'_>) -> bool {
        matches!(self, Self::Worker { id, .. } if action == Action::ReportJobs && object.former.contains(id))
    }

    fn owns(&self, object: &Object<'_>) -> bool {
        match self {
            Self::Local | Self::Stranger(_) | Self::Joiner => false,
            Self::User { name, .. } => object.owner == Some(name),
            Self::Worker { id, .. } => object.worker == Some(id),
            Self::Job(id) => object.job == Some(*id),
            Self::Keyless(_) => object.keyless,
        }
    }
}

impl Column {
    const fn name(self) -> &'static str {
        match self {
            Self::Local => "local user",
            Self::Stranger => "stranger",
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Operator => "operator",
            Self::Admin => "admin",
            Self::Worker => "worker",
            Self::Job => "job",
            Self::Joiner => "join token",
            Self::Keyless => "worker without a key",
        }
    }
}

impl fmt::Display for Unproven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherUser { caller, scheduler } => write!(
                f,
                "this scheduler serves the user who started it (uid {scheduler}) and root, and the caller has uid {caller}; \
                 start your own with `muster up`, or start this one with --loopback any to serve every user of this machine"
            ),
            Self::OwnerUnknown { scheduler } => write!(
                f,
                "this scheduler serves the user who started it (uid {scheduler}) and root, and the machine does not tell \
                 whose connection this is; start the scheduler with --loopback any to serve every user of this machine"
            ),
            Self::NoCredential => f.write_str(
                "this scheduler must know who asks: log in with `muster login`, or send a token as `Authorization: Bearer ...`",
            ),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadHealth => "ask for the health of the scheduler",
            Self::ReadMetrics => "read metrics",
            Self::ReadCluster => "read the state of the cluster",
            Self::ReadJobs => "read jobs",
            Self::ReadEvents => "read the events of all jobs",
            Self::ReadOutput => "read the output of jobs",
            Self::ReadArtifacts => "read artifacts of jobs",
            Self::FollowLink => "follow a signed link",
            Self::ReadCheckpoint => "read checkpoints",
            Self::ReadInputs => "read what was sent along with jobs",
            Self::SubmitJobs => "submit jobs",
            Self::ChangeJobs => "change jobs",
            Self::ClaimJobs => "claim jobs",
            Self::ReportJobs => "report on jobs",
            Self::SaveArtifacts => "save artifacts",
            Self::SaveCheckpoint => "save checkpoints",
            Self::ReadNotice => "read the notice of a job",
            Self::OpenTerminal => "enter jobs",
            Self::ServeTerminal => "serve terminals",
            Self::ReadQueues => "read queues",
            Self::ChangeQueues => "change queues",
            Self::RemoveQueues => "remove queues",
            Self::ReadWorkers => "read workers",
            Self::ChangeWorkers => "change workers",
            Self::ReadWebhooks => "read webhooks",
            Self::ChangeWebhooks => "change webhooks",
            Self::UseAccount => "log in",
            Self::ManageTokens => "manage tokens",
            Self::ManageAccounts => "manage accounts",
            Self::ManageKeys => "manage join tokens and the keys of workers",
            Self::Join => "join as a worker",
            Self::ReadAudit => "read the audit log",
            Self::ReadSecrets => "read the names of secrets",
            Self::ChangeSecrets => "change secrets",
        })
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
