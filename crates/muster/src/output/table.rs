//! Tables without borders that fit the screen: one line a row, and what has no room ends in `…`.
//!
//! Guarantee: without a width nothing is shortened, so that what is piped is the same everywhere.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table, Width};

use super::screen::Screen;

const GAP: u16 = 2;

/// A column: its title, and how narrow it may become.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    title: &'static str,
    /// `None` keeps the column as wide as its contents.
    narrowest: Option<u16>,
    right: bool,
}

impl Column {
    /// As wide as what is in it.
    pub(super) const fn fixed(title: &'static str) -> Self {
        Self { title, narrowest: None, right: false }
    }

    /// Numbers.
    pub(super) const fn right(title: &'static str) -> Self {
        Self { title, narrowest: None, right: true }
    }

    /// Gives way down to this width.
    pub(super) const fn elastic(title: &'static str, narrowest: u16) -> Self {
        Self { title, narrowest: Some(narrowest), right: false }
    }
}

/// A cell: its text and its colour.
pub(super) type Content = (String, Option<Color>);

/// Renders the rows, each with one cell for every column; the last line has no end.
pub(super) fn render(columns: &[Column], rows: &[Vec<Content>], screen: Screen) -> String {
    Pages::new(columns.to_vec(), true, screen).page(rows)
}

/// A table that is rendered piece by piece, so that its length does not matter.
///
/// With a width, the first page decides how wide the columns are. Without one, nothing may be shortened,
/// so that a column becomes wider where a later page needs it.
#[derive(Debug)]
pub(super) struct Pages {
    columns: Vec<Column>,
    header: bool,
    screen: Screen,
    widths: Option<Vec<u16>>,
}

impl Pages {
    pub(super) fn new(columns: Vec<Column>, header: bool, screen: Screen) -> Self {
        Self { columns, header, screen, widths: None }
    }

    /// The next rows; the titles come before the first.
    pub(super) fn page(&mut self, rows: &[Vec<Content>]) -> String {
        let mut table = self.table();
        if self.widths.is_none() && self.header {
            let titles: Vec<Cell> = self.columns.iter().map(|column| Cell::new(column.title)).collect();
            let mut header = Row::from(titles);
            header.max_height(1);
            table.set_header(header);
        } else if rows.is_empty() {
            return String::new();
        }
        for row in rows {
            let cells = row.iter().map(|(text, color)| match color {
                Some(color) => Cell::new(text).fg(*color),
                None => Cell::new(text),
            });
            let mut row = Row::from(cells.collect::<Vec<_>>());
            row.max_height(1);
            table.add_row(row);
        }
        let widths = self.fit(&table.column_max_content_widths());
        arrange(&mut table, &self.columns, &widths);
        self.widths = Some(widths);
        table.trim_fmt()
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_truncation_indicator("…")
            .set_content_arrangement(ContentArrangement::Dynamic);
        if self.screen.colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table
    }

    fn fit(&self, natural: &[u16]) -> Vec<u16> {
        match (&self.widths, self.screen.width) {
            (None, Some(width)) => shrink(natural, &self.columns, width),
            (None, None) => natural.to_vec(),
            (Some(widths), Some(_)) => widths.clone(),
            (Some(widths), None) => widths.iter().zip(natural).map(|(old, new)| *old.max(new)).collect(),
        }
    }
}

fn arrange(table: &mut Table, columns: &[Column], widths: &[u16]) {
    let last = columns.len().saturating_sub(1);
    for (index, (width, column)) in widths.iter().zip(columns).enumerate() {
        let Some(target) = table.column_mut(index) else { continue };
        let padding = if index == last { 0 } else { GAP };
        target.set_padding((0, padding));
        // Texts are cut where the room ends, not at blanks; no text has this character.
        target.set_delimiter('\u{1f}');
        target.set_constraint(ColumnConstraint::Absolute(Width::Fixed((*width).max(1) + padding)));
        if column.right {
            target.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Takes what is too much from the widest elastic column, again and again.
fn shrink(natural: &[u16], columns: &[Column], width: u16) -> Vec<u16> {
    let mut widths = natural.to_vec();
    let gaps = GAP * (columns.len().saturating_sub(1)) as u16;
    loop {
        let total = widths.iter().fold(gaps, |sum, width| sum.saturating_add(*width));
        if total <= width {
            return widths;
        }
        let elastic = columns.iter().zip(&mut widths);
        let widest = elastic
            .filter_map(|(column, width)| column.narrowest.filter(|least| *width > *least).map(|_| width))
            .max_by_key(|width| **width);
        match widest {
            Some(width) => *width -= 1,
            // Nothing gives way any more; the terminal wraps the lines.
            None => return widths,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [Column::fixed("ID"), Column::right("N"), Column::elastic("COMMAND", 7)];

    fn rows() -> Vec<Vec<Content>> {
        vec![
            vec![("job-1".into(), None), ("5".into(), None), ("python train.py --epochs 100".into(), None)],
            vec![("job-22".into(), Some(Color::DarkRed)), ("12".into(), None), ("true".into(), None)],
        ]
    }

    fn screen(width: Option<u16>) -> Screen {
        Screen { json: false, colour: false, width, zone: crate::zone::Zone::UTC }
    }

    #[test]
    fn nothing_is_shortened_without_a_width() {
        let expected = "ID       N  COMMAND\njob-1    5  python train.py --epochs 100\njob-22  12  true";
        assert_eq!(render(&COLUMNS, &rows(), screen(None)), expected);
    }

    #[test]
    fn lines_fit_the_screen() {
        let text = render(&COLUMNS, &rows(), screen(Some(24)));
        assert_eq!(text, "ID       N  COMMAND\njob-1    5  python trai…\njob-22  12  true");
        for width in 19..60 {
            let text = render(&COLUMNS, &rows(), screen(Some(width)));
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}: {text}");
            assert_eq!(text.lines().count(), 3);
        }
    }

    #[test]
    fn colours_only_when_wanted() {
        assert!(!render(&COLUMNS, &rows(), screen(None)).contains('\u{1b}'));
        let coloured = Screen { colour: true, ..screen(None) };
        assert!(render(&COLUMNS, &rows(), coloured).contains('\u{1b}'));
    }
}
