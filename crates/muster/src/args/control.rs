//! The commands that change what is there: jobs, gangs, pipelines, arrays, workers.

use std::time::Duration;

use clap::{Args, Subcommand};
use muster_protocol::BulkFilter;

use super::amounts;
use super::listing::{Statuses, statuses};

const SELECTION_NOTE: &str = "\
ID is the id of a job, a gang, a pipeline or an array, or the beginning of one; the
id of one task of a gang means the whole gang. Instead of ids, options choose the
jobs: all that match every one of them. On a terminal that asks before it acts.";

const CANCEL_EXAMPLES: &str = "\
Examples:
  muster cancel JOB
  muster cancel --dry-run PIPELINE
  muster cancel --queue nightly --status pending --yes";

const RETRY_EXAMPLES: &str = "\
Examples:
  muster retry JOB
  muster retry PIPELINE --from train
  muster retry --queue nightly --status failed";

/// Which jobs: named, or chosen by options.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SelectionArgs {
    /// Jobs, gangs, pipelines and arrays: their ids, or the beginnings of them
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// All jobs of this queue
    #[arg(long, value_name = "QUEUE", help_heading = "Instead of ids")]
    pub(crate) queue: Option<String>,
    /// All jobs with this name
    #[arg(long, value_name = "NAME", help_heading = "Instead of ids")]
    pub(crate) name: Option<String>,
    /// All jobs in this state; may be repeated or given as a list with commas
    #[arg(long = "status", value_name = "STATUS", value_delimiter = ',', value_parser = statuses, help_heading = "Instead of ids")]
    pub(crate) statuses: Vec<Statuses>,
    /// All jobs that this worker has, or had last
    #[arg(long, value_name = "WORKER", help_heading = "Instead of ids")]
    pub(crate) worker: Option<String>,
    /// All jobs that require this tag
    #[arg(long, value_name = "TAG", help_heading = "Instead of ids")]
    pub(crate) tag: Option<String>,
    /// All jobs of this pipeline
    #[arg(long, value_name = "ID", help_heading = "Instead of ids")]
    pub(crate) pipeline: Option<String>,
    /// All jobs of this array
    #[arg(long, value_name = "ID", help_heading = "Instead of ids")]
    pub(crate) array: Option<String>,
    /// Only say what would change
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}

impl SelectionArgs {
    /// The options as the filter that the scheduler takes; nothing when none is given.
    pub(crate) fn filter(&self) -> Option<BulkFilter> {
        let filter = BulkFilter {
            status: self.statuses.iter().flat_map(|group| group.0.clone()).collect(),
            queue: self.queue.clone(),
            name: self.name.clone(),
            worker: self.worker.clone(),
            tag: self.tag.clone(),
            pipeline: self.pipeline.clone(),
            array: self.array.clone(),
            ..BulkFilter::default()
        };
        (filter != BulkFilter::default()).then_some(filter)
    }
}

/// `muster cancel`.
#[derive(Debug, Clone, Args)]
#[command(after_help = format!("{CANCEL_EXAMPLES}\n\n{SELECTION_NOTE}"))]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
}

/// `muster hold`, `muster release`, `muster delete`.
#[derive(Debug, Clone, Args)]
#[command(after_help = SELECTION_NOTE)]
pub(crate) struct ChangeArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
}

/// `muster retry`.
#[derive(Debug, Clone, Args)]
#[command(after_help = format!("{RETRY_EXAMPLES}\n\n{SELECTION_NOTE}"))]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) selection: SelectionArgs,
    /// Of a pipeline: only this step and those after it
    #[arg(long, value_name = "STEP", conflicts_with_all = ["queue", "name", "statuses", "worker", "tag", "pipeline", "array"])]
    pub(crate) from: Option<String>,
}

/// `muster edit`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  muster edit JOB --priority 10\n  muster edit JOB --memory 16G --gpus 2")]
pub(crate) struct EditArgs {
    /// The job: its id, or the beginning of it
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// Higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) priority: Option<i32>,
    /// CPU cores, such as 4 or 0.5
    #[arg(long, value_name = "N", value_parser = amounts::cpus)]
    pub(crate) cpus: Option<f64>,
    /// Memory, such as 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = amounts::memory_mb)]
    pub(crate) memory: Option<u64>,
    /// GPUs
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<u64>,
    /// GPU memory, such as 16G
    #[arg(long, value_name = "SIZE", value_parser = amounts::memory_mb)]
    pub(crate) vram: Option<u64>,
    /// Attempts in all, the first one included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_retries: Option<u32>,
    /// Stop an attempt that runs longer, such as 1h; 0 for no limit
    #[arg(long, value_name = "TIME", value_parser = amounts::duration)]
    pub(crate) timeout: Option<Duration>,
}

/// `muster worker`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    pub(crate) action: WorkerAction,
}

/// What can be done with a worker.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum WorkerAction {
    /// Show one worker: what it has, where it is, and what each of its GPUs does
    Show {
        /// The worker, as `muster workers` names it
        #[arg(value_name = "WORKER")]
        worker: String,
    },
    /// End the quarantine of a worker on which job after job failed
    Release {
        /// The worker, as `muster workers` names it
        #[arg(value_name = "WORKER")]
        worker: String,
    },
}

/// `muster pipelines`, `muster arrays`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SetListArgs {
    /// How many to list
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) limit: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_options_are_no_filter() {
        assert_eq!(SelectionArgs::default().filter(), None);
        let args = SelectionArgs { queue: Some("q".into()), ..SelectionArgs::default() };
        assert_eq!(args.filter().and_then(|filter| filter.queue).as_deref(), Some("q"));
    }
}
