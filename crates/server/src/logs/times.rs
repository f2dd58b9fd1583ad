//! When output was written: a list of pairs beside each file, `(end offset, microseconds)`.
//!
//! A pair says that the bytes before the offset, and after that of the pair before, were seen at that time.
//! Guarantees: offsets and times only grow; a list stays small beside what it describes; a torn pair at its
//! end is ignored and overwritten.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::objects::Body;

pub(super) const PAIR: u64 = 16;
/// A list may have this size without further ado, ...
const FREE: u64 = 64 * 1024;
/// ... and beyond it this share of the size of its stream, ...
const SHARE: u64 = 4;
/// ... and beyond that one pair for this time.
const COARSE_MICROS: i64 = 1_000_000;

/// The bytes before `end` were there at `micros`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tick {
    pub(crate) end: u64,
    pub(crate) micros: i64,
}

impl Tick {
    fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.end.to_le_bytes());
        bytes[8..].copy_from_slice(&self.micros.to_le_bytes());
        bytes
    }

    fn decode(bytes: [u8; 16]) -> Self {
        let (end, micros) = bytes.split_at(8);
        let number = |half: &[u8]| half.try_into().map(u64::from_le_bytes).unwrap_or_default();
        Self { end: number(end), micros: number(micros).cast_signed() }
    }
}

/// Reads `END@MICROS,…`; what is not of that form is left out.
pub(crate) fn parse_ticks(text: &str) -> Vec<Tick> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('@'));
    pairs
        .filter_map(|(end, micros)| {
            Some(Tick { end: end.trim().parse().ok()?, micros: micros.trim().parse().ok()? })
        })
        .collect()
}

/// Appends what is worth keeping of `ticks` to the list of a file that holds `size` bytes.
pub(super) fn append(path: &Path, ticks: &[Tick], size: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let mut length = file.metadata()?.len() / PAIR * PAIR;
    let mut last = match length.checked_sub(PAIR) {
        Some(position) => read_pair(&file, position)?,
        None => None,
    };
    let at = length;
    let mut bytes = Vec::new();
    for tick in ticks {
        let micros = last.map_or(tick.micros, |last| tick.micros.max(last.micros));
        let coarse = last.is_none_or(|last| micros - last.micros >= COARSE_MICROS);
        if last.is_some_and(|last| tick.end <= last.end) || (length >= FREE + size / SHARE && !coarse) {
            continue;
        }
        let kept = Tick { end: tick.end, micros };
        bytes.extend_from_slice(&kept.encode());
        length += PAIR;
        last = Some(kept);
    }
    if bytes.is_empty() { Ok(()) } else { file.write_all_at(&bytes, at) }
}

fn read_pair(file: &File, position: u64) -> io::Result<Option<Tick>> {
    let mut bytes = [0; 16];
    match file.read_exact_at(&mut bytes, position) {
        Ok(()) => Ok(Some(Tick::decode(bytes))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// The list beside one file, to look things up in.
#[derive(Debug)]
pub(super) struct Times {
    list: List,
    count: u64,
}

#[derive(Debug)]
enum List {
    None,
    File(File),
    /// In moved content, from this place on.
    Packed(Body, u64),
}

impl Times {
    /// Opens a list; one that does not exist is empty.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        match File::open(path) {
            Ok(file) => {
                let count = file.metadata()?.len() / PAIR;
                Ok(Self { list: List::File(file), count })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::none()),
            Err(error) => Err(error),
        }
    }

    /// A list of so many pairs in moved content.
    pub(super) fn packed(body: Body, at: u64, count: u64) -> Self {
        Self { list: List::Packed(body, at), count }
    }

    pub(super) fn none() -> Self {
        Self { list: List::None, count: 0 }
    }

    /// The pair with this number.
    pub(super) fn get(&self, index: u64) -> io::Result<Option<Tick>> {
        match &self.list {
            List::File(file) if index < self.count => read_pair(file, index * PAIR),
            List::Packed(body, at) if index < self.count => {
                let mut bytes = [0; 16];
                body.read(at + index * PAIR, &mut bytes)?;
                Ok(Some(Tick::decode(bytes)))
            }
            _ => Ok(None),
        }
    }

    /// The number of the first pair for which `reached` holds; it must hold for all later ones too.
    fn first(&self, reached: impl Fn(Tick) -> bool) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle)? {
                Some(tick) if !reached(tick) => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// The number of the pair that says when the byte at `position` was written.
    pub(super) fn covering(&self, position: u64) -> io::Result<u64> {
        self.first(|tick| tick.end > position)
    }

    /// The offset of the first byte that was written at `micros` or later; `None` when all are older.
    pub(super) fn since(&self, micros: i64, start: u64) -> io::Result<Option<u64>> {
        let index = self.first(|tick| tick.micros >= micros)?;
        if index >= self.count {
            return Ok(None);
        }
        match index.checked_sub(1) {
            None => Ok(Some(start)),
            Some(before) => Ok(self.get(before)?.map(|tick| tick.end)),
        }
    }

    /// When the newest byte was written.
    pub(super) fn newest(&self) -> io::Result<Option<i64>> {
        let last = self.count.checked_sub(1).map(|last| self.get(last)).transpose()?;
        Ok(last.flatten().map(|tick| tick.micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(pairs: &[(u64, i64)]) -> Vec<Tick> {
        pairs.iter().map(|(end, micros)| Tick { end: *end, micros: *micros }).collect()
    }

    fn all(path: &Path) -> Vec<Tick> {
        let times = Times::open(path).unwrap();
        (0..times.count).map(|index| times.get(index).unwrap().unwrap()).collect()
    }

    #[test]
    fn pairs_only_grow_and_repeats_are_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("times");
        append(&path, &ticks(&[(10, 100), (20, 200)]), 20).unwrap();
        append(&path, &ticks(&[(20, 250), (30, 150)]), 30).unwrap();
        assert_eq!(all(&path), ticks(&[(10, 100), (20, 200), (30, 200)]));
    }

    #[test]
    fn a_torn_pair_is_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("times");
        append(&path, &ticks(&[(10, 100)]), 10).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"torn", PAIR).unwrap();
        append(&path, &ticks(&[(20, 200)]), 20).unwrap();
        assert_eq!(all(&path), ticks(&[(10, 100), (20, 200)]));
    }

    #[test]
    fn bytes_have_times_and_times_have_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("times");
        append(&path, &ticks(&[(10, 100), (20, 200), (30, 300)]), 30).unwrap();
        let times = Times::open(&path).unwrap();
        let at = |position| times.get(times.covering(position).unwrap()).unwrap().map(|tick| tick.micros);
        assert_eq!(
            [at(0), at(9), at(10), at(29), at(30)],
            [Some(100), Some(100), Some(200), Some(300), None]
        );
        let since = |micros| times.since(micros, 0).unwrap();
        assert_eq!([since(50), since(150), since(200), since(301)], [Some(0), Some(10), Some(10), None]);
        assert_eq!(times.newest().unwrap(), Some(300));
        let none = Times::open(&directory.path().join("missing")).unwrap();
        assert_eq!((none.covering(5).unwrap(), none.since(0, 0).unwrap()), (0, None));
    }

    #[test]
    fn a_list_stays_small_beside_its_stream() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("times");
        let dense: Vec<Tick> =
            (1..=20_000).map(|number| Tick { end: number, micros: number as i64 }).collect();
        append(&path, &dense, 20_000).unwrap();
        let size = std::fs::metadata(&path).unwrap().len();
        assert!(size <= FREE + 20_000 / SHARE + PAIR, "{size}");
        append(&path, &ticks(&[(20_001, 5_000_000)]), 20_001).unwrap();
        assert_eq!(all(&path).last().unwrap().end, 20_001, "one a second still goes in");
    }

    #[test]
    fn the_header_is_read_leniently() {
        assert_eq!(parse_ticks("10@5, 20@7"), ticks(&[(10, 5), (20, 7)]));
        assert_eq!(parse_ticks("x@5,20@,,9@-3"), ticks(&[(9, -3)]));
    }
}
