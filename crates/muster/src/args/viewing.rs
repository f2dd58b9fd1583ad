//! The live views.

use clap::Args;

use crate::watch::Order;

const WATCH_EXAMPLES: &str = "\
Examples:
  muster watch                         queues, workers and jobs, as they change
  muster watch queue:nightly           only what belongs to a queue
  muster watch status:failed train     failed jobs with train in name or command

A filter has words that are looked for in what is listed, and conditions for the
scheduler: queue:Q name:N worker:W tag:T status:S pipeline:ID array:ID. Press ?
for the keys. Enter opens the output of the selected job and follows it, w says
why it waits, c cancels it after a question, q leaves. Jobs go on when the view
is closed.

Only what changes is sent to the terminal, at most once in 60 ms, so that it is
of use over a slow line. NO_COLOR and --color never work without colours.";

const TOP_EXAMPLES: &str = "\
Examples:
  muster top                           workers and jobs, the longest first
  muster top --sort memory             those who take the most memory first
  muster top --once                    print it once, for a mail or a log
  muster top --json | jq '.jobs[].id'

In the live view o changes the order; all keys of `muster watch` work. What is
shown of a job is what it has asked for and got, not what it uses of it.";

/// `muster watch`.
#[derive(Debug, Clone, Args)]
#[command(after_help = WATCH_EXAMPLES)]
pub(crate) struct WatchArgs {
    /// What to show at first; it can be changed with /
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

/// `muster top`.
#[derive(Debug, Clone, Args)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    /// Print plain tables once and leave; --json does the same
    #[arg(long)]
    pub(crate) once: bool,
    /// Which jobs come first
    #[arg(long, value_name = "KEY", value_enum, default_value_t = Order::Ran)]
    pub(crate) sort: Order,
    /// What to show, as for `muster watch`
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}
