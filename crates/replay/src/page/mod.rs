//! One page that shows what each policy would have done: pictures, tables, nothing from outside.
//!
//! Guarantees: the page needs no network and runs no script; whatever stands in names of others is text and
//! never markup; the same runs give the same page.

mod bars;
mod frame;
mod gantt;
mod lines;
mod scale;
mod series;
mod strips;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use crate::figures::Figures;
use crate::outcome::Outcome;
use crate::trace::Trace;
use crate::words::{duration, thousands};

const STYLE: &str = include_str!("page.css");

/// One policy and what came of it.
#[derive(Debug)]
pub struct Run<'a> {
    pub policy: String,
    pub figures: &'a Figures,
    pub outcome: &'a Outcome,
}

/// What the page is about.
#[derive(Debug)]
pub struct Page<'a> {
    /// Where the workload came from.
    pub source: &'a str,
    pub cluster: &'a str,
    /// How it was played, in a few words each.
    pub settings: &'a [String],
    pub trace: &'a Trace,
    pub runs: &'a [Run<'a>],
}

impl Page<'_> {
    /// The whole page as HTML.
    pub fn render(&self) -> String {
        let mut html = String::with_capacity(64 * 1024);
        self.head(&mut html);
        section(
            &mut html,
            "At a glance",
            "The best of each column is set in bold.",
            &tables::summary(self.runs),
        );
        let comparison = bars::comparison(self.runs);
        section(&mut html, "Policies side by side", "Means over all jobs. Shorter is better.", &comparison);
        section(
            &mut html,
            "Use of the cluster",
            "The share of the cluster that is held, over time; the thin line below shows what was stranded.",
            &strips::utilisation(self.runs),
        );
        section(&mut html, "Queue length", "Jobs that wait, over time.", &lines::queue_length(self.runs));
        section(
            &mut html,
            "Wait by size",
            &format!("Mean wait by what a job asks for, in {}.", self.unit()),
            &bars::by_size(self.runs),
        );
        section(
            &mut html,
            "How long jobs wait",
            "The share of jobs that wait at most so long.",
            &lines::distribution(self.runs, self.trace),
        );
        if gantt::is_small(self.trace) {
            let about =
                "Each row is a job in the order of submission: pale while it waits, full while it runs.";
            section(&mut html, "Every job", about, &gantt::charts(self.runs, self.trace));
        }
        section(&mut html, "All figures", "", &tables::details(self.runs));
        html.push_str("</main>\n</body>\n</html>\n");
        html
    }

    fn unit(&self) -> &'static str {
        self.runs.first().map_or("units", |run| run.figures.unit.name())
    }

    fn head(&self, html: &mut String) {
        let jobs = thousands(self.trace.workload.jobs.len() as i64);
        let queues = self.trace.workload.queues.len();
        let last = self.trace.workload.jobs.last().map_or(0, |job| job.submit.as_micros());
        let source = escape(self.source);
        let mut facts = vec![
            format!("{jobs} jobs"),
            format!("{queues} {}", if queues == 1 { "queue" } else { "queues" }),
            format!("submitted over {}", duration(last as f64 / 1e6)),
            format!("cluster {}", self.cluster),
        ];
        facts.extend(self.settings.iter().cloned());
        let facts: Vec<String> = facts.iter().map(|fact| format!("<li>{}</li>", escape(fact))).collect();
        // Writing to a String cannot fail.
        let _ = write!(
            html,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>muster sim: {source}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <header>\n<p class=\"brand\">muster sim</p>\n<h1>{source}</h1>\n<ul class=\"facts\">{}</ul>\n{}</header>\n",
            facts.concat(),
            legend(self.runs),
        );
    }
}

/// Which colour is which policy.
fn legend(runs: &[Run]) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for run in runs {
        let _ = write!(html, "<li><i class=\"swatch b{}\"></i>{}</li>", colour(run), escape(&run.policy));
    }
    html.push_str("</ul>\n");
    html
}

fn section(html: &mut String, title: &str, about: &str, content: &str) {
    if content.is_empty() {
        return;
    }
    let _ = writeln!(html, "<section>\n<h2>{}</h2>", escape(title));
    if !about.is_empty() {
        let _ = writeln!(html, "<p class=\"about\">{}</p>", escape(about));
    }
    let _ = writeln!(html, "{content}</section>");
}

/// The policies that have a colour of their own on every page; the first has the strongest.
const COLOURS: [&str; 8] =
    ["muster", "greedy", "largest-gang", "sjf", "sjf-easy", "easy", "easy-sjbf", "fifo"];

/// The number of the colour of a run.
fn colour(run: &Run) -> usize {
    COLOURS.iter().position(|name| *name == run.policy).unwrap_or(COLOURS.len() - 1)
}

/// Text that cannot be taken for markup.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}
