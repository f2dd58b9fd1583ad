//! The model as a picture. Nothing here changes anything.

mod cluster;
mod footer;
mod grid;
mod header;
mod jobs;
mod layout;
mod overlay;
mod pager;
#[cfg(test)]
pub(super) mod pictures;
mod text;
mod theme;

use muster_protocol::JobStatus;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{Arrangement, Mode, Model};
use super::panes::Pane;
use grid::{Cell, Grid};
use layout::Claim;
use overlay::Overlay;
use text::fit;

pub(crate) use crate::output::human::command;
pub(crate) use theme::Theme;

const HEADER: usize = 2;
/// From this width on, the lists stand in two columns.
const WIDE: u16 = 150;
/// From this height on, every list has titles above its columns.
const TALL: u16 = 32;
/// `job-` and the first digits of the rest.
const SHORT_ID: usize = 12;

/// The beginning of an id, enough to name it by hand.
pub(crate) fn short(id: &str) -> &str {
    let length = if id.starts_with("gang-") { SHORT_ID + 1 } else { SHORT_ID };
    id.char_indices().nth(length).map_or(id, |(end, _)| &id[..end])
}

/// Draws everything.
pub(crate) fn render(frame: &mut Frame<'_>, model: &Model, theme: Theme) {
    if let Mode::Logs(view) = &model.mode {
        pager::render(frame, model, view, theme);
        return;
    }
    let area = frame.area();
    let room = usize::from(area.width);
    frame.render_widget(Paragraph::new(header::lines(model, room, theme)), area);
    let bottom = footer::HEIGHT.min(usize::from(area.height)) as u16;
    let footer = Rect { y: area.bottom() - bottom, height: bottom, ..area };
    let lists = Rect {
        y: area.y + HEADER as u16,
        height: area.height.saturating_sub(HEADER as u16 + bottom),
        ..area
    };
    render_lists(frame, model, lists, theme);
    frame.render_widget(Paragraph::new(footer::lines(model, room, theme)), footer);
    render_over(frame, model, theme);
}

fn render_lists(frame: &mut Frame<'_>, model: &Model, area: Rect, theme: Theme) {
    if model.snapshot.is_none() {
        return;
    }
    if area.width < WIDE || model.arrangement == Arrangement::Top {
        render_column(frame, model, model.panes(), area, theme);
        return;
    }
    let jobs = Rect { width: area.width * 3 / 5, ..area };
    let rest = Rect { x: area.x + jobs.width + 1, width: area.width - jobs.width - 1, ..area };
    render_column(frame, model, &[Pane::Running, Pane::Waiting, Pane::Ended], jobs, theme);
    render_column(frame, model, &[Pane::Sets, Pane::Workers, Pane::Queues], rest, theme);
}

fn render_column(frame: &mut Frame<'_>, model: &Model, panes: &[Pane], area: Rect, theme: Theme) {
    let titles = |pane| 1 + usize::from(is_titled(model, pane));
    let claim = |pane: &Pane| Claim {
        entries: model.len(*pane),
        focused: *pane == model.focus,
        titles: titles(*pane),
    };
    let claims: Vec<Claim> = panes.iter().map(claim).collect();
    let mut top = area.y;
    for (pane, height) in panes.iter().zip(layout::heights(usize::from(area.height), &claims)) {
        let place = Rect { y: top, height: height as u16, ..area };
        frame.render_widget(Paragraph::new(pane_lines(model, *pane, place, theme)), place);
        top += height as u16;
    }
}

/// On a low screen with many lists only the focused one has titles above its columns.
fn is_titled(model: &Model, pane: Pane) -> bool {
    model.size.1 >= TALL || pane == model.focus || model.arrangement == Arrangement::Top
}

fn pane_lines(model: &Model, pane: Pane, area: Rect, theme: Theme) -> Vec<Line<'static>> {
    let room = usize::from(area.width);
    let mut lines = vec![title(model, pane, room, theme)];
    let rows = usize::from(area.height).saturating_sub(1 + usize::from(is_titled(model, pane)));
    if model.len(pane) > 0 && rows > 0 {
        lines.extend(grid(model, pane, rows, room, theme).lines(room, theme));
    }
    lines
}

/// The name of the list, how much is in it, and a line to its right.
fn title(model: &Model, pane: Pane, room: usize, theme: Theme) -> Line<'static> {
    let style = if pane == model.focus { theme.strong().patch(theme.active()) } else { theme.quiet() };
    let number = pane.index() + 1;
    let text = match model.arrangement {
        Arrangement::Watch => format!("{} {number} {} {} ", theme.line(), pane.title(), count(model, pane)),
        Arrangement::Top if pane == Pane::Running => {
            let order = model.order.name();
            format!("{} {} {} by {order} (o) ", theme.line(), pane.title(), count(model, pane))
        }
        Arrangement::Top => format!("{} {} {} ", theme.line(), pane.title(), count(model, pane)),
    };
    let rest = room.saturating_sub(text::width(&text));
    let line: String = std::iter::repeat_n(theme.line(), rest).collect();
    Line::from(vec![
        Span::styled(fit(&text, text::width(&text).min(room), false, theme), style),
        Span::styled(line, theme.quiet()),
    ])
}

/// How many there are, and how many of them are listed when that is less.
fn count(model: &Model, pane: Pane) -> String {
    let Some(snapshot) = &model.snapshot else { return String::new() };
    let listed = model.len(pane);
    let more = match pane {
        Pane::Running => snapshot.running.more,
        Pane::Waiting => snapshot.waiting.more,
        Pane::Ended => snapshot.ended.more,
        Pane::Sets | Pane::Workers | Pane::Queues => false,
    };
    let all = match pane {
        Pane::Running => snapshot.running_count(),
        Pane::Waiting => snapshot.waiting_count(),
        Pane::Ended | Pane::Sets | Pane::Workers | Pane::Queues => listed as u64,
    };
    let failed = snapshot.ended.jobs.iter().filter(|job| job.status == JobStatus::Failed).count();
    match (more, pane) {
        (true, Pane::Ended) => format!("the newest {listed}, {failed} failed"),
        (true, _) if !model.filter_line.is_empty() => format!("the newest {listed} that match"),
        (true, _) => format!("the newest {listed} of {all}"),
        (false, _) if listed == 0 => "none".to_owned(),
        (false, Pane::Ended) => format!("{listed}, {failed} failed"),
        (false, _) => listed.to_string(),
    }
}

/// The entries of a list that have room, with the selected one among them.
fn grid(model: &Model, pane: Pane, rows: usize, room: usize, theme: Theme) -> Grid {
    let now = model.now;
    let entries = model.len(pane);
    let selected = model.selected_index(pane);
    let first = layout::first_visible(selected, entries, rows);
    let range = first..(first + rows).min(entries);
    let jobs = model.jobs(pane);
    let Some(snapshot) = &model.snapshot else {
        return Grid { columns: Vec::new(), rows: Vec::new(), titled: false, selected: None };
    };
    let (columns, rows): (_, Vec<Vec<Cell>>) = match pane {
        Pane::Running if model.arrangement == Arrangement::Top => {
            (jobs::top_columns(), jobs[range].iter().map(|job| jobs::top_row(job, now, theme)).collect())
        }
        Pane::Running => (
            jobs::running_columns(),
            jobs[range].iter().map(|job| jobs::running_row(job, now, theme)).collect(),
        ),
        Pane::Waiting => (
            jobs::waiting_columns(),
            jobs[range].iter().map(|job| jobs::waiting_row(job, now, theme)).collect(),
        ),
        Pane::Ended => {
            (jobs::ended_columns(), jobs[range].iter().map(|job| jobs::ended_row(job, now, theme)).collect())
        }
        Pane::Sets => (
            cluster::set_columns(),
            snapshot.sets[range].iter().map(|set| cluster::set_row(set, now, theme)).collect(),
        ),
        Pane::Workers => (
            cluster::worker_columns(room),
            snapshot.workers[range]
                .iter()
                .map(|worker| cluster::worker_row(worker, now, room, theme))
                .collect(),
        ),
        Pane::Queues => (
            cluster::queue_columns(),
            snapshot.queues[range].iter().map(|queue| cluster::queue_row(queue, theme)).collect(),
        ),
    };
    let titled = is_titled(model, pane);
    Grid { columns, rows, titled, selected: (pane == model.focus).then_some(selected - first) }
}

fn render_over(frame: &mut Frame<'_>, model: &Model, theme: Theme) {
    match &model.mode {
        Mode::Lists | Mode::Logs(_) => {}
        Mode::Filter { line } => overlay::place_cursor(frame, line),
        Mode::Confirm { question, .. } => {
            let keys = "y cancels it   n leaves it";
            Overlay { title: "cancel", lines: question, top: 0, keys, style: theme.bad() }
                .render(frame, theme);
        }
        Mode::Help => {
            let lines = overlay::help_lines();
            Overlay { title: "keys", lines: &lines, top: 0, keys: "q closes", style: theme.active() }
                .render(frame, theme);
        }
        Mode::Text { title, lines, top } => {
            let keys = "q closes   arrows move";
            Overlay { title, lines, top: *top, keys, style: theme.active() }.render(frame, theme);
        }
    }
}
