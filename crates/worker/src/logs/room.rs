//! Which bytes of a stream the scheduler will keep, and so which need not be sent or stored. Pure.
//!
//! The scheduler keeps the beginning and the end of a stream, half of its limit each. What lies between
//! would be dropped there, so it is dropped here when it piles up. While somebody reads along it waits instead,
//! and is sent no faster than it is read: what is read in time is never dropped. What waits is bounded.

use std::time::Duration;

use tokio::time::Instant;

/// Holes begin and end at multiples of this, so that the file system can free whole blocks.
const HOLE_ALIGN: u64 = 64 * 1024;
/// Freeing less than this is not worth the call.
pub(super) const HOLE_WORTH: u64 = 1024 * 1024;
/// How much of a stream waits for those who read along, in multiples of the limit. The job is not held up by
/// them; what it writes beyond this is dropped as if nobody read.
const WAITING_LIMITS: u64 = 16;
/// A reader whose connection broke comes back within this time.
const RETURN: Duration = Duration::from_secs(5);

/// How much of one stream is kept, and whether it may wait for readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// The scheduler's limit; 0 when it is not known yet.
    pub(super) limit: u64,
    /// Those who read along are waited for.
    pub(super) patient: bool,
}

/// Who reads a stream along, as the scheduler said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// It has not said anything yet.
    Unknown,
    Nobody,
    /// The slowest reader is at this offset.
    At {
        offset: u64,
        heard: Instant,
    },
}

impl Audience {
    /// What is known after an answer.
    pub(super) fn hear(self, followed: Option<u64>, now: Instant) -> Self {
        match (followed, self) {
            (Some(offset), _) => Self::At { offset, heard: now },
            (None, Self::At { heard, .. }) if now < heard + RETURN => self,
            (None, Self::Unknown | Self::Nobody | Self::At { .. }) => Self::Nobody,
        }
    }
}

/// Bytes from the first offset up to the second.
pub(super) type Hole = (u64, u64);

impl Room {
    /// The length of the beginning that is always kept.
    pub(super) fn head(self) -> u64 {
        if self.limit == 0 { u64::MAX } else { self.limit / 2 }
    }

    /// What the scheduler keeps of the end even right after it has dropped a part, of which there are four.
    fn window(self) -> u64 {
        self.limit / 8 * 3
    }

    /// Whether what lies between beginning and end waits for readers.
    fn waits(self, offset: u64, length: u64, audience: Audience) -> bool {
        let wanted = self.patient && self.window() > 0 && audience != Audience::Nobody;
        wanted && length.saturating_sub(offset) <= self.limit.saturating_mul(WAITING_LIMITS)
    }

    /// Where to go on when `offset` has been reached: further on, when what lies between is too much.
    pub(super) fn next(self, offset: u64, length: u64, audience: Audience) -> u64 {
        if offset < self.head() || self.waits(offset, length, audience) {
            return offset;
        }
        offset.max(length.saturating_sub(self.limit - self.head()))
    }

    /// Up to where may be sent from `offset` on, so that nothing goes that a reader has not read: `offset`
    /// itself when the reader comes first.
    pub(super) fn until(self, offset: u64, length: u64, audience: Audience) -> u64 {
        if offset < self.head() {
            return length.min(self.head());
        }
        match audience {
            Audience::At { offset: read, .. } if self.waits(offset, length, audience) => {
                length.min(read.max(self.head()).saturating_add(self.window())).max(offset)
            }
            Audience::At { .. } | Audience::Unknown | Audience::Nobody => length,
        }
    }

    /// What nobody needs: what was sent, and what piles up between beginning and end. A stream within its
    /// limit stays whole, in case the scheduler asks for it again.
    pub(super) fn holes(self, offset: u64, length: u64, audience: Audience) -> Vec<Hole> {
        if self.limit == 0 || length <= self.limit.saturating_add(HOLE_WORTH) {
            return Vec::new();
        }
        let tail = length.saturating_sub(self.limit - self.head());
        let sent = (0, offset);
        let between = (offset.max(self.head()), tail);
        let waits = self.waits(offset, length, audience);
        let align = |(from, to): Hole| (from.next_multiple_of(HOLE_ALIGN), to / HOLE_ALIGN * HOLE_ALIGN);
        let holes = [Some(sent), (!waits).then_some(between)].into_iter().flatten().map(align);
        holes.filter(|(from, to)| from < to).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use Audience::{Nobody, Unknown};

    const MIB: u64 = 1024 * 1024;

    fn of(limit: u64) -> Room {
        Room { limit, patient: true }
    }

    fn at(offset: u64) -> Audience {
        Audience::At { offset, heard: Instant::now() }
    }

    #[test]
    fn the_beginning_is_sent_first_and_then_the_end() {
        let room = of(10 * MIB);
        assert_eq!(room.next(0, 100 * MIB, Nobody), 0);
        assert_eq!(room.next(4 * MIB, 100 * MIB, Nobody), 4 * MIB);
        assert_eq!(room.next(5 * MIB, 100 * MIB, Nobody), 95 * MIB);
        assert_eq!(room.next(97 * MIB, 100 * MIB, Nobody), 97 * MIB);
        assert_eq!(room.next(5 * MIB, 6 * MIB, Nobody), 5 * MIB, "little enough to send all of it");
        assert_eq!(of(0).next(5 * MIB, 600 * MIB, Nobody), 5 * MIB);
    }

    #[test]
    fn what_nobody_needs_is_freed() {
        let room = of(10 * MIB);
        assert_eq!(room.holes(0, 8 * MIB, Nobody), []);
        assert_eq!(room.holes(9 * MIB, 11 * MIB, Nobody), []);
        assert_eq!(room.holes(0, 100 * MIB, Nobody), [(5 * MIB, 95 * MIB)]);
        assert_eq!(room.holes(2 * MIB, 100 * MIB, Nobody), [(0, 2 * MIB), (5 * MIB, 95 * MIB)]);
        assert_eq!(room.holes(97 * MIB, 100 * MIB, Nobody), [(0, 97 * MIB)]);
        assert_eq!(of(0).holes(97 * MIB, 100 * MIB, Nobody), []);
    }

    #[test]
    fn what_somebody_reads_along_waits_within_bounds() {
        let room = of(10 * MIB);
        for audience in [Unknown, at(0), at(5 * MIB)] {
            assert_eq!(room.next(5 * MIB, 100 * MIB, audience), 5 * MIB);
            assert_eq!(room.holes(6 * MIB, 100 * MIB, audience), [(0, 6 * MIB)]);
        }
        let too_much = 5 * MIB + 161 * MIB;
        assert_eq!(room.next(5 * MIB, too_much, at(5 * MIB)), too_much - 5 * MIB);
        assert_eq!(room.until(5 * MIB, too_much, at(0)), too_much);
        let impatient = Room { patient: false, ..room };
        assert_eq!(impatient.next(5 * MIB, 100 * MIB, at(5 * MIB)), 95 * MIB);
        assert_eq!(of(7).next(3, 100, at(3)), 96, "too small to wait with");
    }

    #[test]
    fn no_more_is_sent_than_can_be_read_in_time() {
        let (room, window) = (of(8 * MIB), 3 * MIB);
        assert_eq!(room.until(0, 100 * MIB, at(0)), 4 * MIB, "the beginning stays");
        assert_eq!(room.until(4 * MIB, 100 * MIB, at(0)), 4 * MIB + window);
        assert_eq!(room.until(9 * MIB, 100 * MIB, at(8 * MIB)), 8 * MIB + window);
        assert_eq!(room.until(12 * MIB, 100 * MIB, at(8 * MIB)), 12 * MIB, "the reader comes first");
        assert_eq!(room.until(12 * MIB, 100 * MIB, Nobody), 100 * MIB);
    }

    #[test]
    fn a_reader_that_is_gone_may_come_back() {
        let now = Instant::now();
        assert_eq!(Unknown.hear(None, now), Nobody);
        let reader = Unknown.hear(Some(3), now);
        assert_eq!(reader, Audience::At { offset: 3, heard: now });
        assert_eq!(reader.hear(None, now + RETURN / 2), reader);
        assert_eq!(reader.hear(None, now + RETURN), Nobody);
    }
}
