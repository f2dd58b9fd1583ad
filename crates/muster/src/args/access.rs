//! `muster login`, `token`, `user`, `join-token`, `audit`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::WrittenTime;
use super::{amounts, times};

const LOGIN_EXAMPLES: &str = "\
Examples:
  muster login                              with a browser, where there is OIDC
  muster login ann                          asks for the password
  muster login --token-stdin < token.txt    keeps a token that somebody made for you

Without a user name, and where the scheduler has a login provider (OIDC), an
address and a code are shown: open the address in any browser and enter the code.
With a user name the password is asked for.

What is kept is in muster/credentials.json in the directory of your settings.
MUSTER_API_TOKEN is used instead of it where it is set.";

/// `muster login`.
#[derive(Debug, Clone, Args)]
#[command(after_help = LOGIN_EXAMPLES)]
pub(crate) struct LoginArgs {
    /// The user whose password is asked for [default: the one of this machine, where there is no login provider]
    #[arg(value_name = "USER", conflicts_with_all = ["token_stdin", "oidc"])]
    pub(crate) user: Option<String>,
    /// Log in through the provider of the scheduler (OIDC) with a browser, which may be on another machine
    #[arg(long, conflicts_with_all = ["password_stdin", "token_stdin"])]
    pub(crate) oidc: bool,
    /// Read the password from standard input instead of asking for it
    #[arg(long, conflicts_with = "token_stdin")]
    pub(crate) password_stdin: bool,
    /// Keep a token that is read from standard input
    #[arg(long)]
    pub(crate) token_stdin: bool,
}

/// What an account is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    /// Sees jobs, queues and workers
    Viewer,
    /// Submits jobs, and changes those that it submitted
    User,
    /// Changes all jobs, queues, workers and webhooks
    Operator,
    /// May also do what concerns users and settings
    Admin,
}

impl RoleName {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

const TOKEN_EXAMPLES: &str = "\
Examples:
  muster token create ci --role user --queue nightly --expires 90d
  muster token ls
  muster token revoke cred-3f0c

TOKEN is the id of a token, or the beginning of one.";

/// `muster token`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = TOKEN_EXAMPLES)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) action: TokenAction,
}

/// What can be done with tokens.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum TokenAction {
    /// Make a token; it is shown this once
    Create(TokenCreateArgs),
    /// List tokens and sessions: yours, or those of all users for an admin
    #[command(visible_alias = "list")]
    Ls,
    /// Make tokens or sessions worthless
    Revoke {
        #[arg(value_name = "TOKEN", required = true)]
        tokens: Vec<String>,
    },
}

/// `muster token create`.
#[derive(Debug, Clone, Args)]
pub(crate) struct TokenCreateArgs {
    /// What you will know it by
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The most that it may do [default: all that its user may]
    #[arg(long, value_name = "ROLE", value_enum)]
    pub(crate) role: Option<RoleName>,
    /// A queue that it may submit to; may be repeated [default: all that its user may]
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// How long it is good for, such as 12h or 90d [default: until it is revoked]
    #[arg(long, value_name = "TIME", value_parser = amounts::duration)]
    pub(crate) expires: Option<Duration>,
    /// Whose token it is; only an admin makes tokens of others [default: yours]
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
}

const USER_EXAMPLES: &str = "\
Examples:
  muster user create ann --role operator
  muster user create bot --no-password      then: muster token create ci --user bot
  muster user set ann --queue nightly --queue dev
  muster user passwd ann
  muster user set bob --disable
  muster user set ann --oidc-subject 8f1c   links ann with the login provider";

/// `muster user`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = USER_EXAMPLES)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    pub(crate) action: UserAction,
}

/// What can be done with users.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum UserAction {
    /// Make a user; asks for its password
    Create(UserCreateArgs),
    /// List the users
    #[command(visible_alias = "list")]
    Ls,
    /// Change what a user may do
    Set(UserSetArgs),
    /// Set the password of a user, or your own; sessions end with it
    Passwd {
        /// The user; an admin names it [default: yourself]
        #[arg(value_name = "USER")]
        user: Option<String>,
        /// Read the passwords from standard input: the old one first where it is your own, then the new one
        #[arg(long)]
        password_stdin: bool,
    },
    /// Remove a user with its tokens and sessions; its jobs stay
    Rm {
        #[arg(value_name = "USER")]
        user: String,
    },
}

/// `muster user create`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UserCreateArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What it may do
    #[arg(long, value_name = "ROLE", value_enum, default_value = "user")]
    pub(crate) role: RoleName,
    /// A queue that it may submit to; may be repeated [default: all]
    #[arg(long = "queue", value_name = "QUEUE")]
    pub(crate) queues: Vec<String>,
    /// Read the password from standard input instead of asking for it
    #[arg(long, conflicts_with = "no_password")]
    pub(crate) password_stdin: bool,
    /// It cannot log in, but have tokens
    #[arg(long)]
    pub(crate) no_password: bool,
}

/// `muster user set`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UserSetArgs {
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What it may do
    #[arg(long, value_name = "ROLE", value_enum)]
    pub(crate) role: Option<RoleName>,
    /// A queue that it may submit to, instead of those before; may be repeated
    #[arg(long = "queue", value_name = "QUEUE", conflicts_with = "all_queues")]
    pub(crate) queues: Vec<String>,
    /// It may submit to all queues
    #[arg(long)]
    pub(crate) all_queues: bool,
    /// It can do nothing until it is enabled
    #[arg(long, conflicts_with = "enable")]
    pub(crate) disable: bool,
    #[arg(long)]
    pub(crate) enable: bool,
    /// Who it is at the login provider (the claim sub of its ID token), so that it logs in there; empty ends that
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) oidc_subject: Option<String>,
}

const JOIN_EXAMPLES: &str = "\
Examples:
  muster join-token create rack-7 --uses 8 --tag gpu
  MUSTER_JOIN_TOKEN=msj_... muster-worker --scheduler https://muster.example:8080
  muster join-token ls
  muster join-token revoke cred-3f0c

KEY is the id of a join token or of the key of a worker, or the beginning of one.";

/// `muster join-token`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true, arg_required_else_help = true, after_help = JOIN_EXAMPLES)]
pub(crate) struct JoinTokenArgs {
    #[command(subcommand)]
    pub(crate) action: JoinTokenAction,
}

/// What can be done with join tokens and the keys that came of them.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum JoinTokenAction {
    /// Make a join token; it is shown this once
    Create {
        /// What you will know it by
        #[arg(value_name = "NAME")]
        name: String,
        /// How many machines may use it
        #[arg(long, value_name = "N", default_value_t = 1)]
        uses: u32,
        /// A tag that these workers may have; may be repeated [default: all]
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
        /// How long it can be used
        #[arg(long, value_name = "TIME", default_value = "24h", value_parser = amounts::duration)]
        expires: Duration,
    },
    /// List join tokens and the keys of workers
    #[command(visible_alias = "list")]
    Ls,
    /// Make them worthless; what such a worker holds is taken away from it
    Revoke {
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<String>,
    },
}

/// `muster audit`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AuditArgs {
    /// Only what happened since then: 10m ago, "2026-05-05 08:33" local time or 2026-05-05T08:33:00Z
    #[arg(long, value_name = "TIME", value_parser = times::time)]
    pub(crate) since: Option<WrittenTime>,
    /// The most lines, the newest of them
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Print all lines, as JSON one a line
    #[arg(long, conflicts_with = "limit")]
    pub(crate) export: bool,
}
