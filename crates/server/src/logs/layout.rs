//! Which bytes of a stream are kept, and where the next ones go. Pure.
//!
//! The beginning of a stream goes into one file; what comes after its share of the limit goes into parts,
//! of which only the newest are kept. So head and tail survive, and offsets never move.

/// A kept piece of a stream: one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) length: u64,
}

impl Extent {
    pub(super) fn end(self) -> u64 {
        self.start + self.length
    }
}

/// What is kept of one stream, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Layout {
    extents: Vec<Extent>,
    /// Everything before this offset was removed.
    gone: u64,
}

/// What a reader finds at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Data(Extent),
    /// Nothing is kept before `to`.
    Dropped {
        to: u64,
    },
    /// Everything before `to` was removed.
    Expired {
        to: u64,
    },
    /// Nothing was written there yet.
    End,
}

impl Layout {
    pub(super) fn new(mut extents: Vec<Extent>, gone: u64) -> Self {
        extents.sort_unstable();
        Self { extents, gone }
    }

    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Everything before this offset was removed.
    pub(super) fn gone(&self) -> u64 {
        self.gone
    }

    /// How much was written in all.
    pub(super) fn end(&self) -> u64 {
        self.extents.last().map_or(0, |last| last.end()).max(self.gone)
    }

    /// The file that begins at `start`, the last one or a new last one, now reaches up to `end`.
    pub(super) fn grow(&mut self, start: u64, end: u64) {
        self.extents.retain(|extent| extent.start != start);
        self.extents.push(Extent { start, length: end - start });
    }

    pub(super) fn forget(&mut self, extent: Extent) {
        self.extents.retain(|other| *other != extent);
    }

    pub(super) fn at(&self, position: u64) -> Next {
        let found = self.extents.iter().find(|extent| extent.end() > position);
        match found {
            Some(extent) if extent.start <= position => Next::Data(*extent),
            _ if position < self.gone => Next::Expired { to: self.gone },
            Some(extent) => Next::Dropped { to: extent.start },
            None => Next::End,
        }
    }

    /// The end of what is kept without a gap from `position` on; `position` itself when that is not kept.
    pub(super) fn contiguous_end(&self, position: u64) -> u64 {
        let mut end = position;
        while let Next::Data(extent) = self.at(end) {
            end = extent.end();
        }
        end
    }

    /// The first range at or after `position` that is not kept.
    pub(super) fn missing_after(&self, position: u64) -> Option<(u64, u64)> {
        let from = self.contiguous_end(position);
        match self.at(from) {
            Next::Dropped { to } | Next::Expired { to } => Some((from, to)),
            Next::Data(_) | Next::End => None,
        }
    }
}

/// How much is kept of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    /// Bytes of the beginning.
    head: u64,
    /// Bytes of one later part.
    part: u64,
    /// How many later parts are kept.
    parts: u64,
}

/// Where the next bytes of a stream go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The file: the offset at which it begins.
    pub(super) start: u64,
    /// How many bytes still fit into it.
    pub(super) room: u64,
}

impl Shares {
    /// Half of the limit for the beginning, half for the end; a part is a quarter of that half, so that at
    /// least three quarters of it survive when a part is dropped.
    pub(super) fn of(limit: u64) -> Self {
        let head = limit / 2;
        let part = (limit / 8).max(1);
        Self { head, part, parts: ((limit - head) / part).max(1) }
    }

    /// The most bytes that can be kept beyond the beginning.
    pub(super) fn tail(self) -> u64 {
        self.part * self.parts
    }

    /// Where bytes at `position` go, which is the end of the stream or, after a gap, beyond it.
    pub(super) fn place(self, layout: &Layout, position: u64) -> Place {
        match layout.extents.last() {
            None if position == 0 && self.head > 0 => Place { start: 0, room: self.head },
            Some(last) if last.end() == position => {
                let share = if last.start == 0 { self.head } else { self.part };
                match share.saturating_sub(last.length) {
                    0 => Place { start: position, room: self.part },
                    room => Place { start: last.start, room },
                }
            }
            Some(_) | None => Place { start: position, room: self.part },
        }
    }

    /// The parts that are too many, oldest first. The beginning is never one of them.
    pub(super) fn surplus(self, layout: &Layout) -> Vec<Extent> {
        let parts: Vec<Extent> = layout.extents.iter().filter(|extent| extent.start > 0).copied().collect();
        let most = usize::try_from(self.parts).unwrap_or(usize::MAX);
        parts[..parts.len().saturating_sub(most)].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, length: u64) -> Extent {
        Extent { start, length }
    }

    #[test]
    fn gaps_are_found_where_they_are() {
        let layout = Layout::new(vec![extent(20, 5), extent(0, 10), extent(25, 5)], 0);
        assert_eq!(layout.end(), 30);
        assert_eq!(layout.at(3), Next::Data(extent(0, 10)));
        assert_eq!(layout.at(10), Next::Dropped { to: 20 });
        assert_eq!(layout.at(26), Next::Data(extent(25, 5)));
        assert_eq!(layout.at(30), Next::End);
        assert_eq!(layout.contiguous_end(21), 30);
        assert_eq!(layout.missing_after(0), Some((10, 20)));
        assert_eq!(layout.missing_after(20), None);
    }

    #[test]
    fn what_was_removed_is_known_to_have_been_there() {
        let layout = Layout::new(Vec::new(), 12);
        assert_eq!((layout.end(), layout.at(2)), (12, Next::Expired { to: 12 }));
        assert_eq!(layout.at(12), Next::End);
    }

    #[test]
    fn the_head_fills_up_and_then_the_parts() {
        let shares = Shares::of(80);
        assert_eq!(shares.tail(), 40);
        let place = |extents: &[Extent], position| shares.place(&Layout::new(extents.to_vec(), 0), position);
        assert_eq!(place(&[], 0), Place { start: 0, room: 40 });
        assert_eq!(place(&[extent(0, 15)], 15), Place { start: 0, room: 25 });
        assert_eq!(place(&[extent(0, 40)], 40), Place { start: 40, room: 10 });
        assert_eq!(place(&[extent(0, 40), extent(40, 4)], 44), Place { start: 40, room: 6 });
        assert_eq!(place(&[extent(0, 40), extent(40, 10)], 50), Place { start: 50, room: 10 });
        assert_eq!(place(&[extent(0, 15)], 90), Place { start: 90, room: 10 }, "after a gap");
        // A smaller limit than before does not touch what is there.
        assert_eq!(place(&[extent(0, 70)], 70), Place { start: 70, room: 10 });
    }

    #[test]
    fn files_grow_and_go() {
        let mut layout = Layout::default();
        layout.grow(0, 5);
        layout.grow(0, 10);
        layout.grow(10, 12);
        assert_eq!(layout, Layout::new(vec![extent(0, 10), extent(10, 2)], 0));
        layout.forget(extent(0, 10));
        assert_eq!(layout.extents(), [extent(10, 2)]);
    }

    #[test]
    fn the_oldest_parts_go_first_and_the_head_stays() {
        let shares = Shares::of(80);
        let parts = [0, 40, 50, 60, 70, 80].map(|start| extent(start, 10));
        assert_eq!(shares.surplus(&Layout::new(parts.to_vec(), 0)), [extent(40, 10)]);
        assert_eq!(shares.surplus(&Layout::new(parts[..5].to_vec(), 0)), []);
    }

    #[test]
    fn no_limit_is_exceeded_however_small() {
        for limit in 2..200 {
            let shares = Shares::of(limit);
            assert!(shares.head + shares.tail() <= limit, "{limit}: {shares:?}");
        }
    }
}
