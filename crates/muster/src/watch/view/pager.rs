//! The output of a job over the whole screen.

use muster_protocol::LogStream;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::text::fit;
use super::{Theme, short};
use crate::output::quantities::printable;
use crate::watch::logs::{LogLine, LogView, Shown};
use crate::watch::model::Model;

pub(super) fn render(frame: &mut Frame<'_>, model: &Model, view: &LogView, theme: Theme) {
    let area = frame.area();
    let room = usize::from(area.width);
    let height = model.log_height();
    let mut lines =
        vec![Line::styled(fit(&title(view, height, theme), room, false, theme), theme.selected())];
    let shown = view.visible(height);
    if shown.is_empty() {
        let text = if view.ended.is_some() { " (no output)" } else { " (no output yet)" };
        lines.push(Line::styled(text, theme.quiet()));
    }
    let first = view.first(height);
    for (index, line) in shown.iter().enumerate() {
        let drawn = log_line(line, view, room, theme);
        lines.push(if view.is_found(first + index) {
            drawn.style(theme.selected())
        } else if view.is_match(line) {
            drawn.style(theme.strong())
        } else {
            drawn
        });
    }
    frame.render_widget(Paragraph::new(lines), area);
    let bottom = Rect { y: area.bottom().saturating_sub(1), height: 1.min(area.height), ..area };
    frame.render_widget(Paragraph::new(footer(model, view, room, theme)), bottom);
}

fn title(view: &LogView, height: usize, theme: Theme) -> String {
    let streams = match view.shown {
        Shown::Both => "both streams",
        Shown::Only(LogStream::Stdout) => "standard output",
        Shown::Only(LogStream::Stderr) => "standard error",
    };
    let count = view.len();
    let last = (view.first(height) + height).min(count);
    let mut parts = vec![
        short(&view.job_id).to_owned(),
        printable(&view.title),
        format!("attempt {} of {}", view.attempt, view.attempts),
        streams.to_owned(),
        format!("line {last} of {count}"),
    ];
    if view.is_tail {
        parts.push("older output: muster logs".to_owned());
    } else if view.forgotten > 0 {
        parts.push(format!("{} older lines not kept", view.forgotten));
    }
    format!(" {}", parts.join(theme.separator()))
}

/// Lines of standard error have a mark, for those who see no colours.
fn log_line(line: &LogLine, view: &LogView, room: usize, theme: Theme) -> Line<'static> {
    let text: String = line.text.chars().skip(view.column).collect();
    let (mark, style) = match line.stream {
        LogStream::Stdout => (" ", theme.plain()),
        LogStream::Stderr => ("!", theme.warning()),
    };
    Line::from(vec![
        Span::styled(mark, style),
        Span::styled(fit(&text, room.saturating_sub(1), false, theme).trim_end().to_owned(), style),
    ])
}

fn footer(model: &Model, view: &LogView, room: usize, theme: Theme) -> Line<'static> {
    if let Some((text, _)) = &model.notice {
        return Line::styled(fit(&format!(" {}", printable(text)), room, false, theme), theme.warning());
    }
    if view.is_typing {
        let text = format!(" /{}   (Enter looks for it, Esc leaves)", view.searched);
        return Line::styled(fit(&text, room, false, theme), theme.strong());
    }
    let state = match (&view.ended, view.follow) {
        (Some(how), _) => printable(how),
        (None, true) => "following".to_owned(),
        (None, false) => "not following".to_owned(),
    };
    let text = format!(" {state}   q back  f follow  / find  s streams  [ ] attempts  g G ends");
    Line::styled(fit(&text, room, false, theme), theme.strong())
}
