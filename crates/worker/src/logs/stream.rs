//! One stream of one attempt: a file that grows, and how much of it the scheduler has.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use muster_client::{Client, ClientError, LogAppend, LogChunk};
use muster_protocol::LogStream;
use nix::fcntl::{FallocateFlags, fallocate};

use crate::keeper::Key;

/// The most that one request carries.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;
/// Holes begin at multiples of this, so that the file system can free whole blocks.
const HOLE_ALIGN: u64 = 64 * 1024;
/// Freeing less than this is not worth the call.
const HOLE_WORTH: u64 = 1024 * 1024;

/// How far one file has been sent.
#[derive(Debug)]
pub(super) struct StreamTail {
    pub(super) path: String,
    stream: LogStream,
    offset: u64,
    /// The scheduler wants no more of it.
    closed: bool,
    freed_to: u64,
    file: Option<File>,
}

/// What one step did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There may be more to send.
    Sent,
    /// Everything that was written is sent, or nothing more is wanted.
    Level,
}

impl StreamTail {
    pub(super) fn new(stream: LogStream, path: String) -> Self {
        let closed = path.is_empty();
        Self { path, stream, offset: 0, closed, freed_to: 0, file: None }
    }

    /// Sends the next piece, if there is one.
    pub(super) async fn step(
        &mut self,
        client: &Client,
        key: &Key,
        attempt: u32,
        limit: u64,
    ) -> Result<Step, ClientError> {
        let Some((length, bytes)) = self.read(limit) else { return Ok(Step::Level) };
        if bytes.is_empty() {
            return Ok(Step::Level);
        }
        let sent = bytes.len() as u64;
        let chunk = LogChunk {
            job_id: key.job_id.to_string(),
            lease: key.lease,
            attempt,
            stream: self.stream,
            offset: self.offset,
            bytes,
        };
        match client.append_log(chunk).await {
            Ok(LogAppend::Kept(kept)) => {
                self.offset = kept.length.max(self.offset + sent);
                self.closed = kept.full;
            }
            Ok(LogAppend::Misplaced(kept)) => {
                // A chunk that is refused where it was asked for would be asked for for ever.
                self.closed = kept.full || kept.length == self.offset;
                self.offset = kept.length;
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                tracing::warn!(job_id = %key.job_id, error = %error, "the scheduler takes no more output of this attempt");
                self.closed = true;
            }
        }
        Ok(if self.offset < length && !self.closed { Step::Sent } else { Step::Level })
    }

    /// The length of the file and what is at the offset; `None` when nothing more is to be sent.
    fn read(&mut self, limit: u64) -> Option<(u64, Bytes)> {
        let file = self.open()?;
        let length = file.metadata().ok()?.len();
        self.free(length, limit);
        if self.closed || self.offset >= length {
            return None;
        }
        // The file was written moments ago; its pages are in memory, and a thread would cost more than the copy.
        let wanted = usize::try_from(length - self.offset).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let mut buffer = vec![0; wanted];
        let read = self.file.as_ref()?.read_at(&mut buffer, self.offset).ok()?;
        buffer.truncate(read);
        Some((length, buffer.into()))
    }

    fn open(&mut self) -> Option<&File> {
        if self.file.is_none() {
            self.file = File::options().read(true).write(true).open(&self.path).ok();
        }
        self.file.as_ref()
    }

    /// Gives disk space back: everything of a closed stream, and of an open one what the limit cuts off.
    fn free(&mut self, length: u64, limit: u64) {
        // One piece beyond the limit stays, so that the scheduler sees that there was more.
        let keep = if self.closed { 0 } else { limit.saturating_add(CHUNK_BYTES as u64 + HOLE_ALIGN) };
        let from = keep.next_multiple_of(HOLE_ALIGN).max(self.freed_to);
        if limit == 0 || length < from.saturating_add(HOLE_WORTH) {
            return;
        }
        let Some(file) = &self.file else { return };
        match punch_hole(file, from, length) {
            Ok(()) => self.freed_to = length / HOLE_ALIGN * HOLE_ALIGN,
            Err(_) if self.closed => {
                // The process appends, so it goes on at the new end of the file.
                let _ = file.set_len(0);
            }
            Err(_) => {}
        }
    }
}

fn punch_hole(file: &File, from: u64, to: u64) -> io::Result<()> {
    let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let offset = i64::try_from(from).map_err(io::Error::other)?;
    let length = i64::try_from(to - from).map_err(io::Error::other)?;
    Ok(fallocate(file, flags, offset, length)?)
}
