//! Bars: policies side by side, and by size.

use std::fmt::Write as _;

use super::frame::{Frame, WIDTH};
use super::scale::Scale;
use super::{Run, colour, escape};
use crate::figures::{Figures, SizeClass};
use crate::words::{digits, duration};

const ROW: f64 = 26.0;
const PANEL: f64 = 310.0;
const NAMES: f64 = 82.0;
const VALUES: f64 = 64.0;

type Value = fn(&Figures) -> f64;
type Words = fn(f64) -> String;

/// Three small pictures: wait, completion, slowdown.
pub(super) fn comparison(runs: &[Run]) -> String {
    let panels: [(&str, Value, Words); 3] = [
        ("Mean wait", |figures| figures.total.wait_s.mean, duration),
        ("Mean completion time", |figures| figures.total.jct_s.mean, duration),
        ("Mean bounded slowdown", |figures| figures.total.bounded_slowdown.mean, digits),
    ];
    let mut html = String::from("<div class=\"panels\">\n");
    for (title, value, words) in panels {
        let _ = write!(html, "<div><h3>{title}</h3>\n{}</div>\n", panel(runs, title, value, words));
    }
    html.push_str("</div>\n");
    html
}

fn panel(runs: &[Run], title: &str, value: Value, words: Words) -> String {
    let highest = runs.iter().map(|run| value(run.figures)).fold(0.0, f64::max);
    let scale = Scale::linear(highest, NAMES, PANEL - VALUES);
    let height = runs.len() as f64 * ROW + 4.0;
    let mut svg = format!(
        "<svg viewBox=\"0 0 {PANEL} {height}\" role=\"img\" aria-label=\"{title} of each policy\">\n"
    );
    for (index, run) in runs.iter().enumerate() {
        let (y, value) = (index as f64 * ROW, value(run.figures));
        let width = (scale.place(value) - NAMES).max(1.5);
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"0\" y=\"{0:.1}\">{1}</text>\
             <rect class=\"f{2}\" x=\"{NAMES}\" y=\"{3:.1}\" width=\"{width:.1}\" height=\"14\" rx=\"2\"/>\
             <text class=\"value\" x=\"{4:.1}\" y=\"{0:.1}\">{5}</text>",
            y + 17.0,
            escape(&run.policy),
            colour(run),
            y + 6.0,
            NAMES + width + 6.0,
            words(value)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

const HEIGHT: f64 = 300.0;

/// Mean waits, in groups of one size, on a logarithmic axis.
pub(super) fn by_size(runs: &[Run]) -> String {
    let classes: Vec<SizeClass> = SizeClass::ALL
        .into_iter()
        .filter(|class| runs.iter().any(|run| wait(run, *class).is_some()))
        .collect();
    let highest = runs.iter().flat_map(|run| classes.iter().filter_map(|class| wait(run, *class)));
    let highest = highest.fold(0.0, f64::max);
    if classes.is_empty() || highest <= 0.0 {
        return String::new();
    }
    let frame = Frame::of(HEIGHT);
    let y = Scale::logarithmic(1.0, highest, frame.bottom, frame.top);
    let mut svg = frame.open("Mean wait by size of job, for each policy");
    frame.rows(&mut svg, &y, &y.time_marks());
    let group = (frame.right - frame.left) / classes.len() as f64;
    let bar = (group * 0.8 / runs.len() as f64).min(46.0);
    for (position, class) in classes.iter().enumerate() {
        let middle = frame.left + (position as f64 + 0.5) * group;
        let start = middle - bar * runs.len() as f64 / 2.0;
        for (index, run) in runs.iter().enumerate() {
            let Some(wait) = wait(run, *class) else { continue };
            let top = y.place(wait).min(frame.bottom - 1.5);
            let _ = writeln!(
                svg,
                "<rect class=\"f{}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"1.5\">\
                 <title>{}, {}: {}</title></rect>",
                colour(run),
                start + index as f64 * bar + 0.5,
                (bar - 1.0).max(1.0),
                frame.bottom - top,
                escape(&run.policy),
                class.name(),
                duration(wait)
            );
        }
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            frame.bottom + 17.0,
            class.name()
        );
    }
    let _ = writeln!(
        svg,
        "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{2}\" y2=\"{2}\"/></svg>",
        frame.left,
        WIDTH - 14.0,
        frame.bottom
    );
    svg
}

fn wait(run: &Run, class: SizeClass) -> Option<f64> {
    let group = run.figures.by_size.iter().find(|group| group.name == class.name());
    group.map(|group| group.wait_s.mean)
}
