//! What policies would have done, for people and for programs.

use muster_replay::figures::Group;
use muster_replay::trace::Trace;
use muster_replay::words::{digits, duration, percent, thousands};
use muster_replay::{Estimates, Events, Settings};
use serde::Serialize;

use super::screen::Screen;
use super::table::{Column, Content, render};
use crate::args::By;
use crate::commands::sim::Played;

/// What was played, and how.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub(crate) source: String,
    pub(crate) cluster: String,
    /// For people.
    pub(crate) settings: Vec<String>,
    pub(crate) replay: &'a Settings,
    pub(crate) trace: &'a Trace,
}

/// The whole for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    source: &'a str,
    cluster: &'a str,
    jobs: usize,
    queues: usize,
    estimates: Estimates,
    events: Events,
    restart_s: f64,
    runs: Vec<RunDocument<'a>>,
}

#[derive(Debug, Serialize)]
struct RunDocument<'a> {
    policy: &'static str,
    #[serde(flatten)]
    figures: &'a muster_replay::figures::Figures,
}

pub(crate) fn document<'a>(about: &'a About, played: &'a [Played]) -> Document<'a> {
    Document {
        source: &about.source,
        cluster: &about.cluster,
        jobs: about.trace.workload.jobs.len(),
        queues: about.trace.workload.queues.len(),
        estimates: about.replay.estimates,
        events: about.replay.events,
        restart_s: about.replay.restart.as_secs_f64(),
        runs: played
            .iter()
            .map(|run| RunDocument { policy: run.policy.as_str(), figures: &run.figures })
            .collect(),
    }
}

const SUMMARY: [Column; 12] = [
    Column::fixed("POLICY"),
    Column::right("WAIT"),
    Column::right("MEDIAN"),
    Column::right("P95"),
    Column::right("LONGEST"),
    Column::right("JCT"),
    Column::right("SLOWDOWN"),
    Column::right("USED"),
    Column::right("STRANDED"),
    Column::right("FAIR"),
    Column::right("STOPS"),
    Column::right("MAKESPAN"),
];

/// A line about the input, one row for each policy, and what else was asked for.
pub(crate) fn tables(about: &About, played: &[Played], by: &[By], screen: Screen) -> String {
    let jobs = thousands(about.trace.workload.jobs.len() as i64);
    let source = super::quantities::printable(&about.source);
    let mut parts =
        vec![format!("{source}: {jobs} jobs on {}, {}", about.cluster, about.settings.join(", "))];
    let rows: Vec<Vec<Content>> = played.iter().map(summary).collect();
    parts.push(render(&SUMMARY, &rows, screen));
    for (wanted, title) in [(By::Size, "size"), (By::Queue, "queue")] {
        if by.contains(&wanted) {
            parts.push(groups(played, wanted, title, screen));
        }
    }
    parts.join("\n\n")
}

fn summary(run: &Played) -> Vec<Content> {
    let (figures, total) = (&run.figures, &run.figures.total);
    [
        run.policy.to_string(),
        duration(total.wait_s.mean),
        duration(total.wait_s.median),
        duration(total.wait_s.p95),
        duration(total.wait_s.max),
        duration(total.jct_s.mean),
        digits(total.bounded_slowdown.mean),
        percent(figures.utilisation_under_demand),
        percent(figures.fragmentation),
        format!("{:.3}", figures.fairness_queues),
        thousands(total.preemptions as i64),
        duration(figures.makespan_s),
    ]
    .into_iter()
    .map(|text| (text, None))
    .collect()
}

const GROUPS: [Column; 9] = [
    Column::elastic("GROUP", 8),
    Column::fixed("POLICY"),
    Column::right("JOBS"),
    Column::right("WAIT"),
    Column::right("MEDIAN"),
    Column::right("P95"),
    Column::right("LONGEST"),
    Column::right("JCT"),
    Column::right("SLOWDOWN"),
];

/// The policies of a group stand together, so that they can be compared.
fn groups(played: &[Played], by: By, title: &str, screen: Screen) -> String {
    let of = |run: &Played| match by {
        By::Size => run.figures.by_size.clone(),
        By::Queue => run.figures.by_queue.clone(),
    };
    let all: Vec<Vec<Group>> = played.iter().map(of).collect();
    let mut rows: Vec<Vec<Content>> = Vec::new();
    for (position, group) in all.first().into_iter().flatten().enumerate() {
        for (run, groups) in played.iter().zip(&all) {
            let Some(figures) = groups.get(position) else { continue };
            let name = format!("{title} {}", super::quantities::printable(&group.name));
            rows.push(row(&name, run, figures));
        }
    }
    render(&GROUPS, &rows, screen)
}

fn row(name: &str, run: &Played, group: &Group) -> Vec<Content> {
    [
        name.to_owned(),
        run.policy.to_string(),
        thousands(group.jobs as i64),
        duration(group.wait_s.mean),
        duration(group.wait_s.median),
        duration(group.wait_s.p95),
        duration(group.wait_s.max),
        duration(group.jct_s.mean),
        digits(group.bounded_slowdown.mean),
    ]
    .into_iter()
    .map(|text| (text, None))
    .collect()
}
