//! The frame of a picture: its size, its axes and their marks.

use std::fmt::Write as _;

use super::scale::Scale;

/// Pictures are drawn this wide and scaled to the page.
pub(super) const WIDTH: f64 = 1000.0;

/// The place that is left for the curves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    pub(super) height: f64,
}

impl Frame {
    pub(super) const fn of(height: f64) -> Self {
        Self { left: 64.0, right: WIDTH - 14.0, top: 10.0, bottom: height - 24.0, height }
    }

    /// Opens the picture; `label` is read to those who do not see it.
    pub(super) fn open(&self, label: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
            self.height,
            super::escape(label)
        )
    }

    /// Lines across with their values at the left.
    pub(super) fn rows(&self, svg: &mut String, scale: &Scale, marks: &[(f64, String)]) {
        for (value, text) in marks {
            let y = scale.place(*value);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                self.left,
                self.right,
                self.left - 8.0,
                y + 4.0
            );
        }
    }

    /// Values below the picture.
    pub(super) fn columns(&self, svg: &mut String, scale: &Scale, marks: &[(f64, String)]) {
        for (value, text) in marks {
            let x = scale.place(*value);
            // The last one would stand half outside.
            let anchor = if x > self.right - 20.0 { "end" } else { "middle" };
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{0}\" y2=\"{1}\"/>\
                 <text x=\"{x:.1}\" y=\"{2}\" text-anchor=\"{anchor}\">{text}</text>",
                self.bottom,
                self.bottom + 4.0,
                self.bottom + 17.0
            );
        }
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{2}\" y2=\"{2}\"/>",
            self.left, self.right, self.bottom
        );
    }
}

/// A path through points.
pub(super) fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (index, (x, y)) in points.enumerate() {
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
    }
    path
}
