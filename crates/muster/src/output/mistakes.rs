//! The mistakes of a file, as compilers show them: the place, the line, a mark below it.

use std::io::{self, Write as _};

use muster_document::Mistake;

use super::quantities::printable;

/// A line longer than this is shown from near the mistake on.
const LONGEST: usize = 100;

/// Tells people about all of them.
pub(crate) fn mistakes(file: &str, text: &str, found: &[Mistake]) {
    let lines: Vec<&str> = text.lines().collect();
    for mistake in found {
        let line = lines.get(mistake.line.saturating_sub(1)).copied().unwrap_or_default();
        // A closed standard error is nothing to fail for.
        let _ = io::stderr().lock().write_all(shown(file, line, mistake).as_bytes());
    }
}

fn shown(file: &str, line: &str, mistake: &Mistake) -> String {
    let head = format!("{file}:{}:{}: {}\n", mistake.line, mistake.column, printable(&mistake.message));
    if line.trim().is_empty() {
        return head;
    }
    let column = mistake.column.saturating_sub(1);
    let skipped = column.saturating_sub(LONGEST / 2);
    let part: String = line.chars().skip(skipped).take(LONGEST).collect();
    // Each character as wide as one: what is shown differently is counted as it is shown.
    let before: String = part.chars().take(column - skipped).collect();
    let blanks = " ".repeat(width(&before));
    format!("{head}    {}\n    {blanks}^\n", tidy(&part))
}

/// Like [`printable`], but blanks at the end are kept: the mark may stand below one.
fn tidy(text: &str) -> String {
    let kept = text.len() - text.trim_end().len();
    format!("{}{}", printable(text), " ".repeat(kept))
}

fn width(text: &str) -> usize {
    tidy(text).chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(column: usize) -> Mistake {
        Mistake { line: 3, column, message: "cpus is wrong".into() }
    }

    #[test]
    fn the_mark_stands_below_the_place() {
        assert_eq!(
            shown("a.yaml", "  cpus: x", &at(9)),
            "a.yaml:3:9: cpus is wrong\n      cpus: x\n            ^\n"
        );
        assert_eq!(shown("a.yaml", "", &at(1)), "a.yaml:3:1: cpus is wrong\n");
        assert_eq!(shown("a.yaml", "ab", &at(9)), "a.yaml:3:9: cpus is wrong\n    ab\n      ^\n");
    }

    #[test]
    fn long_lines_are_shown_around_the_place() {
        let line = "x".repeat(500);
        let text = shown("a", &line, &at(301));
        let (shown_line, mark) = (text.lines().nth(1).unwrap(), text.lines().nth(2).unwrap());
        assert_eq!(shown_line.chars().count(), 4 + LONGEST);
        assert_eq!(mark.chars().count(), 4 + LONGEST / 2 + 1);
    }
}
