//! Pictures with one curve for each policy.

use std::fmt::Write as _;

use super::frame::{Frame, path};
use super::scale::Scale;
use super::series::{STEPS, means, pieces};
use super::{Run, colour, escape};
use crate::figures::waits;
use crate::trace::Trace;

const HEIGHT: f64 = 280.0;

/// Jobs that wait, over time.
pub(super) fn queue_length(runs: &[Run]) -> String {
    let end = last_moment(runs);
    let curves: Vec<Vec<Option<f64>>> = runs
        .iter()
        .map(|run| means(&run.outcome.samples, end, |sample| f64::from(sample.waiting_jobs)))
        .collect();
    let highest = curves.iter().flatten().flatten().copied().fold(0.0, f64::max);
    if highest <= 0.0 {
        return String::new();
    }
    let frame = Frame::of(HEIGHT);
    let x = Scale::linear(end, frame.left, frame.right);
    // Policies differ by orders of magnitude.
    let y = if highest > 50.0 {
        Scale::logarithmic(1.0, highest, frame.bottom, frame.top)
    } else {
        Scale::linear(highest, frame.bottom, frame.top)
    };
    let mut svg = frame.open("Jobs that wait over time, for each policy");
    frame.rows(&mut svg, &y, &y.marks());
    frame.columns(&mut svg, &x, &x.time_marks());
    let width = end / STEPS as f64;
    for (run, curve) in runs.iter().zip(&curves) {
        for piece in pieces(curve) {
            let points =
                piece.iter().map(|(step, mean)| (x.place((*step as f64 + 0.5) * width), y.place(*mean)));
            draw(&mut svg, run, &path(points));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// The share of jobs that wait at most so long.
pub(super) fn distribution(runs: &[Run], trace: &Trace) -> String {
    let sorted: Vec<Vec<f64>> = runs.iter().map(|run| waits(&trace.workload, run.outcome)).collect();
    let longest = sorted.iter().filter_map(|waits| waits.last()).copied().fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let frame = Frame::of(HEIGHT);
    let x = Scale::logarithmic(1.0, longest, frame.left, frame.right);
    let y = Scale::linear(100.0, frame.bottom, frame.top);
    let mut svg = frame.open("Share of jobs by how long they wait, for each policy");
    let marks: Vec<(f64, String)> =
        [0.0, 25.0, 50.0, 75.0, 100.0].map(|share| (share, format!("{share} %"))).to_vec();
    frame.rows(&mut svg, &y, &marks);
    frame.columns(&mut svg, &x, &x.time_marks());
    for (run, waits) in runs.iter().zip(&sorted) {
        let last = waits.len().saturating_sub(1);
        let step = (waits.len() / STEPS).max(1);
        let shown = (0..waits.len()).filter(|position| position % step == 0 || *position == last);
        let points = shown.map(|position| {
            let share = (position + 1) as f64 / waits.len() as f64 * 100.0;
            (x.place(waits[position]), y.place(share))
        });
        draw(&mut svg, run, &path(points));
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, run: &Run, path: &str) {
    let _ = writeln!(
        svg,
        "<path class=\"curve s{}\" d=\"{path}\"><title>{}</title></path>",
        colour(run),
        escape(&run.policy)
    );
}

/// The last moment of the longest run, in seconds.
pub(super) fn last_moment(runs: &[Run]) -> f64 {
    let last = |run: &Run| run.outcome.samples.last().map_or(0, |sample| sample.at.as_micros());
    runs.iter().map(last).max().unwrap_or(0) as f64 / 1e6
}
