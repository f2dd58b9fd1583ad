//! Output cut into whole lines, so that those of several tasks can stand beside each other.

use jiff::Timestamp;
use muster_client::LogItem;
use muster_protocol::LogStream;

use crate::follow::sink::index;

/// A line that grows longer than this is shown in parts.
const LONGEST: usize = 64 * 1024;

/// What has come of a line so far.
#[derive(Debug, Clone)]
struct Begun {
    attempt: u32,
    stream: LogStream,
    offset: u64,
    at: Option<Timestamp>,
    bytes: Vec<u8>,
}

impl Begun {
    fn into_line(mut self) -> LogItem {
        if self.bytes.last() != Some(&b'\n') {
            self.bytes.push(b'\n');
        }
        let Self { attempt, stream, offset, at, bytes } = self;
        LogItem::Output { attempt, stream, offset, at, bytes: bytes.into() }
    }
}

/// The two streams of one task. Every item that it gives ends with the end of a line.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Otherwise items are passed on as they are.
    cut: bool,
    begun: [Option<Begun>; 2],
}

impl Lines {
    pub(super) fn new(cut: bool) -> Self {
        Self { cut, begun: [None, None] }
    }

    /// Takes the next item and gives what is complete with it.
    pub(super) fn take(&mut self, item: LogItem) -> Vec<LogItem> {
        if !self.cut {
            return vec![item];
        }
        match item {
            LogItem::Output { attempt, stream, offset, at, bytes } => {
                self.output(&Begun { attempt, stream, offset, at, bytes: Vec::new() }, bytes.as_ref())
            }
            LogItem::Gap(gap) => {
                let mut items: Vec<LogItem> =
                    self.begun[index(gap.stream)].take().map(Begun::into_line).into_iter().collect();
                items.push(LogItem::Gap(gap));
                items
            }
            LogItem::End => self.rest(),
        }
    }

    fn output(&mut self, head: &Begun, bytes: &[u8]) -> Vec<LogItem> {
        let mut items = Vec::new();
        let slot = &mut self.begun[index(head.stream)];
        // Another run of the job starts with a line of its own.
        if slot.as_ref().is_some_and(|begun| begun.attempt != head.attempt || head.offset <= begun.offset) {
            items.extend(slot.take().map(Begun::into_line));
        }
        let mut rest = bytes;
        let mut offset = head.offset;
        if let Some(mut begun) = slot.take() {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            begun.bytes.extend_from_slice(&rest[..end]);
            (rest, offset) = (&rest[end..], offset + end as u64);
            if begun.bytes.last() == Some(&b'\n') || begun.bytes.len() >= LONGEST {
                items.push(begun.into_line());
            } else {
                *slot = Some(begun);
            }
        }
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let part = |from: u64, bytes: &[u8]| Begun { offset: from, bytes: bytes.to_vec(), ..head.clone() };
        if whole > 0 {
            items.push(part(offset, &rest[..whole]).into_line());
        }
        if whole < rest.len() {
            *slot = Some(part(offset + whole as u64, &rest[whole..]));
        }
        items
    }

    /// What is left when nothing more comes; each gets the end that it lacks.
    pub(super) fn rest(&mut self) -> Vec<LogItem> {
        self.begun.iter_mut().filter_map(Option::take).map(Begun::into_line).collect()
    }
}

#[cfg(test)]
mod tests {
    use muster_protocol::{LogGap, LogGapCause};

    use super::*;

    fn out(stream: LogStream, attempt: u32, offset: u64, text: &str) -> LogItem {
        LogItem::Output { attempt, stream, offset, at: None, bytes: text.to_owned().into() }
    }

    fn texts(items: &[LogItem]) -> Vec<String> {
        let text = |item: &LogItem| match item {
            LogItem::Output { bytes, offset, .. } => format!("{offset}:{}", String::from_utf8_lossy(bytes)),
            other => format!("{other:?}"),
        };
        items.iter().map(text).collect()
    }

    #[test]
    fn only_whole_lines_leave() {
        use LogStream::{Stderr, Stdout};
        let mut lines = Lines::new(true);
        assert!(lines.take(out(Stdout, 1, 0, "a")).is_empty());
        assert_eq!(texts(&lines.take(out(Stderr, 1, 0, "e\n"))), ["0:e\n"]);
        assert_eq!(texts(&lines.take(out(Stdout, 1, 1, "b\nc\nd\nrest"))), ["0:ab\n", "3:c\nd\n"]);
        assert!(lines.take(out(Stdout, 1, 11, " of it")).is_empty());
        assert_eq!(texts(&lines.rest()), ["7:rest of it\n"]);
        assert!(lines.rest().is_empty());
    }

    #[test]
    fn another_run_and_a_gap_end_a_line() {
        let mut lines = Lines::new(true);
        lines.take(out(LogStream::Stdout, 1, 0, "first"));
        assert_eq!(texts(&lines.take(out(LogStream::Stdout, 2, 0, "x\n"))), ["0:first\n", "0:x\n"]);
        lines.take(out(LogStream::Stdout, 2, 2, "again"));
        // A run whose attempt was given back has the same number.
        assert_eq!(texts(&lines.take(out(LogStream::Stdout, 2, 0, "y"))), ["2:again\n"]);
        let gap = LogGap {
            attempt: 2,
            lease: 1,
            stream: LogStream::Stdout,
            offset: 1,
            bytes: 7,
            cause: LogGapCause::Dropped,
        };
        assert_eq!(lines.take(LogItem::Gap(gap)).len(), 2);
    }

    #[test]
    fn a_line_without_end_is_shown_in_parts() {
        let mut lines = Lines::new(true);
        let mut shown = 0;
        for part in 0..20_u64 {
            let items = lines.take(out(LogStream::Stdout, 1, part * 10_000, &"x".repeat(10_000)));
            shown += items.len();
        }
        assert_eq!(shown, 2);
    }

    #[test]
    fn programs_get_the_pieces_as_they_are() {
        let item = out(LogStream::Stdout, 1, 0, "a");
        assert_eq!(Lines::new(false).take(item.clone()), [item]);
    }
}
