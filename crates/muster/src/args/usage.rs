//! `usage`: of whom, since when, by what.

use clap::{Args, ValueEnum};

use super::times::{self, WrittenTime};

const EXAMPLES: &str = "\
Examples:
  muster usage                           who used what in the last 7 days
  muster usage --by queue --since 30d
  muster usage --by day --user ann
  muster usage --by job --since 1d       which jobs asked for more than they needed
  muster usage JOB                       one job, attempt by attempt
  muster usage --since 2026-05-01 --until 2026-06-01 --json

CPU EFF and MEM EFF are the parts of the requested CPUs and memory that were
used: 12% of 8 cpus is about one core. They are - where nothing was requested
or nothing could be measured. Attempts that still run are not counted.";

/// `muster usage`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UsageArgs {
    /// One job: its id, or the beginning of it
    #[arg(value_name = "JOB", conflicts_with_all = ["by", "since", "until", "user", "queue"])]
    pub(crate) job: Option<String>,
    /// What to sum up by
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = UsageBy::User)]
    pub(crate) by: UsageBy,
    /// From then on [default: 7d ago]: 12h ago, "2026-05-05 08:33" local time or 2026-05-05T08:33:00Z
    #[arg(long, value_name = "TIME", value_parser = times::time)]
    pub(crate) since: Option<WrittenTime>,
    /// Up to then [default: now]
    #[arg(long, value_name = "TIME", value_parser = times::time)]
    pub(crate) until: Option<WrittenTime>,
    /// Only jobs of this user
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
}

/// What the rows of the sums are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageBy {
    User,
    Queue,
    /// Users and queues.
    #[value(name = "user,queue")]
    UserAndQueue,
    /// Days (UTC).
    Day,
    /// Names of jobs.
    Name,
    Job,
}

impl UsageBy {
    /// Its name in the API.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Queue => "queue",
            Self::UserAndQueue => "user,queue",
            Self::Day => "day",
            Self::Name => "name",
            Self::Job => "job",
        }
    }
}
