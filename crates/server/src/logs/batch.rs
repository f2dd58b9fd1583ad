//! The next output of one run: bytes with their times, gaps where something is missing, both streams in the
//! order in which they were written.

use std::io;

use bytes::Bytes;
use muster_protocol::{LogGapCause, LogStream};

use super::layout::{Extent, Layout, Next};
use super::names::Run;
use super::view::View;

/// Bytes that are read at a time.
pub(super) const PIECE: usize = 128 * 1024;

/// What a reader gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) run: Run,
    pub(crate) stream: LogStream,
    /// Where it begins in what the process wrote.
    pub(crate) offset: u64,
    /// When its first byte was written, in microseconds.
    pub(crate) at: Option<i64>,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Bytes(Bytes),
    Missing { bytes: u64, cause: LogGapCause },
}

impl Item {
    /// Where the next one begins.
    pub(super) fn end(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => self.offset + bytes.len() as u64,
            Content::Missing { bytes, .. } => self.offset + bytes,
        }
    }
}

/// One stream of one run, to read from.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) view: &'a View,
    pub(super) run: Run,
    pub(super) stream: LogStream,
    pub(super) layout: &'a Layout,
    /// Nothing at or beyond this offset is read.
    pub(super) until: u64,
}

/// What comes next in one stream.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) items: Vec<Item>,
    /// There is more than was read.
    pub(super) more: bool,
}

impl Source<'_> {
    /// Reads up to a piece from `position` on. Empty at the end, and when a file has just been dropped: then
    /// the next look finds the gap.
    pub(super) fn ahead(&self, position: u64) -> io::Result<Ahead> {
        let mut ahead = Ahead::default();
        let mut position = position;
        let mut left = PIECE;
        while left > 0 && position < self.until {
            let gap =
                |to: u64, cause| self.item(position, None, Content::Missing { bytes: to - position, cause });
            match self.layout.at(position) {
                Next::End => return Ok(ahead),
                Next::Dropped { to } => ahead.items.push(gap(to, LogGapCause::Dropped)),
                Next::Expired { to } => ahead.items.push(gap(to, LogGapCause::Expired)),
                Next::Data(extent) => {
                    let bytes = self.read(extent, position, left)?;
                    if bytes.is_empty() {
                        return Ok(ahead);
                    }
                    left -= bytes.len();
                    self.cut(extent, position, &bytes, &mut ahead.items)?;
                }
            }
            position = ahead.items.last().map_or(position, Item::end);
        }
        ahead.more = position < self.layout.end().min(self.until);
        Ok(ahead)
    }

    fn item(&self, offset: u64, at: Option<i64>, content: Content) -> Item {
        Item { run: self.run, stream: self.stream, offset, at, content }
    }

    fn read(&self, extent: Extent, position: u64, most: usize) -> io::Result<Bytes> {
        let length = usize::try_from(extent.end().min(self.until) - position).unwrap_or(most).min(most);
        self.view.read((self.run, self.stream), extent, position, length).map(Bytes::from)
    }

    /// Cuts bytes where their times change.
    fn cut(&self, extent: Extent, position: u64, bytes: &Bytes, items: &mut Vec<Item>) -> io::Result<()> {
        let times = self.view.times(self.run, self.stream, extent.start)?;
        let end = position + bytes.len() as u64;
        let mut index = times.covering(position)?;
        let mut from = position;
        while from < end {
            let tick = times.get(index)?;
            let to = tick.map_or(end, |tick| tick.end.clamp(from, end));
            let latest = match tick {
                Some(tick) => Some(tick.micros),
                // Written, but not yet noted when.
                None => times.newest()?,
            };
            let (first, last) = ((from - position) as usize, (to - position) as usize);
            if to > from {
                items.push(self.item(from, latest, Content::Bytes(bytes.slice(first..last))));
            }
            from = to;
            index += 1;
        }
        Ok(())
    }
}

/// Puts two streams in the order of their times, as far as both are known.
pub(super) fn merge(first: Ahead, second: Ahead) -> Vec<Item> {
    let mut merged = Vec::with_capacity(first.items.len() + second.items.len());
    let (first_more, second_more) = (first.more, second.more);
    let (mut first, mut second) = (first.items.into_iter().peekable(), second.items.into_iter().peekable());
    loop {
        let next = match (first.peek(), second.peek()) {
            (Some(one), Some(other)) if other.at < one.at => second.next(),
            // What follows in the other one may be older than this.
            (Some(_), None) if second_more && !merged.is_empty() => return merged,
            (None, Some(_)) if first_more && !merged.is_empty() => return merged,
            (Some(_), _) => first.next(),
            (None, Some(_)) => second.next(),
            (None, None) => return merged,
        };
        merged.extend(next);
    }
}

/// Joins neighbours of the same stream, for readers to whom the times do not matter.
pub(super) fn join(items: Vec<Item>) -> Vec<Item> {
    let mut joined: Vec<Item> = Vec::new();
    let mut parts: Vec<Bytes> = Vec::new();
    let close = |joined: &mut Vec<Item>, parts: &mut Vec<Bytes>| {
        if let (Some(last), true) = (joined.last_mut(), parts.len() > 1) {
            last.content = Content::Bytes(parts.concat().into());
        }
        parts.clear();
    };
    let mut end = 0;
    for item in items {
        let next = item.end();
        let continues = joined.last().is_some_and(|last| {
            last.run == item.run && last.stream == item.stream && end == item.offset && !parts.is_empty()
        });
        match item.content.clone() {
            Content::Bytes(bytes) if continues => parts.push(bytes),
            Content::Bytes(bytes) => {
                close(&mut joined, &mut parts);
                parts.push(bytes);
                joined.push(item);
            }
            Content::Missing { .. } => {
                close(&mut joined, &mut parts);
                joined.push(item);
            }
        }
        end = next;
    }
    close(&mut joined, &mut parts);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run { lease: 1, attempt: 1 };

    fn bytes(stream: LogStream, offset: u64, at: i64, text: &'static str) -> Item {
        Item {
            run: RUN,
            stream,
            offset,
            at: Some(at),
            content: Content::Bytes(Bytes::from_static(text.as_bytes())),
        }
    }

    fn out(offset: u64, at: i64, text: &'static str) -> Item {
        bytes(LogStream::Stdout, offset, at, text)
    }

    fn err(offset: u64, at: i64, text: &'static str) -> Item {
        bytes(LogStream::Stderr, offset, at, text)
    }

    #[test]
    fn streams_are_merged_by_time() {
        let first = Ahead { items: vec![out(0, 10, "a"), out(1, 30, "c")], more: false };
        let second = Ahead { items: vec![err(0, 20, "b"), err(1, 40, "d")], more: false };
        let merged = merge(first, second);
        assert_eq!(merged.iter().map(|item| item.at.unwrap()).collect::<Vec<_>>(), [10, 20, 30, 40]);
    }

    #[test]
    fn a_stream_waits_for_what_the_other_has_not_read_yet() {
        let first = Ahead { items: vec![out(0, 10, "a")], more: true };
        let second = Ahead { items: vec![err(0, 20, "b")], more: false };
        assert_eq!(merge(first, second), [out(0, 10, "a")]);
        let nothing = Ahead { items: Vec::new(), more: true };
        let second = Ahead { items: vec![err(0, 20, "b")], more: false };
        assert_eq!(merge(nothing, second), [err(0, 20, "b")], "but something always comes");
    }

    #[test]
    fn neighbours_are_joined_up_to_gaps_and_changes() {
        let missing = Content::Missing { bytes: 5, cause: LogGapCause::Dropped };
        let gap = Item { run: RUN, stream: LogStream::Stdout, offset: 4, at: None, content: missing };
        let items = vec![
            out(0, 1, "ab"),
            out(2, 2, "cd"),
            gap.clone(),
            out(9, 3, "e"),
            err(0, 4, "f"),
            out(10, 5, "g"),
        ];
        let joined = join(items);
        assert_eq!(joined, [out(0, 1, "abcd"), gap, out(9, 3, "e"), err(0, 4, "f"), out(10, 5, "g")]);
    }
}
