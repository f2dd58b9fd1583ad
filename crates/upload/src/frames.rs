//! Chunks on their way, many in one body: each as its length (4 bytes, big-endian), its SHA-256 (32 bytes) and its bytes.
//!
//! Guarantees: a chunk that is given out has the digest that it was sent with; what is held is less than one chunk and one
//! piece of the body.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::cutter::LONGEST_CHUNK;
use crate::digest::Digest;
use crate::error::UploadError;

/// Bytes before those of a chunk.
pub const FRAME_HEAD: usize = 4 + Digest::BYTES;

/// Appends a chunk to a body.
pub fn encode_frame(digest: &Digest, chunk: &[u8], body: &mut Vec<u8>) {
    body.extend_from_slice(&(chunk.len() as u32).to_be_bytes());
    body.extend_from_slice(digest.bytes());
    body.extend_from_slice(chunk);
}

/// Takes a body in and gives the chunks out.
#[derive(Debug, Default)]
pub struct FrameReader {
    held: BytesMut,
}

impl FrameReader {
    pub fn push(&mut self, piece: &[u8]) {
        self.held.extend_from_slice(piece);
    }

    /// The next chunk that is whole.
    pub fn next_chunk(&mut self) -> Result<Option<(Digest, Bytes)>, UploadError> {
        let Some((length, rest)) = self.held.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length == 0 || length > LONGEST_CHUNK {
            return Err(UploadError::Frame { reason: "a chunk has no bytes, or more than 2 MiB" });
        }
        let Some((digest, rest)) = rest.split_first_chunk::<{ Digest::BYTES }>() else { return Ok(None) };
        if rest.len() < length {
            return Ok(None);
        }
        let digest = Digest::from_bytes(*digest);
        self.held.advance(FRAME_HEAD);
        let chunk = self.held.split_to(length).freeze();
        if Digest::of(&chunk) != digest {
            return Err(UploadError::Frame { reason: "the bytes of a chunk do not have its SHA-256" });
        }
        Ok(Some((digest, chunk)))
    }

    /// Complains about a chunk of which the end did not come.
    pub fn finish(&self) -> Result<(), UploadError> {
        if self.held.is_empty() {
            return Ok(());
        }
        Err(UploadError::Frame { reason: "the last chunk is cut off" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_arrive_as_they_were_sent_whatever_the_pieces() {
        let chunks = [&b"one"[..], b"two two", &[0; 10_000]];
        let mut body = Vec::new();
        for chunk in chunks {
            encode_frame(&Digest::of(chunk), chunk, &mut body);
        }
        for step in [1, 7, 4_096, body.len()] {
            let (mut reader, mut found) = (FrameReader::default(), Vec::new());
            for piece in body.chunks(step) {
                reader.push(piece);
                while let Some((digest, chunk)) = reader.next_chunk().unwrap() {
                    assert_eq!(digest, Digest::of(&chunk));
                    found.push(chunk);
                }
            }
            assert_eq!(found, chunks);
            reader.finish().unwrap();
        }
    }

    #[test]
    fn damage_is_noticed() {
        let mut body = Vec::new();
        encode_frame(&Digest::of(b"abc"), b"abc", &mut body);
        let mut cut = FrameReader::default();
        cut.push(&body[..body.len() - 1]);
        assert!(cut.next_chunk().unwrap().is_none() && cut.finish().is_err());
        *body.last_mut().unwrap() ^= 1;
        let mut changed = FrameReader::default();
        changed.push(&body);
        assert!(changed.next_chunk().is_err());
        let mut long = FrameReader::default();
        long.push(&u32::MAX.to_be_bytes());
        assert!(long.next_chunk().is_err());
    }
}
