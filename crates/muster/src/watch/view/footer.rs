//! The three lines at the bottom: what is selected, what is to be said about it, and the keys.

use muster_client::status_name;
use ratatui::text::{Line, Span};

use super::Theme;
use super::command;
use super::text::fit;
use crate::output::human;
use crate::output::quantities::{printable, resources};
use crate::watch::filter::KEYS;
use crate::watch::model::{Mode, Model};
use crate::watch::panes::Pane;

pub(super) const HEIGHT: usize = 3;

pub(super) fn lines(model: &Model, room: usize, theme: Theme) -> Vec<Line<'static>> {
    let (first, second) = about_selected(model, theme);
    let line = |text: String, style| Line::styled(fit(&format!(" {text}"), room, false, theme), style);
    vec![line(first, theme.plain()), line(second, theme.quiet()), keys(model, room, theme)]
}

/// Two lines about the selected entry: which one it is, and what there is to know.
fn about_selected(model: &Model, theme: Theme) -> (String, String) {
    if let Some(job) = model.selected_job() {
        let mut parts = vec![printable(&job.id)];
        parts.extend(job.name.as_deref().map(printable));
        parts.extend(job.resources.as_ref().map(resources).filter(|text| !text.is_empty()));
        parts.extend(job.started_at.map(|at| format!("started {}", model.zone.time(at))));
        return (parts.join(theme.separator()), remark(model).unwrap_or_else(|| command(job)));
    }
    let Some(snapshot) = &model.snapshot else { return Default::default() };
    let index = model.selected_index(model.focus);
    match model.focus {
        Pane::Workers => snapshot.workers.get(index).map(|worker| {
            let host = worker.hostname.as_deref().map(printable).unwrap_or_default();
            let version = worker.version.as_deref().map(printable).unwrap_or_default();
            let parts = [printable(&worker.id), host, version, printable(&worker.tags.join(","))];
            let shown: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let quarantine = human::quarantine(worker, model.zone);
            (shown.join(theme.separator()), quarantine.unwrap_or_default())
        }),
        Pane::Sets => snapshot.sets.get(index).map(|set| {
            let name = set.name.as_deref().map(printable).unwrap_or_default();
            let counts = set.counts.iter().map(|(status, count)| format!("{count} {}", status_name(*status)));
            let counts = counts.collect::<Vec<_>>().join(", ");
            ([printable(&set.id), name].join(theme.separator()), format!("{} jobs: {counts}", set.size))
        }),
        Pane::Queues => snapshot.queues.get(index).map(|queue| {
            let state =
                if queue.paused { "paused: nothing of it starts until `muster queue resume`" } else { "" };
            (printable(&queue.name), state.to_owned())
        }),
        Pane::Running | Pane::Waiting | Pane::Ended => None,
    }
    .unwrap_or_default()
}

/// Why the selected job waits, as far as it was asked.
fn remark(model: &Model) -> Option<String> {
    let job = model.selected_job().filter(|_| model.focus == Pane::Waiting)?;
    let why = model.why.as_ref().filter(|why| why.id == job.id)?;
    let reasons: Vec<String> =
        why.reasons.iter().map(|reason| model.zone.in_text(&printable(&reason.message))).collect();
    (!reasons.is_empty()).then(|| format!("waits: {}", reasons.join("; ")))
}

fn keys(model: &Model, room: usize, theme: Theme) -> Line<'static> {
    if let Mode::Filter { line } = &model.mode {
        let wrong = model.notice.as_ref().map(|(text, _)| format!("   {text}")).unwrap_or_default();
        let text = format!(" /{line}{wrong}   (Enter shows, Esc leaves) {KEYS}");
        return Line::styled(fit(&text, room, false, theme), theme.strong());
    }
    if let Some((text, _)) = &model.notice {
        return Line::styled(fit(&format!(" {}", printable(text)), room, false, theme), theme.warning());
    }
    let keys = [
        ("Tab", "list"),
        ("Enter", "logs"),
        ("w", "why"),
        ("d", "details"),
        ("c", "cancel"),
        ("/", "filter"),
        ("?", "help"),
        ("q", "quit"),
    ];
    let mut spans = vec![Span::raw(" ")];
    for (key, what) in keys {
        spans.push(Span::styled(key, theme.strong()));
        spans.push(Span::styled(format!(" {what}  "), theme.quiet()));
    }
    Line::from(spans)
}
