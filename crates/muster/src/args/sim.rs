//! `sim`: what is played, where, by which policies, and what is written of it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use muster_replay::generate::Generator;
use muster_replay::{Estimates, Events, Policy, PolicyName};
use muster_server::settings::Knob;

use super::amounts;

const EXAMPLES: &str = "\
Examples:
  muster sim --generate ml:jobs=2000,seed=7 --policy all
  muster sim philly.csv.gz --cluster 80x8gpu --policy easy,muster --html out.html
  muster sim KTH-SP2.swf --policy easy,easy-sjbf --events one-by-one
  muster sim plan.toml --cluster cluster.toml --by queue --csv > figures.csv
  muster sim --generate hpc:jobs=1000,seed=7 --write-trace hpc.csv
  muster sim --from-server --policy fifo,muster
  muster sim philly.csv.gz --cluster 80x8gpu --set pin_after=12h --set preempt=off

A trace is a table (submit_s,duration_s,tasks and more), the Standard Workload
Format, or a plan in TOML that says which jobs come into which queues; .gz is
unpacked, - is standard input. A cluster is written as 80x8gpu, 100cpu or
10x(8gpu,64cpu,512g,rack=a), joined by +, or as the name of a TOML file.
docs/simulator.md describes all of them.

A made-up workload is hpc or ml, with jobs, seed, size (processors, or nodes of
eight GPUs), load, users, queues and gangs.";

/// `muster sim`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("workload").required(true).args(["trace", "generate", "from_server"]))]
pub(crate) struct SimArgs {
    /// The trace to play; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Make up a workload instead: hpc or ml, with options
    #[arg(long, value_name = "KIND", help_heading = "What is played", value_parser = generator)]
    pub(crate) generate: Option<Generator>,
    /// Play what runs and waits on the scheduler now to its end
    #[arg(long, help_heading = "What is played")]
    pub(crate) from_server: bool,
    /// How long jobs of the scheduler run that have no time limit
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = amounts::duration, requires = "from_server", help_heading = "What is played")]
    pub(crate) default_run: Duration,
    /// For what a plan leaves to chance
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "What is played")]
    pub(crate) seed: u64,
    /// Only the first jobs
    #[arg(long, value_name = "N", help_heading = "What is played")]
    pub(crate) first: Option<usize>,
    /// The cluster, or a file that describes it [default: what the trace says]
    #[arg(long, value_name = "CLUSTER", help_heading = "How it is played")]
    pub(crate) cluster: Option<String>,
    /// The policies to compare; all for every one
    #[arg(long, short, value_name = "POLICY", value_delimiter = ',', default_value = "easy,muster", value_parser = policies, help_heading = "How it is played")]
    pub(crate) policy: Vec<Policies>,
    /// What the planner is told about run times: limit, true or history
    #[arg(long, value_name = "FROM", value_enum, hide_possible_values = true, default_value_t = EstimatesArg::Limit, help_heading = "How it is played")]
    pub(crate) estimates: EstimatesArg,
    /// When the planner looks: batched, as a scheduler does, or one-by-one
    #[arg(long, value_name = "HOW", value_enum, hide_possible_values = true, default_value_t = EventsArg::Batched, help_heading = "How it is played")]
    pub(crate) events: EventsArg,
    /// What a job loses when it is stopped
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = amounts::duration, help_heading = "How it is played")]
    pub(crate) restart: Duration,
    #[arg(long, help = "A knob of the policies, as under [policy] of muster.toml: pin_after=12h; may be repeated", value_name = "KNOB=VALUE", value_parser = knob, help_heading = "How it is played")]
    pub(crate) set: Vec<Knob>,
    #[command(flatten)]
    pub(crate) output: SimOutputArgs,
}

/// What is printed and written.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What comes of it")]
pub(crate) struct SimOutputArgs {
    /// Print the figures as a table for programs
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Add a table by size or by queue
    #[arg(long, value_name = "GROUP", value_enum, value_delimiter = ',')]
    pub(crate) by: Vec<By>,
    /// Write a page with pictures; it needs nothing else to be looked at
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write how each job fared under each policy
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: Option<PathBuf>,
    /// Write the workload as a table and play nothing; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["csv", "html", "jobs", "by"])]
    pub(crate) write_trace: Option<PathBuf>,
}

/// What figures are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Size,
    Queue,
}

/// See [`Estimates`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EstimatesArg {
    /// The users' limits.
    Limit,
    /// The true times.
    True,
    /// What jobs of the same user and queue took before.
    History,
}

impl From<EstimatesArg> for Estimates {
    fn from(arg: EstimatesArg) -> Self {
        match arg {
            EstimatesArg::Limit => Self::Limit,
            EstimatesArg::True => Self::True,
            EstimatesArg::History => Self::History,
        }
    }
}

/// See [`Events`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventsArg {
    /// Once for all that happens at the same time.
    Batched,
    /// After each single event.
    OneByOne,
}

impl From<EventsArg> for Events {
    fn from(arg: EventsArg) -> Self {
        match arg {
            EventsArg::Batched => Self::Batched,
            EventsArg::OneByOne => Self::OneByOne,
        }
    }
}

/// One policy, or every one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policies {
    All,
    One(PolicyName),
}

impl SimArgs {
    /// Each policy once, in the order in which they were named, with its knobs.
    pub(crate) fn policies(&self) -> Vec<Policy> {
        let named = self.names().into_iter().map(Policy::named);
        named.map(|policy| self.set.iter().fold(policy, |policy, knob| knob.set(policy))).collect()
    }

    fn names(&self) -> Vec<PolicyName> {
        let mut names = Vec::new();
        for policies in &self.policy {
            let named: &[PolicyName] = match policies {
                Policies::All => &PolicyName::ALL,
                Policies::One(name) => std::slice::from_ref(name),
            };
            for name in named {
                if !names.contains(name) {
                    names.push(*name);
                }
            }
        }
        names
    }
}

fn policies(text: &str) -> Result<Policies, String> {
    if text == "all" {
        return Ok(Policies::All);
    }
    text.parse().map(Policies::One).map_err(|error: muster_replay::UnknownPolicy| error.to_string())
}

/// A knob that means something to a simulation.
fn knob(text: &str) -> Result<Knob, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| "write a knob and its value: pin_after=12h".to_owned())?;
    let knob = Knob::read(name, value)?;
    match knob {
        Knob::Name(_) => Err("the policies to compare are those of --policy".to_owned()),
        Knob::Restart(_) => Err("what a stop costs is told by --restart".to_owned()),
        Knob::Patience(_) => {
            Err("the simulator does not know patience: it keeps room for singles at once".to_owned())
        }
        _ => Ok(knob),
    }
}

fn generator(text: &str) -> Result<Generator, String> {
    text.parse().map_err(|error: muster_replay::generate::GenerateError| error.to_string())
}

/// `muster scheduling-report`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// The file to write; without one the page is printed
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Where the traces are; those that are not there are left out
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;
    use muster_domain::Span;

    use super::*;
    use crate::args::{Cli, Command, program};

    fn parse(arguments: &[&str]) -> Result<SimArgs, String> {
        let words = ["muster", "sim", "--generate", "ml:jobs=10"].iter().chain(arguments);
        let found = program().try_get_matches_from(words).map_err(|error| error.to_string())?;
        match Cli::from_arg_matches(&found).map_err(|error| error.to_string())?.command {
            Command::Sim(args) => Ok(*args),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn knobs_are_those_of_the_file_and_set_every_policy() {
        let set = ["--set", "pin_after=12h", "--set", "waste-per-mille=7", "--policy", "easy,muster"];
        let policies = parse(&set).unwrap().policies();
        assert_eq!(
            policies.iter().map(|policy| policy.name).collect::<Vec<_>>(),
            [PolicyName::Easy, PolicyName::Muster]
        );
        for policy in policies {
            assert_eq!((policy.pin_after, policy.waste_per_mille), (Span::from_secs(12 * 3600), 7));
            let usual = Policy::named(policy.name);
            assert_eq!(Policy { pin_after: usual.pin_after, waste_per_mille: 40, ..policy }, usual);
        }
    }

    #[test]
    fn what_is_no_knob_of_a_simulation_is_refused_with_the_reason() {
        let cases = [
            ("ageing=12h", "there is no setting \"ageing\""),
            ("pin_after", "a knob and its value"),
            ("pin_after=soon", "pin_after is \"soon\""),
            ("name=easy", "--policy"),
            ("restart=5m", "--restart"),
            ("patience=5m", "does not know patience"),
        ];
        for (text, expected) in cases {
            let wrong = parse(&["--set", text]).unwrap_err();
            assert!(wrong.contains(expected), "{text}: {wrong}");
        }
    }
}
