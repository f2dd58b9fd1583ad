//! When the bytes of a stream were written, remembered until they are sent. Pure.
//!
//! Guarantee: memory is bounded; when there is too much to remember, times become coarser, the newest last.

use std::collections::VecDeque;

use muster_client::LogTick;

/// Times that are remembered of one stream.
const MOST: usize = 2048;
/// Times that go with one upload.
const PER_UPLOAD: usize = 256;

/// The times of one stream, oldest first; offsets and times only grow.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    noted: VecDeque<LogTick>,
}

impl Ticks {
    /// The stream had `end` bytes when it was written to at `micros`.
    pub(super) fn note(&mut self, end: u64, micros: i64) {
        let last = self.noted.back();
        if end == 0 || last.is_some_and(|last| last.end >= end) {
            return;
        }
        let micros = last.map_or(micros, |last| micros.max(last.micros));
        self.noted.push_back(LogTick { end, micros });
        if self.noted.len() > MOST {
            self.noted = thinned(self.noted.make_contiguous()).into();
        }
    }

    /// The times of the bytes from `offset` up to `end`; the last one is at `end`.
    pub(super) fn of(&self, offset: u64, end: u64) -> Vec<LogTick> {
        let first = self.noted.partition_point(|tick| tick.end <= offset);
        let mut ticks = Vec::new();
        for tick in self.noted.range(first..) {
            ticks.push(LogTick { end: tick.end.min(end), micros: tick.micros });
            if tick.end >= end {
                break;
            }
        }
        while ticks.len() > PER_UPLOAD {
            ticks = thinned(&ticks);
        }
        ticks
    }

    /// What lies before `offset` has been sent.
    pub(super) fn forget(&mut self, offset: u64) {
        let sent = self.noted.partition_point(|tick| tick.end <= offset);
        // One stays, so that later notes are compared with it.
        self.noted.drain(..sent.min(self.noted.len().saturating_sub(1)));
    }
}

/// Every other one, and the last. A byte counts with the next time that is left.
fn thinned(ticks: &[LogTick]) -> Vec<LogTick> {
    let odd = ticks.len() % 2;
    ticks.iter().enumerate().filter(|(index, _)| index % 2 != odd).map(|(_, tick)| *tick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(end: u64, micros: i64) -> LogTick {
        LogTick { end, micros }
    }

    #[test]
    fn times_are_cut_to_what_is_sent() {
        let mut ticks = Ticks::default();
        for (end, micros) in [(0, 1), (10, 5), (10, 6), (30, 9), (40, 8)] {
            ticks.note(end, micros);
        }
        assert_eq!(ticks.of(0, 35), [tick(10, 5), tick(30, 9), tick(35, 9)]);
        assert_eq!(ticks.of(10, 20), [tick(20, 9)]);
        assert_eq!(ticks.of(40, 50), []);
        ticks.forget(30);
        assert_eq!(ticks.of(0, 100), [tick(40, 9)]);
        ticks.forget(100);
        ticks.note(40, 50);
        assert_eq!(ticks.of(0, 100), [tick(40, 9)], "an old length is no news");
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stays() {
        let mut ticks = Ticks::default();
        for number in 1..=100_000 {
            ticks.note(number, number as i64);
        }
        assert!(ticks.noted.len() <= MOST);
        assert_eq!(ticks.noted.back(), Some(&tick(100_000, 100_000)));
        let sent = ticks.of(0, 100_000);
        assert!(sent.len() <= PER_UPLOAD);
        assert_eq!(sent.last(), Some(&tick(100_000, 100_000)));
        assert!(sent.is_sorted_by_key(|tick| tick.end));
    }
}
