//! What is wrong with a file, and where. All mistakes are collected, so that they can be mended in one go.

use std::fmt;

/// More than this many help nobody; a file of garbage must not make an answer of any size.
const MOST: usize = 100;

/// A place in the text; lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

/// One mistake: the place, what is wrong there, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for Mistake {}

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    found: Vec<Mistake>,
}

impl Mistakes {
    pub(crate) fn add(&mut self, at: Position, message: impl Into<String>) {
        if self.found.len() < MOST {
            self.found.push(Mistake { line: at.line, column: at.column, message: message.into() });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// In the order of the text, each once.
    pub(crate) fn sorted(mut self) -> Vec<Mistake> {
        self.found.sort();
        self.found.dedup();
        self.found
    }

    /// A key that nobody knows, with the one that was probably meant.
    pub(crate) fn unknown_key(&mut self, at: Position, key: &str, owner: &str, known: &[&str]) {
        let hint = match closest(key, known.iter().copied()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("it may have {}", known.join(", ")),
        };
        self.add(at, format!("{owner} has no field {}; {hint}", quoted(key)));
    }
}

/// A value as it is repeated in a message: quoted, on one line, not longer than people want to read.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(SHOWN).collect();
    format!("{head:?}...")
}

/// The known word that is nearest to the given one, if one is near enough to have been meant.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64;
    let given: Vec<char> = word.to_lowercase().chars().collect();
    if given.len() > LONGEST {
        return None;
    }
    // A word of one letter is near to every other one.
    let allowed = given.len().div_ceil(3).min(given.len().saturating_sub(1));
    known
        .into_iter()
        .filter(|name| name.len() <= LONGEST)
        .map(|name| (distance(&given, &name.to_lowercase().chars().collect::<Vec<_>>()), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

/// Letters to insert, remove, replace or swap with their neighbour.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut best = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && from[row - 1] == *other && to[column - 1] == *letter;
            if swapped {
                best = best.min(before_last[column - 1] + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_and_a_far_one_is_not() {
        let known = ["timeout", "queue", "needs", "env"];
        let cases = [
            ("timout", Some("timeout")),
            ("qeueu", Some("queue")),
            ("need", Some("needs")),
            ("Env", Some("env")),
            ("", None),
            ("colour", None),
        ];
        for (word, expected) in cases {
            assert_eq!(closest(word, known), expected, "{word}");
        }
    }

    #[test]
    fn the_number_of_mistakes_is_bounded() {
        let mut mistakes = Mistakes::default();
        for line in 0..1000 {
            mistakes.add(Position { line, column: 1 }, "x");
        }
        assert_eq!(mistakes.sorted().len(), MOST);
    }
}
