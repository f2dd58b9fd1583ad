//! `ls`: which jobs, which columns, in which order.

use clap::{Args, ValueEnum};
use muster_protocol::JobStatus;

use super::times::{self, WrittenTime};

const EXAMPLES: &str = "\
Examples:
  muster ls --status failed --since 1d
  muster ls --status waiting --queue nightly --columns id,name,priority,age
  muster ls --status running --sort ran
  muster ls --worker gpu-07 --columns id,name,ran,needs
  muster ls PIPELINE --step train --status failed
  muster ls GANG --columns rank,id,status,worker,exit
  muster ls --all --json | jq -r '.[].id'

A status is one of the job's own, or a group of them: waiting (what has not
started), active (what a worker has) and ended (done, failed, cancelled).

Lists of any length are printed as they are read. On a terminal the widths of
the columns are set by the first page and long texts end in …; what is piped is
never shortened, and has whole ids.";

/// The most rows that are kept to be put in order.
const MOST_SORTED: i64 = 100_000;

/// `muster ls`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that people type")]
pub(crate) struct LsArgs {
    /// Only jobs of this pipeline, array or gang: its id, or the beginning of it
    #[arg(value_name = "ID")]
    pub(crate) set: Option<String>,
    /// Only jobs of this step of the pipeline
    #[arg(long, value_name = "STEP", requires = "set", help_heading = "Filters")]
    pub(crate) step: Option<String>,
    /// Only jobs in this state; may be repeated or given as a list with commas
    #[arg(long = "status", short, value_name = "STATUS", value_delimiter = ',', value_parser = statuses, help_heading = "Filters")]
    pub(crate) statuses: Vec<Statuses>,
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE", help_heading = "Filters")]
    pub(crate) queue: Option<String>,
    /// Only jobs with this name
    #[arg(long, value_name = "NAME", help_heading = "Filters")]
    pub(crate) name: Option<String>,
    /// Only jobs that this worker has, or had last
    #[arg(long, value_name = "WORKER", help_heading = "Filters")]
    pub(crate) worker: Option<String>,
    /// Only jobs that require this tag
    #[arg(long, value_name = "TAG", help_heading = "Filters")]
    pub(crate) tag: Option<String>,
    /// Only jobs submitted since then: 2h ago, "2026-05-05 08:33" local time or 2026-05-05T08:33:00Z
    #[arg(long, value_name = "TIME", value_parser = times::time, help_heading = "Filters")]
    pub(crate) since: Option<WrittenTime>,
    /// How many jobs to list
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50, conflicts_with = "all", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// List all jobs, however many
    #[arg(long, short)]
    pub(crate) all: bool,
    /// Print the ids only
    #[arg(long, short, conflicts_with_all = ["json", "columns", "no_header"])]
    pub(crate) quiet: bool,
    /// What to show of each job, with commas in between
    #[arg(long, short, value_name = "COLUMNS", value_enum, value_delimiter = ',', conflicts_with = "json")]
    pub(crate) columns: Vec<JobColumn>,
    /// Leave out the titles of the columns
    #[arg(long, conflicts_with = "json")]
    pub(crate) no_header: bool,
    /// Put the listed jobs in this order
    #[arg(long, value_name = "KEY", value_enum, default_value_t = JobOrder::Submitted)]
    pub(crate) sort: JobOrder,
    /// Turn the order around
    #[arg(long, short)]
    pub(crate) reverse: bool,
}

impl LsArgs {
    /// The states that were asked for; none for any.
    pub(crate) fn statuses(&self) -> Vec<JobStatus> {
        let mut all: Vec<JobStatus> = self.statuses.iter().flat_map(|group| group.0.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether rows have to be kept until the last one is known.
    pub(crate) fn is_sorted(&self) -> bool {
        self.sort != JobOrder::Submitted || self.reverse
    }

    /// What is wrong with the arguments together.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.is_sorted() && (self.all || i64::from(self.limit) > MOST_SORTED) {
            return Err(format!(
                "an order needs all rows at once; ask for at most {MOST_SORTED} with --limit, \
                 or sort what is printed: muster ls --all --no-header | sort"
            ));
        }
        Ok(())
    }
}

/// What a job can be shown by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobColumn {
    Id,
    Name,
    Status,
    Attempt,
    Queue,
    Priority,
    Worker,
    /// Since it was submitted.
    Age,
    /// How long it has run, or did.
    Ran,
    /// How long it waited for its start, or has.
    Waited,
    Submitted,
    Started,
    Ended,
    /// Exit code or signal.
    Exit,
    /// Why it failed, was cancelled or is being stopped.
    Reason,
    Needs,
    Tags,
    After,
    Pipeline,
    Array,
    Step,
    /// Of an element of an array.
    Index,
    Gang,
    /// Of a task of a gang.
    Rank,
    Directory,
    Command,
}

/// What people look for first.
pub(crate) const USUAL_COLUMNS: [JobColumn; 7] = [
    JobColumn::Id,
    JobColumn::Name,
    JobColumn::Status,
    JobColumn::Attempt,
    JobColumn::Worker,
    JobColumn::Age,
    JobColumn::Command,
];

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JobOrder {
    /// The newest first.
    Submitted,
    /// The latest start first.
    Started,
    /// The latest end first.
    Ended,
    /// The longest first.
    Ran,
    /// The longest wait first.
    Waited,
    /// The highest first.
    Priority,
    Name,
    Queue,
    Status,
    Worker,
    /// The most cores first, then the most memory.
    Needs,
}

/// One status, or the ones that a word stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statuses(pub(super) Vec<JobStatus>);

const WAITING: [JobStatus; 3] = [JobStatus::Pending, JobStatus::Blocked, JobStatus::Preempted];
const ACTIVE: [JobStatus; 4] =
    [JobStatus::Reserved, JobStatus::Running, JobStatus::Preempting, JobStatus::Finished];
const ENDED: [JobStatus; 3] = [JobStatus::Done, JobStatus::Failed, JobStatus::Cancelled];

pub(super) fn statuses(text: &str) -> Result<Statuses, String> {
    let word = text.to_lowercase();
    match word.as_str() {
        "waiting" | "queued" => return Ok(Statuses(WAITING.to_vec())),
        "active" => return Ok(Statuses(ACTIVE.to_vec())),
        "ended" => return Ok(Statuses(ENDED.to_vec())),
        _ => {}
    }
    let known = serde_json::from_value(serde_json::Value::String(word));
    known.map(|status| Statuses(vec![status])).map_err(|_| {
        let all = [WAITING.as_slice(), &ACTIVE, &ENDED].concat();
        let names: Vec<&str> = all.into_iter().map(muster_client::status_name).collect();
        format!(
            "{text:?} is no status; there are {}, and the groups waiting, active, ended",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        ls: LsArgs,
    }

    fn parse(line: &str) -> Result<LsArgs, String> {
        let words = ["ls"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.ls).map_err(|error| error.to_string())
    }

    #[test]
    fn words_for_groups_of_statuses() {
        assert_eq!(parse("-s active,running").unwrap().statuses(), ACTIVE);
        assert_eq!(parse("-s ENDED -s pending").unwrap().statuses().len(), 4);
        let wrong = parse("-s sleeping").unwrap_err();
        assert!(wrong.contains("pending") && wrong.contains("groups"), "{wrong}");
    }

    #[test]
    fn an_order_needs_a_bound() {
        assert!(parse("--all --sort ran").unwrap().check().unwrap_err().contains("--limit"));
        assert!(parse("--all").unwrap().check().is_ok());
        assert!(parse("--limit 100000 --reverse").unwrap().check().is_ok());
        assert!(parse("--limit 100001 --reverse").unwrap().check().is_err());
    }

    #[test]
    fn columns_are_a_list_of_known_words() {
        assert_eq!(parse("-c id,ran").unwrap().columns, [JobColumn::Id, JobColumn::Ran]);
        let wrong = parse("-c id,colour").unwrap_err();
        assert!(wrong.contains("priority"), "{wrong}");
    }
}
