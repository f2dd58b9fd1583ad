//! `muster scheduling-report`: docs/scheduling-report.md, all named policies on all workloads.
//!
//! Guarantee: the same traces and the same program give the same page, so that a change of policy shows as a
//! change of the page.

mod cases;
mod claims;
mod markdown;
mod references;

use std::path::Path;

use anyhow::Context as _;
use muster_replay::{Policy, PolicyName, Settings};

use super::sim::{Played, play, sample_every};
use crate::args::ReportArgs;
use crate::exit;
use crate::output::{note, text};
use cases::Case;

/// A case and what came of it.
#[derive(Debug)]
struct Result {
    case: Case,
    jobs: usize,
    played: Vec<Played>,
    /// The default policy, but with stops for reasons of level, where the default is played.
    by_level: Option<Played>,
}

/// What a policy is that is played by its name: that of a scheduler which is told nothing else.
fn usual(name: PolicyName) -> Policy {
    Policy::named(name)
}

pub(crate) fn run(args: &ReportArgs) -> anyhow::Result<u8> {
    let (results, missing) = play_all(args.traces.as_deref())?;
    let page = markdown::page(&results, &missing);
    match &args.file {
        Some(file) => {
            std::fs::write(file, page).with_context(|| format!("{} cannot be written", file.display()))?;
        }
        None => text(&page)?,
    }
    Ok(exit::OK)
}

/// Plays every case whose jobs are there, and names the others.
fn play_all(traces: Option<&Path>) -> anyhow::Result<(Vec<Result>, Vec<&'static str>)> {
    let mut results = Vec::new();
    let mut missing = Vec::new();
    for case in cases::all() {
        let Some(trace) = case.trace(traces)? else {
            note(&format!("{} is left out: its trace is not there", case.title));
            missing.push(case.title);
            continue;
        };
        note(case.title);
        let settings = Settings {
            estimates: case.estimates,
            events: case.events,
            restart: case.restart,
            sample_every: sample_every(&trace.workload),
        };
        let cluster = muster_replay::parse_cluster(case.cluster)?;
        let mut policies: Vec<Policy> = case.policies.iter().copied().map(usual).collect();
        let stops = policies.iter().find(|policy| policy.name == PolicyName::Muster);
        policies.extend(stops.map(|policy| Policy { preempt_by_level: true, ..*policy }));
        let mut played = play(&trace.workload, &cluster, &policies, &settings)?;
        let by_level = if played.len() > case.policies.len() { played.pop() } else { None };
        results.push(Result { jobs: trace.workload.jobs.len(), case, played, by_level });
    }
    Ok((results, missing))
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};
    use muster_domain::PoolAt;
    use muster_server::settings::SchedulerArgs;

    use super::*;
    use crate::args::{Cli, Command, program};

    /// A report, or a simulation, of another policy than the one that runs would be about nothing.
    #[test]
    fn the_scheduler_the_simulator_and_the_report_have_one_default() {
        let words = ["muster", "sim", "--generate", "ml:jobs=10", "--policy", "muster"];
        let found = program().try_get_matches_from(words).unwrap();
        let Command::Sim(sim) = Cli::from_arg_matches(&found).unwrap().command else { panic!("sim") };
        let simulated = sim.policies();
        let scheduler = muster_server::ServerConfig::default().policies;
        assert_eq!(simulated, [usual(PolicyName::Muster)]);
        assert_eq!(*scheduler.at(PoolAt(0)), usual(PolicyName::Muster));
        let flags = SchedulerArgs::augment_args(clap::Command::new("scheduler"));
        let none = flags.try_get_matches_from(["scheduler"]).unwrap();
        let told_nothing = SchedulerArgs::from_arg_matches(&none).unwrap();
        assert_eq!(told_nothing.server_config().policies, scheduler);
    }

    /// What can be played without traces is played again: a change of the rules, or of the words, that was not
    /// followed by `make report` shows here.
    #[test]
    fn the_page_in_the_documentation_is_that_of_this_program() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scheduling-report.md");
        let written = std::fs::read_to_string(file).unwrap();
        let (results, missing) = play_all(None).unwrap();
        assert!(results.len() >= 3 && !missing.is_empty());
        for title in missing {
            assert!(!written.contains("## Left out"), "{title} was left out: the page needs all traces");
        }
        let page = markdown::page(&results, &[]);
        let stale: Vec<&str> =
            page.lines().filter(|line| !written.lines().any(|there| there == *line)).collect();
        assert!(
            stale.is_empty(),
            "docs/scheduling-report.md is stale; run `make report`:\n{}",
            stale.join("\n")
        );
    }
}
