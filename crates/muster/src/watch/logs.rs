//! The output of a job on the screen: the last lines of it, and where the reader stands.
//!
//! Guarantee: memory is bounded, whatever a job writes; bytes of a job never reach the terminal as they
//! are, so that they cannot steer it.

use std::collections::VecDeque;
use std::fmt::Write as _;

use muster_protocol::LogStream;

/// The most that is kept; older lines are forgotten.
const MOST_LINES: usize = 20_000;
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// A longer line is broken.
const LONGEST_LINE: usize = 16 * 1024;
const TAB: usize = 8;

/// Which of the two streams are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Both,
    Only(LogStream),
}

impl Shown {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Both => Self::Only(LogStream::Stdout),
            Self::Only(LogStream::Stdout) => Self::Only(LogStream::Stderr),
            Self::Only(LogStream::Stderr) => Self::Both,
        }
    }

    pub(crate) fn has(self, stream: LogStream) -> bool {
        self == Self::Both || self == Self::Only(stream)
    }
}

/// A line that is safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLine {
    pub(crate) stream: LogStream,
    pub(crate) text: String,
}

/// What a reader of a log sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogView {
    pub(crate) job_id: String,
    pub(crate) title: String,
    pub(crate) attempt: u32,
    pub(crate) attempts: u32,
    pub(crate) shown: Shown,
    lines: VecDeque<LogLine>,
    bytes: usize,
    pub(crate) forgotten: u64,
    /// Whether output before the first line was left out.
    pub(crate) is_tail: bool,
    begun: [bool; 2],
    /// What came after the last end of a line, by stream.
    open: [Vec<u8>; 2],
    /// The first line on the screen; ignored while following.
    top: usize,
    pub(crate) follow: bool,
    /// The first column on the screen.
    pub(crate) column: usize,
    /// What is looked for; empty for nothing.
    pub(crate) searched: String,
    /// The word is being typed.
    pub(crate) is_typing: bool,
    /// The line that was found last.
    found: Option<usize>,
    /// Set when there is nothing more to come, with what to say about it.
    pub(crate) ended: Option<String>,
}

impl LogView {
    pub(crate) fn new(job_id: &str, title: &str, attempts: u32) -> Self {
        Self {
            job_id: job_id.to_owned(),
            title: title.to_owned(),
            attempt: attempts,
            attempts,
            shown: Shown::Both,
            lines: VecDeque::new(),
            bytes: 0,
            forgotten: 0,
            is_tail: false,
            begun: [false; 2],
            open: [Vec::new(), Vec::new()],
            top: 0,
            follow: true,
            column: 0,
            searched: String::new(),
            is_typing: false,
            found: None,
            ended: None,
        }
    }

    /// The same reader at the beginning of another attempt.
    pub(crate) fn at_attempt(&self, attempt: u32) -> Self {
        let fresh = Self::new(&self.job_id, &self.title, self.attempts.max(attempt));
        Self { attempt, shown: self.shown, ..fresh }
    }

    /// Notes where in a stream its first bytes are from.
    pub(crate) fn begin(&mut self, stream: LogStream, offset: u64) {
        let begun = std::mem::replace(&mut self.begun[slot(stream)], true);
        self.is_tail |= !begun && offset > 0;
    }

    /// Takes the next bytes of a stream.
    pub(crate) fn feed(&mut self, stream: LogStream, bytes: &[u8]) {
        let slot = slot(stream);
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        for piece in lines.flat_map(|line| line.chunks(LONGEST_LINE)) {
            self.open[slot].extend_from_slice(piece);
            if self.open[slot].ends_with(b"\n") || self.open[slot].len() >= LONGEST_LINE {
                let line = std::mem::take(&mut self.open[slot]);
                self.push(LogLine { stream, text: readable(&line) });
            }
        }
    }

    fn push(&mut self, line: LogLine) {
        self.bytes += line.text.len();
        self.lines.push_back(line);
        while self.lines.len() > MOST_LINES || self.bytes > MOST_BYTES {
            let Some(first) = self.lines.pop_front() else { return };
            self.bytes -= first.text.len();
            self.forgotten += 1;
            if self.shown.has(first.stream) {
                self.top = self.top.saturating_sub(1);
                self.found = self.found.and_then(|line| line.checked_sub(1));
            }
        }
    }

    fn closed(&self) -> impl Iterator<Item = &LogLine> {
        self.lines.iter().filter(|line| self.shown.has(line.stream))
    }

    /// What has no end of line yet; it is shown after everything else.
    fn unfinished(&self) -> impl Iterator<Item = LogLine> + '_ {
        let streams = [LogStream::Stdout, LogStream::Stderr].into_iter();
        let written = |stream: &LogStream| self.shown.has(*stream) && !self.open[slot(*stream)].is_empty();
        streams.filter(written).map(|stream| LogLine { stream, text: readable(&self.open[slot(stream)]) })
    }

    pub(crate) fn len(&self) -> usize {
        self.closed().count() + self.unfinished().count()
    }

    /// The lines on a screen of this height.
    pub(crate) fn visible(&self, height: usize) -> Vec<LogLine> {
        let top = self.first(height);
        let mut lines: Vec<LogLine> = self.closed().skip(top).take(height).cloned().collect();
        lines.extend(self.unfinished());
        lines.truncate(height);
        lines
    }

    /// The number of the first line on the screen.
    pub(crate) fn first(&self, height: usize) -> usize {
        let last = self.len().saturating_sub(height);
        if self.follow { last } else { self.top.min(last) }
    }

    /// Moves by lines; at the end the reader follows again.
    pub(crate) fn scroll(&mut self, by: isize, height: usize) {
        let last = self.len().saturating_sub(height);
        self.top = self.first(height).saturating_add_signed(by).min(last);
        self.follow = by > 0 && self.top == last;
    }

    /// Goes to the next line with the word, or the one before, around the ends; false when there is none.
    pub(crate) fn find(&mut self, forward: bool, height: usize) -> bool {
        let matches: Vec<usize> = self
            .closed()
            .enumerate()
            .filter(|(_, line)| self.is_match(line))
            .map(|(index, _)| index)
            .collect();
        let from = self.found.unwrap_or_else(|| self.first(height));
        let next = if forward {
            let after =
                matches.iter().find(|index| **index > from || (**index == from && self.found.is_none()));
            after.or(matches.first())
        } else {
            matches.iter().rev().find(|index| **index < from).or(matches.last())
        };
        let Some(line) = next.copied() else { return false };
        self.found = Some(line);
        self.top = line.saturating_sub(height / 2);
        self.follow = false;
        true
    }

    /// Whether the word is in the line; case does not matter.
    pub(crate) fn is_match(&self, line: &LogLine) -> bool {
        !self.searched.is_empty() && line.text.to_lowercase().contains(&self.searched.to_lowercase())
    }

    /// Whether the line with this number was found last.
    pub(crate) fn is_found(&self, line: usize) -> bool {
        self.found == Some(line)
    }

    /// Begins to look for another word, from where the reader is.
    pub(crate) fn begin_search(&mut self) {
        self.searched.clear();
        self.found = None;
        self.is_typing = true;
    }

    pub(crate) fn go_to_top(&mut self) {
        self.top = 0;
        self.follow = false;
    }

    pub(crate) fn go_to_end(&mut self) {
        self.follow = true;
    }
}

fn slot(stream: LogStream) -> usize {
    match stream {
        LogStream::Stdout => 0,
        LogStream::Stderr => 1,
    }
}

/// Text as it would stand on a terminal after all that the bytes do to it: what was overwritten is gone,
/// colours are left out, tabs are blanks, and other control characters are shown.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    let text = text.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
    let mut shown = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut column = 0;
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_escape(&mut letters),
            '\t' => {
                let blanks = TAB - column % TAB;
                shown.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
            }
            '\u{8}' => {
                column = column.saturating_sub(usize::from(shown.pop().is_some()));
            }
            control if control.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(shown, "\\x{:02x}", control as u32);
                column += 4;
            }
            other => {
                shown.push(other);
                column += 1;
            }
        }
    }
    shown
}

/// Passes over one escape sequence: colours, movements and titles.
fn skip_escape(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        Some('[') => {
            for letter in letters.by_ref() {
                if ('@'..='~').contains(&letter) {
                    return;
                }
            }
        }
        Some(']') => {
            while let Some(letter) = letters.next() {
                if letter == '\u{7}' {
                    return;
                }
                if letter == '\u{1b}' {
                    letters.next();
                    return;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(view: &LogView, height: usize) -> Vec<String> {
        view.visible(height).into_iter().map(|line| line.text).collect()
    }

    fn view_of(count: usize) -> LogView {
        let mut view = LogView::new("job-1", "train", 1);
        for number in 0..count {
            view.feed(LogStream::Stdout, format!("line {number}\n").as_bytes());
        }
        view
    }

    #[test]
    fn what_a_job_writes_cannot_steer_the_terminal() {
        let cases: [(&[u8], &str); 8] = [
            (b"plain\n", "plain"),
            (b"\x1b[31mred\x1b[0m\n", "red"),
            (b"\x1b]0;title\x07after\n", "after"),
            (b"\x1b]8;;http://x\x1b\\link\n", "link"),
            (b"10%\r20%\r30%", "30%"),
            (b"a\tb\r\n", "a       b"),
            (b"bell\x07\xff\n", "bell\\x07\u{fffd}"),
            (b"ab\x08c", "ac"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(readable(bytes), expected);
        }
    }

    #[test]
    fn pieces_may_be_cut_anywhere() {
        let mut view = LogView::new("job-1", "train", 1);
        for piece in ["on", "e\ntw", "o \u{e4}"] {
            view.feed(LogStream::Stdout, piece.as_bytes());
        }
        view.feed(LogStream::Stderr, b"wrong\n");
        assert_eq!(texts(&view, 9), ["one", "wrong", "two \u{e4}"]);
        view.shown = Shown::Only(LogStream::Stderr);
        assert_eq!(texts(&view, 9), ["wrong"]);
    }

    #[test]
    fn the_end_is_followed_until_the_reader_moves_away() {
        let mut view = view_of(10);
        assert_eq!(texts(&view, 3), ["line 7", "line 8", "line 9"]);
        view.scroll(-2, 3);
        view.feed(LogStream::Stdout, b"line 10\n");
        assert_eq!(texts(&view, 3), ["line 5", "line 6", "line 7"]);
        view.scroll(100, 3);
        view.feed(LogStream::Stdout, b"line 11\n");
        assert_eq!(texts(&view, 3), ["line 9", "line 10", "line 11"]);
        view.go_to_top();
        assert_eq!(texts(&view, 1), ["line 0"]);
    }

    #[test]
    fn a_word_is_found_forwards_and_backwards_around_the_ends() {
        let mut view = view_of(30);
        view.searched = "LINE 2".to_owned();
        view.go_to_top();
        let mut found = |forward| {
            assert!(view.find(forward, 5));
            view.found.unwrap()
        };
        assert_eq!([found(true), found(true), found(true)], [2, 20, 21]);
        assert_eq!([found(false), found(false), found(false)], [20, 2, 29]);
        assert_eq!(found(true), 2);
        assert!(texts(&view, 5).contains(&"line 2".to_owned()), "what was found is on the screen");
        view.begin_search();
        assert!(!view.find(true, 5), "nothing is in every line");
        view.searched = "nowhere".to_owned();
        assert!(!view.find(true, 5));
    }

    #[test]
    fn memory_is_bounded_in_lines_and_bytes() {
        let view = view_of(MOST_LINES + 5);
        assert_eq!((view.len(), view.forgotten), (MOST_LINES, 5));
        let mut long = LogView::new("job-1", "train", 1);
        for _ in 0..3 * MOST_BYTES / LONGEST_LINE {
            long.feed(LogStream::Stdout, &vec![b'x'; LONGEST_LINE]);
        }
        assert!(long.bytes <= MOST_BYTES && long.open[0].is_empty());
    }
}
