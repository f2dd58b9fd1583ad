//! Gangs: tasks that start together or not at all; and how processes are started and asked to leave.

use clap::Args;
use muster_protocol::{
    GangPolicy, GangState, LaunchMode, OnPreemptExit0, SignalScope, Topology, TopologyMode,
};

/// How many tasks, and how they stand to each other: options of `run` and `submit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Gangs")]
pub(crate) struct GangArgs {
    #[arg(long, help = "Run N tasks that start together or not at all; each finds its number in GANG_INDEX", value_name = "N", value_parser = clap::value_parser!(i64).range(2..))]
    pub(crate) gang: Option<i64>,
    /// The fewest tasks that may start without the others [default: all]
    #[arg(long, value_name = "N", requires = "gang", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) gang_min: Option<i64>,
    /// The most tasks on one worker [default: 1, or as many as the workers that are there call for]
    #[arg(long, value_name = "N", requires = "gang", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) tasks_per_worker: Option<i64>,
    #[arg(long, help = "Each task on a worker of its own, even if that means to wait for workers; with =LABEL (such as --spread=rack) as evenly as possible over its values instead", value_name = "LABEL", num_args = 0..=1, require_equals = true, default_missing_value = "", requires = "gang", conflicts_with_all = ["pack", "require_pack"])]
    pub(crate) spread: Option<String>,
    /// All tasks on workers with one value of this label, such as rack, if that is possible now
    #[arg(long, value_name = "LABEL", requires = "gang", conflicts_with = "require_pack")]
    pub(crate) pack: Option<String>,
    /// The same, and wait until it is possible
    #[arg(long, value_name = "LABEL", requires = "gang")]
    pub(crate) require_pack: Option<String>,
    /// When the tasks have to start again, leave those alone that are done
    #[arg(long, requires = "gang")]
    pub(crate) keep_done: bool,
}

impl GangArgs {
    /// Whether each task is to have a worker of its own.
    pub(crate) fn one_each(&self) -> bool {
        self.spread.as_deref() == Some("")
    }

    pub(crate) fn topology(&self) -> Option<Topology> {
        let wanted = |label: &Option<String>, mode, required| {
            let label = label.clone().filter(|label| !label.is_empty())?;
            Some(Topology { label, mode, required })
        };
        wanted(&self.spread, TopologyMode::Spread, false)
            .or_else(|| wanted(&self.pack, TopologyMode::Pack, false))
            .or_else(|| wanted(&self.require_pack, TopologyMode::Pack, true))
    }

    pub(crate) fn policy(&self) -> Option<GangPolicy> {
        self.keep_done.then_some(GangPolicy::KeepDone)
    }
}

/// How the process is started and stopped, alone or in a gang.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(crate) struct LaunchArgs {
    /// What one process stands for: per-node (it starts its own workers, as torchrun does) or per-rank [default: per-node]
    #[arg(long, value_name = "MODE", value_parser = launch, help_heading = "Gangs")]
    launch: Option<LaunchMode>,
    /// The same as --launch per-rank
    #[arg(long, conflicts_with = "launch", help_heading = "Gangs")]
    per_rank: bool,
    /// Set the variables that Slurm sets, for programs that look for them; implies --per-rank
    #[arg(long, help_heading = "Gangs")]
    pub(crate) slurm_env: bool,
    /// What exit code 0 means after the job was asked to make room: requeue or success [default: requeue]
    #[arg(long, value_name = "WHAT", value_parser = on_preempt_exit0, help_heading = "End")]
    pub(crate) on_preempt_exit0: Option<OnPreemptExit0>,
    /// Which processes get the polite signal: leader, group, descendants or all [default: group]
    #[arg(long, value_name = "WHOM", value_parser = signal_scope, help_heading = "End")]
    pub(crate) signal_scope: Option<SignalScope>,
}

impl LaunchArgs {
    pub(crate) fn mode(&self) -> Option<LaunchMode> {
        // The variables of Slurm speak of one process for each rank.
        let per_rank = self.per_rank || (self.slurm_env && self.launch.is_none());
        if per_rank { Some(LaunchMode::PerRank) } else { self.launch }
    }
}

const GANGS_EXAMPLES: &str = "\
Examples:
  muster gangs
  muster gangs --state running
  muster gangs --limit 5 --json";

/// `muster gangs`.
#[derive(Debug, Clone, Args)]
#[command(after_help = GANGS_EXAMPLES)]
pub(crate) struct GangListArgs {
    /// Only gangs in this state: waiting, starting, running, draining, done, failed or cancelled
    #[arg(long, short, value_name = "STATE", value_parser = state)]
    pub(crate) state: Option<GangState>,
    /// Print the ids only
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// How many to list
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

const PREEMPT_EXAMPLES: &str = "\
Examples:
  muster preempt JOB
  muster preempt GANG --message 'the demo needs the room'";

/// `muster preempt`.
#[derive(Debug, Clone, Args)]
#[command(after_help = PREEMPT_EXAMPLES)]
pub(crate) struct PreemptArgs {
    /// Running jobs and gangs: their ids, or the beginnings of them
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Why, for the job and for those who look at it
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

/// The words of the API are the words here, with - or _ between them.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_value(serde_json::Value::String(text.to_lowercase().replace('-', "_"))).ok()
}

fn launch(text: &str) -> Result<LaunchMode, String> {
    word(text).ok_or_else(|| format!("{text:?} is none of per-node and per-rank"))
}

fn on_preempt_exit0(text: &str) -> Result<OnPreemptExit0, String> {
    word(text).ok_or_else(|| format!("{text:?} is none of requeue and success"))
}

fn signal_scope(text: &str) -> Result<SignalScope, String> {
    word(text).ok_or_else(|| format!("{text:?} is none of leader, group, descendants and all"))
}

fn state(text: &str) -> Result<GangState, String> {
    word(text).ok_or_else(|| {
        format!(
            "{text:?} is no state of a gang; there are waiting, starting, running, draining, done, failed and \
             cancelled"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_api_with_either_sign() {
        assert_eq!(launch("per-rank"), Ok(LaunchMode::PerRank));
        assert_eq!(launch("per_node"), Ok(LaunchMode::PerNode));
        assert!(launch("rank").unwrap_err().contains("per-node"));
        assert_eq!(on_preempt_exit0("success"), Ok(OnPreemptExit0::Success));
        assert!(on_preempt_exit0("fail").is_err());
        assert_eq!(signal_scope("all"), Ok(SignalScope::All));
        assert!(signal_scope("everybody").unwrap_err().contains("descendants"));
        assert_eq!(state("Draining"), Ok(GangState::Draining));
        assert!(state("blocked").is_err());
    }

    #[test]
    fn the_short_switch_is_the_long_option() {
        let short = LaunchArgs { per_rank: true, ..LaunchArgs::default() };
        assert_eq!(short.mode(), Some(LaunchMode::PerRank));
        assert_eq!(LaunchArgs::default().mode(), None);
        let slurm = LaunchArgs { slurm_env: true, ..LaunchArgs::default() };
        assert_eq!(slurm.mode(), Some(LaunchMode::PerRank));
    }
}
