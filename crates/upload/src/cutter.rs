//! Cuts a stream into chunks where its content says so.
//!
//! Guarantees: the cuts depend on the bytes around them alone, so that bytes put in or taken out change the chunks beside them
//! and no others; no chunk is longer than [`LONGEST_CHUNK`]; what is held is less than one chunk and what was pushed last.

use fastcdc::v2020::FastCDC;

/// Bytes of the longest chunk.
pub const LONGEST_CHUNK: usize = 2 * 1024 * 1024;
/// What a chunk has on the average: so little that a changed line costs little, so much that a gigabyte has few chunks.
const AVERAGE_CHUNK: usize = 512 * 1024;
const SHORTEST_CHUNK: usize = 128 * 1024;

/// Takes the stream in and gives the chunks out.
#[derive(Debug, Default)]
pub struct Cutter {
    held: Vec<u8>,
    /// How much of `held` was given out.
    used: usize,
}

impl Cutter {
    /// Takes more of the stream in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.used);
        self.used = 0;
        self.held.extend_from_slice(bytes);
    }

    /// The next chunk that is not changed by what follows in the stream.
    pub fn next_chunk(&mut self) -> Option<&[u8]> {
        if self.held.len() - self.used < LONGEST_CHUNK { None } else { self.last_chunk() }
    }

    /// The next chunk, when the stream has ended.
    pub fn last_chunk(&mut self) -> Option<&[u8]> {
        let open = &self.held[self.used..];
        let window = &open[..open.len().min(LONGEST_CHUNK)];
        let length = FastCDC::new(window, SHORTEST_CHUNK, AVERAGE_CHUNK, LONGEST_CHUNK).next()?.length;
        let start = self.used;
        self.used += length;
        Some(&self.held[start..self.used])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;

    /// Bytes that look like chance, and are the same in every run.
    fn noise(length: usize, mut seed: u64) -> Vec<u8> {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn chunks(bytes: &[u8], step: usize) -> Vec<Digest> {
        let (mut cutter, mut found, mut length) = (Cutter::default(), Vec::new(), 0);
        for piece in bytes.chunks(step) {
            cutter.push(piece);
            while let Some(chunk) = cutter.next_chunk() {
                assert!(chunk.len() <= LONGEST_CHUNK);
                length += chunk.len();
                found.push(Digest::of(chunk));
            }
        }
        while let Some(chunk) = cutter.last_chunk() {
            length += chunk.len();
            found.push(Digest::of(chunk));
        }
        assert_eq!(length, bytes.len());
        found
    }

    #[test]
    fn the_cuts_do_not_depend_on_how_the_stream_comes() {
        let bytes = noise(9 * 1024 * 1024, 7);
        let whole = chunks(&bytes, bytes.len());
        assert!(whole.len() > 8, "{}", whole.len());
        assert_eq!(whole, chunks(&bytes, 100_003));
        assert_eq!(whole, chunks(&bytes, LONGEST_CHUNK));
        assert!(chunks(&[], 1).is_empty());
        assert_eq!(chunks(b"small", 2).len(), 1);
    }

    #[test]
    fn what_is_put_in_changes_the_chunks_beside_it_alone() {
        let bytes = noise(9 * 1024 * 1024, 7);
        let before = chunks(&bytes, LONGEST_CHUNK);
        let (head, tail) = bytes.split_at(4_000_000);
        let after = chunks(&[head, b"put in", tail].concat(), LONGEST_CHUNK);
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!((1..=3).contains(&new), "{new} of {} chunks are new", after.len());
    }
}
