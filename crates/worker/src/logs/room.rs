//! Which bytes of a stream the scheduler will keep, and so which need not be sent or stored. Pure.
//!
//! The scheduler keeps the beginning and the end of a stream, half of its limit each. What lies between
//! would be dropped there, so it is dropped here when it piles up.

/// Holes begin and end at multiples of this, so that the file system can free whole blocks.
const HOLE_ALIGN: u64 = 64 * 1024;
/// Freeing less than this is not worth the call.
pub(super) const HOLE_WORTH: u64 = 1024 * 1024;

/// The scheduler's limit for one stream; 0 when it is not known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room(pub(super) u64);

/// Bytes from the first offset up to the second.
pub(super) type Hole = (u64, u64);

impl Room {
    /// The length of the beginning that is always kept.
    pub(super) fn head(self) -> u64 {
        if self.0 == 0 { u64::MAX } else { self.0 / 2 }
    }

    /// Where to go on when `offset` has been reached: further on, when what lies between is too much.
    pub(super) fn next(self, offset: u64, length: u64) -> u64 {
        if offset < self.head() { offset } else { offset.max(length.saturating_sub(self.0 - self.head())) }
    }

    /// What nobody needs: what was sent, and what piles up between beginning and end. A stream within its
    /// limit stays whole, in case the scheduler asks for it again.
    pub(super) fn holes(self, offset: u64, length: u64) -> Vec<Hole> {
        if self.0 == 0 || length <= self.0.saturating_add(HOLE_WORTH) {
            return Vec::new();
        }
        let tail = length.saturating_sub(self.0 - self.head());
        let sent = (0, offset);
        let between = (offset.max(self.head()), tail);
        let align = |(from, to): Hole| (from.next_multiple_of(HOLE_ALIGN), to / HOLE_ALIGN * HOLE_ALIGN);
        [sent, between].map(align).into_iter().filter(|(from, to)| from < to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    #[test]
    fn the_beginning_is_sent_first_and_then_the_end() {
        let room = Room(10 * MIB);
        assert_eq!(room.next(0, 100 * MIB), 0);
        assert_eq!(room.next(4 * MIB, 100 * MIB), 4 * MIB);
        assert_eq!(room.next(5 * MIB, 100 * MIB), 95 * MIB);
        assert_eq!(room.next(97 * MIB, 100 * MIB), 97 * MIB);
        assert_eq!(room.next(5 * MIB, 6 * MIB), 5 * MIB, "little enough to send all of it");
        assert_eq!(Room(0).next(5 * MIB, 600 * MIB), 5 * MIB);
    }

    #[test]
    fn what_nobody_needs_is_freed() {
        let room = Room(10 * MIB);
        assert_eq!(room.holes(0, 8 * MIB), []);
        assert_eq!(room.holes(9 * MIB, 11 * MIB), []);
        assert_eq!(room.holes(0, 100 * MIB), [(5 * MIB, 95 * MIB)]);
        assert_eq!(room.holes(2 * MIB, 100 * MIB), [(0, 2 * MIB), (5 * MIB, 95 * MIB)]);
        assert_eq!(room.holes(97 * MIB, 100 * MIB), [(0, 97 * MIB)]);
        assert_eq!(Room(0).holes(97 * MIB, 100 * MIB), []);
    }
}
