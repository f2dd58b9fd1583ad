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
use muster_replay::{Policy, Settings};

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
        let policies: Vec<Policy> = case.policies.iter().copied().map(Policy::named).collect();
        let played = play(&trace.workload, &cluster, &policies, &settings)?;
        results.push(Result { jobs: trace.workload.jobs.len(), case, played });
    }
    Ok((results, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

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
