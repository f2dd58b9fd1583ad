//! What lies over the lists: the question before a cancel, texts to read, the help.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::symbols::border;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::Theme;
use super::text::width;
use crate::output::quantities::printable;
use crate::watch::input::HELP;

const ASCII: border::Set<'_> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

/// A text in a box.
pub(super) struct Overlay<'a> {
    pub(super) title: &'a str,
    pub(super) lines: &'a [String],
    pub(super) top: usize,
    pub(super) keys: &'a str,
    pub(super) style: Style,
}

impl Overlay<'_> {
    /// In the middle of the screen, as large as the text and no larger than the screen.
    pub(super) fn render(&self, frame: &mut Frame<'_>, theme: Theme) {
        let screen = frame.area();
        let texts: Vec<String> = self.lines.iter().map(|line| printable(line)).collect();
        let longest = texts.iter().map(|line| width(line)).max().unwrap_or(0);
        let wide = longest.max(width(self.keys) + 2).max(width(self.title) + 4) + 4;
        let wide = wide.min(usize::from(screen.width.saturating_sub(2)));
        let inner = wide.saturating_sub(4).max(1);
        let high: usize = texts.iter().map(|line| width(line).max(1).div_ceil(inner)).sum::<usize>() + 2;
        let high = high.min(usize::from(screen.height.saturating_sub(2)));
        let area = middle(screen, wide as u16, high as u16);
        let set = if theme.unicode { border::PLAIN } else { ASCII };
        let block = Block::bordered()
            .border_set(set)
            .border_style(self.style)
            .title(format!(" {} ", printable(self.title)))
            .title_bottom(format!(" {} ", self.keys))
            .padding(ratatui::widgets::Padding::horizontal(1));
        let text: Vec<Line<'_>> = texts.into_iter().skip(self.top).map(Line::from).collect();
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: false }).block(block), area);
    }
}

fn middle(screen: Rect, wide: u16, high: u16) -> Rect {
    let left = screen.x + screen.width.saturating_sub(wide) / 2;
    let top = screen.y + screen.height.saturating_sub(high) / 2;
    Rect::new(left, top, wide, high).intersection(screen)
}

pub(super) fn help_lines() -> Vec<String> {
    HELP.iter().map(|(keys, what)| format!("{keys:<20} {what}").trim_end().to_owned()).collect()
}

/// Puts the cursor where the filter is typed.
pub(super) fn place_cursor(frame: &mut Frame<'_>, line: &str) {
    let area = frame.area();
    let column = (width(line) + 2).min(usize::from(area.width.saturating_sub(1)));
    frame.set_cursor_position(Position::new(column as u16, area.bottom().saturating_sub(1)));
}
