//! The figures as tables.

use std::fmt::Write as _;

use super::{Run, escape};
use crate::figures::{Figures, Group};
use crate::words::{digits, duration, percent, thousands};

/// Which value of a column is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Best {
    Least,
    Most,
}

struct Column {
    title: &'static str,
    value: fn(&Figures) -> f64,
    words: fn(f64) -> String,
    best: Best,
}

const fn column(
    title: &'static str,
    value: fn(&Figures) -> f64,
    words: fn(f64) -> String,
    best: Best,
) -> Column {
    Column { title, value, words, best }
}

fn count(value: f64) -> String {
    thousands(value as i64)
}

fn index(value: f64) -> String {
    format!("{value:.3}")
}

const SUMMARY: [Column; 11] = [
    column("mean wait", |figures| figures.total.wait_s.mean, duration, Best::Least),
    column("median", |figures| figures.total.wait_s.median, duration, Best::Least),
    column("p95", |figures| figures.total.wait_s.p95, duration, Best::Least),
    column("longest", |figures| figures.total.wait_s.max, duration, Best::Least),
    column("mean JCT", |figures| figures.total.jct_s.mean, duration, Best::Least),
    column("slowdown", |figures| figures.total.bounded_slowdown.mean, digits, Best::Least),
    column("used", |figures| figures.utilisation_under_demand, percent, Best::Most),
    column("stranded", |figures| figures.fragmentation, percent, Best::Least),
    column("fairness", |figures| figures.fairness_queues, index, Best::Most),
    column("stops", |figures| figures.total.preemptions as f64, count, Best::Least),
    column("makespan", |figures| figures.makespan_s, duration, Best::Least),
];

/// One row for each policy.
pub(super) fn summary(runs: &[Run]) -> String {
    let mut html = String::from("<div class=\"wide\"><table><thead><tr><th>policy</th>");
    for column in &SUMMARY {
        let _ = write!(html, "<th>{}</th>", column.title);
    }
    html.push_str("</tr></thead><tbody>\n");
    for run in runs {
        let _ = write!(html, "<tr><td>{}</td>", escape(&run.policy));
        for column in &SUMMARY {
            let text = (column.words)((column.value)(run.figures));
            let class = if runs.len() > 1 && is_best(column, &text, runs) { " class=\"best\"" } else { "" };
            let _ = write!(html, "<td{class}>{text}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}

/// What looks the same is equally good; where all look the same, none is best.
fn is_best(column: &Column, text: &str, runs: &[Run]) -> bool {
    let values = || runs.iter().map(|run| (column.value)(run.figures));
    let best = match column.best {
        Best::Least => values().fold(f64::INFINITY, f64::min),
        Best::Most => values().fold(f64::NEG_INFINITY, f64::max),
    };
    let best = (column.words)(best);
    text == best && values().any(|value| (column.words)(value) != best)
}

/// Sizes and queues of each policy, folded.
pub(super) fn details(runs: &[Run]) -> String {
    let mut html = String::new();
    for run in runs {
        let figures = run.figures;
        let _ = writeln!(html, "<details><summary>{}</summary>", escape(&run.policy));
        let _ = writeln!(
            html,
            "<p class=\"about\">Held {} of the cluster, {} of it of use; lost {} hours of {}; fairness between queues {}, \
             between users {}; {} passes of the planner.</p>",
            percent(figures.utilisation),
            percent(figures.useful),
            digits(figures.lost_unit_hours),
            figures.unit.name(),
            index(figures.fairness_queues),
            index(figures.fairness_users),
            thousands(figures.passes as i64)
        );
        groups(&mut html, figures.unit.name(), &figures.by_size);
        groups(&mut html, "queue", &figures.by_queue);
        html.push_str("</details>\n");
    }
    html
}

fn groups(html: &mut String, title: &str, groups: &[Group]) {
    let _ = writeln!(
        html,
        "<div class=\"wide\"><table><thead><tr><th>{}</th><th>jobs</th><th>mean wait</th><th>median</th><th>p95</th>\
         <th>longest</th><th>mean JCT</th><th>slowdown</th><th>stops</th><th>lost</th></tr></thead><tbody>",
        escape(title)
    );
    for group in groups {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&group.name),
            thousands(group.jobs as i64),
            duration(group.wait_s.mean),
            duration(group.wait_s.median),
            duration(group.wait_s.p95),
            duration(group.wait_s.max),
            duration(group.jct_s.mean),
            digits(group.bounded_slowdown.mean),
            thousands(group.preemptions as i64),
            duration(group.lost_s)
        );
    }
    html.push_str("</tbody></table></div>\n");
}
