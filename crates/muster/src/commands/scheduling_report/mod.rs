//! `muster scheduling-report`: docs/scheduling-report.md, all named policies on all workloads.
//!
//! Guarantee: the same traces and the same program give the same page, so that a change of policy shows as a
//! change of the page.

mod cases;
mod claims;
mod markdown;
mod references;

use anyhow::Context as _;
use muster_replay::Settings;

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
    let mut results = Vec::new();
    let mut missing = Vec::new();
    for case in cases::all() {
        let Some(trace) = case.trace(args.traces.as_deref())? else {
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
        let played = play(&trace.workload, &cluster, &case.policies, &settings)?;
        results.push(Result { jobs: trace.workload.jobs.len(), case, played });
    }
    let page = markdown::page(&results, &missing);
    match &args.file {
        Some(file) => {
            std::fs::write(file, page).with_context(|| format!("{} cannot be written", file.display()))?;
        }
        None => text(&page)?,
    }
    Ok(exit::OK)
}
