//! Columns of a list: which have room, how wide they are, and the lines they make.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Theme;
use super::text::{fit, width};

const GAP: usize = 2;

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: Width,
    pub(super) right: bool,
    /// The list must be at least this wide for the column to be shown.
    pub(super) from: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Fixed(usize),
    /// As wide as its contents, up to this.
    UpTo(usize),
    /// What the others leave.
    Rest,
}

pub(super) const fn left(title: &'static str, width: Width) -> Column {
    Column { title, width, right: false, from: 0 }
}

pub(super) const fn right(title: &'static str, columns: usize) -> Column {
    Column { title, width: Width::Fixed(columns), right: true, from: 0 }
}

impl Column {
    pub(super) const fn from(self, from: usize) -> Self {
        Self { from, ..self }
    }
}

/// One entry of a list, in pieces that may differ in style.
pub(super) type Cell = Vec<(String, Style)>;

pub(super) fn cell(text: impl Into<String>, style: Style) -> Cell {
    vec![(text.into(), style)]
}

/// A list as text.
pub(super) struct Grid {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// Whether the titles of the columns are shown.
    pub(super) titled: bool,
    /// Of the rows that are given here.
    pub(super) selected: Option<usize>,
}

impl Grid {
    /// The titles and the rows, each as wide as the list.
    pub(super) fn lines(&self, room: usize, theme: Theme) -> Vec<Line<'static>> {
        let widths = self.widths(room.saturating_sub(GAP));
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        if self.titled {
            let title = |column: &Column| cell(column.title, theme.quiet());
            let titles: Vec<Cell> = self.columns.iter().map(title).collect();
            lines.push(self.line(&titles, &widths, theme, false));
        }
        for (index, row) in self.rows.iter().enumerate() {
            lines.push(self.line(row, &widths, theme, self.selected == Some(index)));
        }
        lines
    }

    /// 0 for a column that has no room.
    fn widths(&self, room: usize) -> Vec<usize> {
        let content = |index: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let longest = cells.map(|cell| cell.iter().map(|(text, _)| width(text)).sum()).max();
            longest.unwrap_or(0).max(width(self.columns[index].title))
        };
        let mut widths: Vec<usize> = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter().enumerate() {
            widths.push(match column.width {
                _ if room < column.from => 0,
                Width::Fixed(columns) => columns,
                Width::UpTo(most) => content(index).min(most),
                Width::Rest => 0,
            });
        }
        let shown = |index: usize| room >= self.columns[index].from;
        let gaps = (0..widths.len()).filter(|index| shown(*index)).count().saturating_sub(1) * GAP;
        let taken: usize = widths.iter().sum::<usize>() + gaps;
        for (index, column) in self.columns.iter().enumerate() {
            if column.width == Width::Rest && shown(index) {
                widths[index] = room.saturating_sub(taken);
            }
        }
        widths
    }

    fn line(&self, row: &[Cell], widths: &[usize], theme: Theme, selected: bool) -> Line<'static> {
        let marker = if selected { theme.marker() } else { ' ' };
        let mut spans = vec![Span::raw(format!("{marker} "))];
        for ((cell, column), room) in row.iter().zip(&self.columns).zip(widths) {
            if *room == 0 {
                continue;
            }
            if spans.len() > 1 {
                spans.push(Span::raw(" ".repeat(GAP)));
            }
            spans.extend(pieces(cell, *room, column.right, theme));
        }
        let line = Line::from(spans);
        if selected { line.style(theme.selected()) } else { line }
    }
}

fn pieces(cell: &Cell, room: usize, right: bool, theme: Theme) -> Vec<Span<'static>> {
    if let [(text, style)] = cell.as_slice() {
        return vec![Span::styled(fit(text, room, right, theme), *style)];
    }
    let mut spans = Vec::new();
    let mut left = room;
    for (text, style) in cell {
        let taken = width(text).min(left);
        spans.push(Span::styled(fit(text, taken, false, theme), *style));
        left -= taken;
    }
    spans.push(Span::raw(" ".repeat(left)));
    spans
}
