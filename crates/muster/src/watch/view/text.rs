//! Texts in a given room, and bars.

use ratatui::text::Span;

use super::Theme;

/// How many columns of the screen a text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text in exactly this many columns: cut with a mark, or filled with blanks.
pub(crate) fn fit(text: &str, room: usize, right: bool, theme: Theme) -> String {
    let taken = width(text);
    if taken <= room {
        let blanks = " ".repeat(room - taken);
        return if right { format!("{blanks}{text}") } else { format!("{text}{blanks}") };
    }
    let mark = theme.more();
    let mut cut = String::new();
    let mut used = 0;
    for letter in text.chars() {
        let next = width(letter.encode_utf8(&mut [0; 4]));
        if used + next + 1 > room {
            break;
        }
        used += next;
        cut.push(letter);
    }
    if room > 0 {
        cut.push(mark);
        used += 1;
    }
    cut.push_str(&" ".repeat(room.saturating_sub(used)));
    cut
}

/// How much of a whole, drawn in so many columns. Something is never shown as nothing, nor a part as all.
pub(crate) fn bar(part: f64, whole: f64, columns: usize, theme: Theme) -> String {
    let (full, empty) = theme.blocks();
    let share = if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
    let exact = share * columns as f64;
    let mut filled = exact.round() as usize;
    if share > 0.0 {
        filled = filled.max(1);
    }
    if share < 1.0 {
        filled = filled.min(columns.saturating_sub(1));
    }
    let mut drawn: String = std::iter::repeat_n(full, filled).collect();
    drawn.extend(std::iter::repeat_n(empty, columns - filled));
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Theme = Theme { colour: false, unicode: true };

    #[test]
    fn texts_take_exactly_their_room() {
        assert_eq!(fit("abc", 5, false, PLAIN), "abc  ");
        assert_eq!(fit("abc", 5, true, PLAIN), "  abc");
        assert_eq!(fit("abcdef", 4, false, PLAIN), "abc…");
        assert_eq!(fit("日本語", 4, false, PLAIN), "日… ");
        assert_eq!(fit("abc", 0, false, PLAIN), "");
        assert_eq!(fit("abcdef", 4, false, Theme { unicode: false, ..PLAIN }), "abc~");
    }

    #[test]
    fn bars_do_not_lie_at_their_ends() {
        let ascii = Theme { unicode: false, ..PLAIN };
        let cases =
            [(0.0, "----"), (0.001, "#---"), (0.5, "##--"), (0.999, "###-"), (1.0, "####"), (7.0, "####")];
        for (part, expected) in cases {
            assert_eq!(bar(part, 1.0, 4, ascii), expected, "{part}");
        }
        assert_eq!(bar(1.0, 0.0, 4, ascii), "----");
    }
}
