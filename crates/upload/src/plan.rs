//! Which bytes of which files a chunk holds.

use std::ops::Range;

use muster_protocol::UploadManifest;

/// A part of a chunk that lies in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The place of the file in the manifest.
    pub entry: usize,
    /// Where in the file it begins.
    pub offset: u64,
    pub length: usize,
}

/// The places of all files and chunks in the stream.
#[derive(Debug)]
pub struct Pieces {
    /// The files that are not empty: where each begins, and its place in the manifest.
    files: Vec<(u64, usize)>,
    /// Where each chunk begins, and the end of the last one.
    chunks: Vec<u64>,
}

impl Pieces {
    pub fn of(manifest: &UploadManifest) -> Self {
        let mut at = 0;
        let mut files = Vec::new();
        for (place, entry) in manifest.entries.iter().enumerate().filter(|(_, entry)| entry.size > 0) {
            files.push((at, place));
            at += entry.size;
        }
        let mut chunks = vec![0];
        let mut at = 0;
        for chunk in &manifest.chunks {
            at += u64::from(chunk.size);
            chunks.push(at);
        }
        Self { files, chunks }
    }

    /// The parts of a chunk, in order. There are none of a chunk that is not in the manifest.
    pub fn of_chunk(&self, number: usize) -> Vec<Piece> {
        match (self.chunks.get(number), self.chunks.get(number + 1)) {
            (Some(start), Some(end)) => self.of_range(*start..*end),
            _ => Vec::new(),
        }
    }

    fn of_range(&self, range: Range<u64>) -> Vec<Piece> {
        let end_of_all = self.chunks.last().copied().unwrap_or(0);
        let first = self.files.partition_point(|(start, _)| *start <= range.start).saturating_sub(1);
        let mut pieces = Vec::new();
        for (place, (start, entry)) in self.files.iter().enumerate().skip(first) {
            let end = self.files.get(place + 1).map_or(end_of_all, |(next, _)| *next);
            let (from, to) = (range.start.max(*start), range.end.min(end));
            if *start >= range.end {
                break;
            }
            if from < to {
                pieces.push(Piece { entry: *entry, offset: from - start, length: (to - from) as usize });
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use muster_protocol::{UploadChunk, UploadEntry};

    use super::*;

    #[test]
    fn chunks_and_files_overlap_as_they_like() {
        let file = |size| UploadEntry { size, ..UploadEntry::default() };
        let chunk = |size| UploadChunk { size, ..UploadChunk::default() };
        let manifest = UploadManifest {
            entries: vec![file(3), file(0), file(4), file(10)],
            chunks: vec![chunk(5), chunk(1), chunk(11)],
        };
        let pieces = Pieces::of(&manifest);
        let piece = |entry, offset, length| Piece { entry, offset, length };
        assert_eq!(pieces.of_chunk(0), [piece(0, 0, 3), piece(2, 0, 2)]);
        assert_eq!(pieces.of_chunk(1), [piece(2, 2, 1)]);
        assert_eq!(pieces.of_chunk(2), [piece(2, 3, 1), piece(3, 0, 10)]);
        assert_eq!(pieces.of_chunk(3), []);
        assert_eq!(Pieces::of(&UploadManifest::default()).of_chunk(0), []);
    }
}
