//! The two lines at the top: which scheduler, whether it answers, and the numbers of the whole.

use muster_protocol::WorkerStatus;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Theme;
use super::text::{bar, fit, width};
use crate::output::quantities::{age, cores, memory, printable};
use crate::watch::model::{Arrangement, Link, Model};
use crate::watch::snapshot::Snapshot;

const BAR: usize = 8;

pub(super) fn lines(model: &Model, room: usize, theme: Theme) -> Vec<Line<'static>> {
    vec![first(model, room, theme), second(model, room, theme)]
}

fn first(model: &Model, room: usize, theme: Theme) -> Line<'static> {
    let program = match model.arrangement {
        Arrangement::Watch => " muster watch",
        Arrangement::Top => " muster top",
    };
    if let Link::Away { since, why } = &model.link {
        let old = if model.snapshot.is_some() { "; what is shown is from before" } else { "" };
        let text = format!(
            "{program}  no answer for {}, trying again: {}{old}",
            age(*since, model.now),
            printable(why)
        );
        return Line::styled(fit(&text, room, false, theme), theme.bad().patch(theme.selected()));
    }
    let state = match &model.link {
        Link::Connecting => Span::styled("connecting", theme.warning()),
        Link::Live | Link::Away { .. } => Span::styled("live", theme.good()),
    };
    let filter = if model.filter_line.is_empty() {
        String::new()
    } else {
        format!("filter: {}  Esc removes it ", printable(&model.filter_line))
    };
    let url = printable(&model.url);
    let used = width(program) + width(&url) + width(&state.content) + 4;
    Line::from(vec![
        Span::styled(program, theme.strong()),
        Span::styled(format!("  {url}  "), theme.quiet()),
        state,
        Span::styled(fit(&filter, room.saturating_sub(used), true, theme), theme.warning()),
    ])
}

fn second(model: &Model, room: usize, theme: Theme) -> Line<'static> {
    let Some(snapshot) = &model.snapshot else { return Line::default() };
    let mut spans = vec![Span::raw(" ")];
    let mut add = |text: String, style: Style| {
        spans.push(Span::styled(text, style));
    };
    add(format!("{} running", snapshot.running_count()), theme.strong());
    add(format!("  {} waiting", snapshot.waiting_count()), theme.strong());
    let apart: Vec<String> = ["blocked", "held", "delayed"]
        .into_iter()
        .map(|name| (name, snapshot.count(&[name])))
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if !apart.is_empty() {
        add(format!(" ({})", apart.join(", ")), theme.quiet());
    }
    let active = snapshot.workers.iter().filter(|worker| worker.status == WorkerStatus::Active).count();
    let all = snapshot.workers.len();
    let style = if active < all || all == 0 { theme.bad() } else { theme.plain() };
    add(format!("  {active}/{all} workers"), style);
    for (title, part, whole, text) in totals(snapshot) {
        let next = [
            (format!("  {title} "), theme.quiet()),
            (bar(part, whole, BAR, theme), theme.load(part, whole)),
            (format!(" {text}"), theme.plain()),
        ];
        let taken: usize = spans.iter().map(Span::width).sum();
        if taken + next.iter().map(|(text, _)| width(text)).sum::<usize>() <= room {
            spans.extend(next.map(|(text, style)| Span::styled(text, style)));
        }
    }
    Line::from(spans)
}

/// What the active workers have in all, and how much of it is taken.
fn totals(snapshot: &Snapshot) -> Vec<(&'static str, f64, f64, String)> {
    let active = || snapshot.workers.iter().filter(|worker| worker.status == WorkerStatus::Active);
    let (cpus_used, cpus): (f64, f64) =
        active().fold((0.0, 0.0), |sum, worker| (sum.0 + worker.used.cpus, sum.1 + worker.resources.cpus));
    let (memory_used, memory_all): (u64, u64) = active()
        .fold((0, 0), |sum, worker| (sum.0 + worker.used.memory_mb, sum.1 + worker.resources.memory_mb));
    let (gpus_used, gpus): (u64, u64) =
        active().fold((0, 0), |sum, worker| (sum.0 + worker.used.gpus, sum.1 + worker.resources.gpus));
    let mut totals = Vec::new();
    if cpus > 0.0 {
        totals.push(("cpus", cpus_used, cpus, format!("{}/{}", cores(cpus_used), cores(cpus))));
    }
    if memory_all > 0 {
        let text = format!("{}/{}", memory(memory_used), memory(memory_all));
        totals.push(("memory", memory_used as f64, memory_all as f64, text));
    }
    if gpus > 0 {
        totals.push(("gpus", gpus_used as f64, gpus as f64, format!("{gpus_used}/{gpus}")));
    }
    totals
}
