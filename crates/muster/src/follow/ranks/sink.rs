//! Where the output of a gang goes: lines with the number of the task before them, or lines of JSON.

use std::io::{self, IsTerminal as _};

use jiff::Timestamp;
use muster_client::LogItem;
use muster_protocol::LogStream;

use super::{Rank, Writes};
use crate::follow::sink::{Streams, Writer, as_json, marker, put, put_marker};
use crate::output::Screen;
use crate::zone::Zone;

/// Colours that can be told apart on a dark and on a light ground; red is left to what is wrong.
const COLOURS: [u8; 10] = [36, 33, 32, 35, 34, 96, 93, 92, 95, 94];

/// Takes whole lines.
#[derive(Debug, Clone)]
pub(crate) struct RankSink {
    streams: Streams,
    json: bool,
    zone: Zone,
    timestamps: bool,
    /// Digits of the largest number.
    width: usize,
    /// Whether the numbers are coloured on standard output and on standard error.
    colours: [bool; 2],
    /// Whether something was missing.
    incomplete: bool,
}

impl RankSink {
    /// For a gang of this size.
    pub(crate) fn new(size: u32, streams: Streams, timestamps: bool, screen: Screen) -> Self {
        let width = size.saturating_sub(1).to_string().len();
        let colours = [screen.colour, screen.colour && io::stderr().is_terminal()];
        Self { streams, json: screen.json, zone: screen.zone, timestamps, width, colours, incomplete: false }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether something was missing of what was to be written.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.incomplete
    }
}

impl Writes for RankSink {
    fn wants_lines(&self) -> bool {
        !self.json
    }

    fn write(&mut self, rank: &Rank, item: &LogItem) -> io::Result<()> {
        self.incomplete |= matches!(item, LogItem::Gap(_));
        if self.json {
            return as_json(item, Some(Writer { rank: rank.index, job_id: &rank.query.job_id }));
        }
        match item {
            LogItem::Output { stream, at, bytes, .. } => {
                put(self.streams, *stream, &self.labelled(rank.index, *stream, *at, bytes))
            }
            LogItem::Gap(gap) => {
                let text = marker(gap, false);
                put_marker(&self.labelled(rank.index, LogStream::Stderr, None, text.as_bytes()))
            }
            LogItem::End => Ok(()),
        }
    }
}

impl RankSink {
    /// Each line with the number of the task and, if wanted, its time before it.
    fn labelled(&self, rank: u32, stream: LogStream, at: Option<Timestamp>, bytes: &[u8]) -> Vec<u8> {
        let width = self.width;
        let to_error = stream == LogStream::Stderr && self.streams == Streams::Both;
        let mut label = format!("[{rank:>width$}] ");
        if self.colours[usize::from(to_error)] {
            let colour = COLOURS[rank as usize % COLOURS.len()];
            label = format!("\u{1b}[{colour}m{label}\u{1b}[0m");
        }
        if let Some(at) = at.filter(|_| self.timestamps) {
            label = format!("{label}{} ", self.zone.stamp(at));
        }
        let mut out = Vec::with_capacity(bytes.len() + label.len());
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            // What goes back to the beginning of the line, as progress bars do, would wipe the number out.
            let parts = line.split_inclusive(|byte| *byte == b'\r');
            let mut returned = true;
            for part in parts {
                if returned && part != b"\n" || part.len() == line.len() {
                    out.extend_from_slice(label.as_bytes());
                }
                out.extend_from_slice(part);
                returned = part.ends_with(b"\r");
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(size: u32, colour: bool) -> RankSink {
        let screen = Screen { json: false, colour, width: None, zone: crate::zone::Zone::UTC };
        RankSink::new(size, Streams::Both, false, screen)
    }

    fn labelled(sink: &RankSink, rank: u32, text: &str) -> String {
        String::from_utf8(sink.labelled(rank, LogStream::Stdout, None, text.as_bytes())).unwrap()
    }

    #[test]
    fn every_line_has_its_number_once() {
        assert_eq!(labelled(&sink(4, false), 3, "a\nb\n"), "[3] a\n[3] b\n");
        assert_eq!(labelled(&sink(64, false), 3, "a\n"), "[ 3] a\n");
        assert_eq!(labelled(&sink(10, false), 9, "\n"), "[9] \n");
    }

    #[test]
    fn a_return_to_the_beginning_of_the_line_keeps_the_number() {
        assert_eq!(labelled(&sink(2, false), 1, "10%\r20%\n"), "[1] 10%\r[1] 20%\n");
        assert_eq!(labelled(&sink(2, false), 1, "dos\r\n"), "[1] dos\r\n");
        assert_eq!(labelled(&sink(2, false), 1, "\r10%\n"), "[1] \r[1] 10%\n");
    }

    #[test]
    fn times_and_colours_when_wanted() {
        let mut sink = sink(2, true);
        assert_eq!(labelled(&sink, 0, "a\n"), "\u{1b}[36m[0] \u{1b}[0ma\n");
        assert_ne!(labelled(&sink, 0, "a\n"), labelled(&sink, 1, "a\n").replace("[1]", "[0]"));
        (sink.timestamps, sink.colours) = (true, [false; 2]);
        let at = "2026-05-05T08:33:00.1234Z".parse().ok();
        let line = sink.labelled(1, LogStream::Stdout, at, b"a\n");
        assert_eq!(String::from_utf8(line).unwrap(), "[1] 2026-05-05T08:33:00.123Z a\n");
    }
}
