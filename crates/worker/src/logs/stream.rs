//! One stream of one attempt: a file that grows, and how much of it the scheduler has.
//!
//! What the file no longer holds is a hole in it, so that a later agent sees it too.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use muster_client::{Client, ClientError, LogAppend, LogChunk, LogTick};
use muster_protocol::LogStream;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::unistd::{Whence, lseek};
use tokio::time::Instant;

use super::copy_task::CopyTask;
use super::room::{Audience, HOLE_WORTH, Room};
use super::ticks::Ticks;
use crate::keeper::Key;

/// The most that one request carries.
const CHUNK_BYTES: u64 = 256 * 1024;

/// How far one file has been sent.
#[derive(Debug)]
pub(super) struct StreamTail {
    pub(super) path: String,
    stream: LogStream,
    offset: u64,
    /// The scheduler wants no more of it.
    closed: bool,
    /// Bytes that were free at the last look; freeing goes on when it is worth it.
    freed: u64,
    audience: Audience,
    file: Option<File>,
    /// The copy in a file of the submitter. What is not copied is not sent, so that it is not freed before.
    copy: Option<Box<CopyTask>>,
    pub(super) ticks: Arc<Mutex<Ticks>>,
}

/// What one step did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There may be more to send; this many bytes went, beyond the beginning that is always kept.
    Sent { beyond_head: u64 },
    /// Everything that was written is sent, or nothing more is wanted.
    Level,
    /// Those who read along come first; the scheduler has been asked how far they are.
    Waiting,
}

/// The next bytes to send.
struct Piece {
    offset: u64,
    bytes: Bytes,
    /// The length of the file.
    length: u64,
}

/// Remembers when a file was written to last.
pub(super) fn note(ticks: &Mutex<Ticks>, file: &Metadata) {
    let micros = file.mtime().saturating_mul(1_000_000).saturating_add(file.mtime_nsec() / 1_000);
    ticks.lock().unwrap_or_else(PoisonError::into_inner).note(file.len(), micros);
}

impl StreamTail {
    pub(super) fn new(stream: LogStream, path: String) -> Self {
        let closed = path.is_empty();
        Self {
            path,
            stream,
            offset: 0,
            closed,
            freed: 0,
            audience: Audience::Unknown,
            file: None,
            copy: None,
            ticks: Arc::default(),
        }
    }

    /// With a copy in a file of the submitter.
    pub(super) fn copied(self, copy: Option<CopyTask>) -> Self {
        Self { copy: copy.map(Box::new), ..self }
    }

    /// Copies what was written by now. False where that takes long: the rest of it waits.
    pub(super) async fn copy(&mut self) -> bool {
        match &mut self.copy {
            Some(copy) => copy.advance().await,
            None => true,
        }
    }

    /// Whether somebody reads it along.
    pub(super) fn is_followed(&self) -> bool {
        !self.closed && matches!(self.audience, Audience::At { .. })
    }

    /// Whether somebody may read it along, for all that is known.
    pub(super) fn may_be_followed(&self) -> bool {
        !self.closed && self.audience != Audience::Nobody
    }

    pub(super) fn take_complaint(&mut self) -> Option<String> {
        self.copy.as_mut()?.take_complaint()
    }

    /// Sends words of ours after all that the process wrote.
    pub(super) async fn append(
        &mut self,
        client: &Client,
        key: &Key,
        attempt: u32,
        bytes: Bytes,
    ) -> Result<(), ClientError> {
        let end = self.offset + bytes.len() as u64;
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        let chunk = LogChunk {
            job_id: key.job_id.to_string(),
            lease: key.lease,
            attempt,
            stream: self.stream,
            offset: self.offset,
            bytes,
            skip: false,
            ticks: vec![LogTick { end, micros }],
        };
        client.append_log(chunk).await?;
        self.offset = end;
        Ok(())
    }

    /// Sends the next piece, if there is one.
    pub(super) async fn step(
        &mut self,
        client: &Client,
        key: &Key,
        attempt: u32,
        room: Room,
    ) -> Result<Step, ClientError> {
        let Some(piece) = self.read(room) else { return Ok(Step::Level) };
        let Piece { offset, bytes, length } = piece;
        let end = offset + bytes.len() as u64;
        let waiting = bytes.is_empty();
        let chunk = LogChunk {
            job_id: key.job_id.to_string(),
            lease: key.lease,
            attempt,
            stream: self.stream,
            offset,
            bytes,
            skip: offset > self.offset,
            ticks: self.ticks.lock().unwrap_or_else(PoisonError::into_inner).of(offset, end),
        };
        match client.append_log(chunk).await {
            Ok(LogAppend::Kept(kept)) => {
                self.offset = kept.length.max(end);
                self.audience = self.audience.hear(kept.followed, Instant::now());
            }
            Ok(LogAppend::Misplaced(kept)) => {
                self.audience = self.audience.hear(kept.followed, Instant::now());
                // A chunk that is refused where it was asked for would be asked for for ever.
                self.closed = kept.length == offset;
                self.offset = kept.length;
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                tracing::warn!(job_id = %key.job_id, error = %error, "the scheduler takes no more output of this attempt");
                self.closed = true;
            }
        }
        self.ticks.lock().unwrap_or_else(PoisonError::into_inner).forget(self.offset);
        if self.offset >= length || self.closed {
            return Ok(Step::Level);
        }
        if waiting {
            return Ok(Step::Waiting);
        }
        Ok(Step::Sent { beyond_head: end.saturating_sub(offset.max(room.head())) })
    }

    /// What to send next; `None` when there is nothing, and no bytes while those who read along come first.
    fn read(&mut self, room: Room) -> Option<Piece> {
        let file = self.open()?.metadata().ok()?;
        let length = self.copy.as_ref().map_or(file.len(), |copy| copy.reached().min(file.len()));
        note(&self.ticks, &file);
        self.free(length, room);
        if self.closed || self.offset >= length {
            return None;
        }
        let file = self.file.as_ref()?;
        let (offset, end) = kept_from(file, room.next(self.offset, length, self.audience), length)?;
        let end = end.min(offset + CHUNK_BYTES).min(room.until(offset, length, self.audience));
        if end == offset {
            return Some(Piece { offset, bytes: Bytes::new(), length });
        }
        // The file was written moments ago; its pages are in memory, and a thread would cost more than the copy.
        let mut buffer = vec![0; usize::try_from(end - offset).ok()?];
        let read = file.read_at(&mut buffer, offset).ok().filter(|read| *read > 0)?;
        buffer.truncate(read);
        Some(Piece { offset, bytes: buffer.into(), length })
    }

    fn open(&mut self) -> Option<&File> {
        if self.file.is_none() {
            self.file = File::options().read(true).write(true).open(&self.path).ok();
        }
        self.file.as_ref()
    }

    /// Gives disk space back: everything of a closed stream, and of an open one what nobody needs.
    fn free(&mut self, length: u64, room: Room) {
        let holes =
            if self.closed { vec![(0, length)] } else { room.holes(self.offset, length, self.audience) };
        let free: u64 = holes.iter().map(|(from, to)| to - from).sum();
        let Some(file) = self.file.as_ref().filter(|_| free >= self.freed.saturating_add(HOLE_WORTH)) else {
            return;
        };
        for (from, to) in holes {
            if punch_hole(file, from, to).is_err() && self.closed {
                // The process appends, so it goes on at the new end of the file.
                let _ = file.set_len(0);
            }
        }
        self.freed = free;
    }
}

/// The first bytes at or after `offset` that are not in a hole. Only long files have holes.
fn kept_from(file: &File, offset: u64, length: u64) -> Option<(u64, u64)> {
    if length < HOLE_WORTH {
        return Some((offset, length));
    }
    let seek = |from: u64, whence| {
        lseek(file, i64::try_from(from).ok()?, whence).ok().and_then(|found| u64::try_from(found).ok())
    };
    // A file system that cannot tell has no holes.
    let from = seek(offset, Whence::SeekData).unwrap_or(offset);
    let to = seek(from, Whence::SeekHole).unwrap_or(length).min(length);
    (from < to).then_some((from, to))
}

fn punch_hole(file: &File, from: u64, to: u64) -> io::Result<()> {
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let offset = i64::try_from(from).map_err(io::Error::other)?;
    let length = i64::try_from(to - from).map_err(io::Error::other)?;
    Ok(fallocate(file, flags, offset, length)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const MIB: usize = 1024 * 1024;

    #[test]
    fn a_stream_far_beyond_its_limit_is_sent_as_beginning_and_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut file = File::create(&path).unwrap();
        for number in 0..16_u8 {
            file.write_all(&vec![number + 1; MIB]).unwrap();
        }
        let room = Room { limit: 4 * MIB as u64, patient: true };
        let mut tail = StreamTail::new(LogStream::Stdout, path.to_string_lossy().into_owned());
        tail.audience = Audience::Nobody;
        let mut seen = Vec::new();
        while let Some(piece) = tail.read(room) {
            assert!(piece.bytes.iter().all(|byte| *byte > 0), "no hole is sent as zeros");
            seen.push((piece.offset, piece.offset > tail.offset));
            tail.offset = piece.offset + piece.bytes.len() as u64;
        }
        let skips: Vec<u64> = seen.iter().filter(|(_, skip)| *skip).map(|(offset, _)| *offset).collect();
        assert_eq!(skips, [14 * MIB as u64], "from the end of the beginning to the beginning of the end");
        assert_eq!(seen.len(), 16, "two halves of 2 MiB in chunks");
        let metadata = std::fs::metadata(&path).unwrap();
        assert!(metadata.blocks() * 512 < 6 * MIB as u64, "{}", metadata.blocks());

        // Another agent, which knows nothing, sends only what is still there.
        let mut again = StreamTail::new(LogStream::Stdout, path.to_string_lossy().into_owned());
        again.audience = Audience::Nobody;
        assert!(again.read(room).is_none());
        file.write_all(b"more").unwrap();
        let piece = again.read(room).unwrap();
        assert!(piece.bytes.ends_with(b"more") && piece.bytes.iter().all(|byte| *byte > 0));
    }
}
