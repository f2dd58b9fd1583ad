//! One strip for each policy, one below the other, over the same time.

use std::fmt::Write as _;

use super::frame::{Frame, WIDTH, path};
use super::lines::last_moment;
use super::scale::Scale;
use super::series::{STEPS, means, pieces};
use super::{Run, colour, escape};
use crate::words::percent;

const STRIP: f64 = 54.0;
const GAP: f64 = 12.0;
const NAMES: f64 = 110.0;

/// How much of the cluster is held, over time.
pub(super) fn utilisation(runs: &[Run]) -> String {
    let end = last_moment(runs);
    if end <= 0.0 {
        return String::new();
    }
    let height = runs.len() as f64 * (STRIP + GAP) + 30.0;
    let frame = Frame { left: NAMES, right: WIDTH - 14.0, top: 4.0, bottom: height - 24.0, height };
    let x = Scale::linear(end, frame.left, frame.right);
    let mut svg = frame.open("Share of the cluster that is held over time, for each policy");
    for (index, run) in runs.iter().enumerate() {
        let top = frame.top + index as f64 * (STRIP + GAP);
        let place = Strip { x, y: Scale::linear(1.0, top + STRIP, top), top, end };
        strip(&mut svg, run, &place, &frame);
    }
    frame.columns(&mut svg, &x, &x.time_marks());
    svg.push_str("</svg>\n");
    svg
}

struct Strip {
    x: Scale,
    y: Scale,
    top: f64,
    end: f64,
}

fn strip(svg: &mut String, run: &Run, place: &Strip, frame: &Frame) {
    let share = |part: u64, total: u64| if total > 0 { part as f64 / total as f64 } else { 0.0 };
    let held = means(&run.outcome.samples, place.end, |sample| share(sample.used, sample.total));
    let stranded = means(&run.outcome.samples, place.end, |sample| share(sample.stranded, sample.total));
    for line in [0.0, 1.0] {
        let y = place.y.place(line);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            frame.left, frame.right
        );
    }
    let middle = place.top + STRIP / 2.0;
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"0\" y=\"{:.1}\">{}</text><text x=\"0\" y=\"{:.1}\">{} held</text>",
        middle - 3.0,
        escape(&run.policy),
        middle + 12.0,
        percent(run.figures.utilisation)
    );
    let width = place.end / STEPS as f64;
    let at = |step: usize| place.x.place((step as f64 + 0.5) * width);
    let colour = colour(run);
    for piece in pieces(&held) {
        let (Some(first), Some(last)) = (piece.first(), piece.last()) else { continue };
        let line = path(piece.iter().map(|(step, mean)| (at(*step), place.y.place(*mean))));
        let floor = place.y.place(0.0);
        let _ = writeln!(
            svg,
            "<path class=\"area f{colour}\" d=\"{line}L{:.1} {floor:.1}L{:.1} {floor:.1}Z\"/>\
             <path class=\"curve s{colour}\" d=\"{line}\"><title>{}</title></path>",
            at(last.0),
            at(first.0),
            escape(&run.policy)
        );
    }
    if stranded.iter().flatten().any(|share| *share > 0.0) {
        for piece in pieces(&stranded) {
            let line = path(piece.iter().map(|(step, mean)| (at(*step), place.y.place(*mean))));
            let _ =
                writeln!(svg, "<path class=\"thin s{colour}\" d=\"{line}\"><title>stranded</title></path>");
        }
    }
}
