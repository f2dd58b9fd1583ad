//! Every job of a small run as a bar: when it was submitted, started and ended.

use std::fmt::Write as _;

use super::frame::{Frame, WIDTH};
use super::scale::Scale;
use super::{Run, colour, escape};
use crate::figures::makespan;
use crate::outcome::JobOutcome;
use crate::trace::Trace;
use crate::words::duration;

/// More would be a carpet.
const MOST_JOBS: usize = 150;
const NAMES: f64 = 110.0;
const LONGEST_NAME: usize = 16;

pub(super) fn is_small(trace: &Trace) -> bool {
    (1..=MOST_JOBS).contains(&trace.workload.jobs.len())
}

/// One picture for each policy.
pub(super) fn charts(runs: &[Run], trace: &Trace) -> String {
    let mut html = String::new();
    let longest =
        runs.iter().map(|run| makespan(&trace.workload, run.outcome).as_secs_f64()).fold(0.0, f64::max);
    for run in runs {
        let _ = write!(html, "<h3>{}</h3>\n{}", escape(&run.policy), chart(run, trace, longest));
    }
    html
}

fn chart(run: &Run, trace: &Trace, longest: f64) -> String {
    let jobs = &trace.workload.jobs;
    // Few jobs have room for their names.
    let row = if jobs.len() <= 40 { 15.0 } else { 6.0 };
    let height = jobs.len() as f64 * row + 34.0;
    let left = if jobs.len() <= 40 { NAMES } else { 14.0 };
    let frame = Frame { left, right: WIDTH - 14.0, top: 4.0, bottom: height - 24.0, height };
    let first = jobs.first().map_or(0, |job| job.submit.as_micros());
    let x = Scale::linear(longest, frame.left, frame.right);
    let place = |micros: i64| x.place((micros - first) as f64 / 1e6);
    let mut svg = frame.open(&format!("When each job waited and ran under {}", run.policy));
    frame.columns(&mut svg, &x, &x.time_marks());
    for (number, (job, fate)) in jobs.iter().zip(&run.outcome.jobs).enumerate() {
        let y = frame.top + number as f64 * row;
        let (submit, start, end) =
            (place(job.submit.as_micros()), place(fate.start.as_micros()), place(fate.end.as_micros()));
        let name = name(trace, number);
        if row > 10.0 {
            let _ = write!(svg, "<text x=\"0\" y=\"{:.1}\">{}</text>", y + 10.5, escape(&name));
        }
        let _ = writeln!(
            svg,
            "<g><title>{}</title><rect class=\"pale f{c}\" x=\"{submit:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{h}\"/>\
             <rect class=\"f{c}\" x=\"{start:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{h}\" rx=\"1\"/></g>",
            escape(&about(&name, job, fate)),
            (start - submit).max(0.0),
            (end - start).max(1.0),
            c = colour(run),
            h = row - 2.0,
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn name(trace: &Trace, number: usize) -> String {
    let given = trace.names.get(number).filter(|name| !name.is_empty());
    let name = given.cloned().unwrap_or_else(|| format!("job {}", number + 1));
    if name.chars().count() <= LONGEST_NAME {
        return name;
    }
    name.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
}

fn about(name: &str, job: &crate::workload::TraceJob, fate: &JobOutcome) -> String {
    let tasks = if job.tasks == 1 { String::new() } else { format!(", {} tasks", job.tasks) };
    let stops = match fate.preemptions {
        0 => String::new(),
        1 => ", stopped once".into(),
        times => format!(", stopped {times} times"),
    };
    let waited = fate.start.since(job.submit).as_secs_f64();
    format!("{name}{tasks}: waited {}, needs {}{stops}", duration(waited), duration(job.run.as_secs_f64()))
}
