//! Bytes of moved output, from wherever they lie.
//!
//! Guarantee: of all objects together no more than some blocks are in memory; what cannot be had is an error and never an
//! early end.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use muster_blob::{BlobKey, BlobStore, ByteRange};
use tokio::runtime::Handle;

/// Read from the blob store at a time.
const BLOCK: u64 = 1024 * 1024;
/// Blocks that are remembered.
const MOST: usize = 32;
/// How long one block may take.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Block {
    key: Arc<str>,
    number: u64,
    bytes: Bytes,
}

/// Objects, to read from on threads that may wait.
#[derive(Debug)]
pub(crate) struct Objects {
    blobs: BlobStore,
    runtime: Handle,
    blocks: Mutex<VecDeque<Block>>,
}

impl Objects {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(blobs: BlobStore) -> Self {
        Self { blobs, runtime: Handle::current(), blocks: Mutex::default() }
    }

    /// Fills the buffer from a place in an object of this size.
    fn read(&self, key: &Arc<str>, size: u64, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            let position = at + filled as u64;
            let block = self.block(key, size, position / BLOCK)?;
            let from = usize::try_from(position % BLOCK).unwrap_or(usize::MAX);
            let there = block.get(from..).unwrap_or_default();
            let count = there.len().min(buffer.len() - filled);
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer[filled..filled + count].copy_from_slice(&there[..count]);
            filled += count;
        }
        Ok(())
    }

    fn block(&self, key: &Arc<str>, size: u64, number: u64) -> io::Result<Bytes> {
        let known = |block: &&Block| block.number == number && block.key == *key;
        if let Some(block) = self.blocks().iter().find(known) {
            return Ok(block.bytes.clone());
        }
        let range = ByteRange { start: number * BLOCK, end: Some(((number + 1) * BLOCK).min(size)) };
        let key_of_object = BlobKey::new(key.as_ref()).map_err(io::Error::other)?;
        let fetched = self.runtime.block_on(async {
            let read = async { self.blobs.get(&key_of_object, Some(range)).await?.collect().await };
            tokio::time::timeout(PATIENCE, read).await
        });
        let bytes = fetched.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let bytes = Bytes::from(bytes.map_err(io::Error::other)?);
        let mut blocks = self.blocks();
        if blocks.len() >= MOST {
            blocks.pop_front();
        }
        blocks.push_back(Block { key: Arc::clone(key), number, bytes: bytes.clone() });
        Ok(bytes)
    }

    fn blocks(&self) -> MutexGuard<'_, VecDeque<Block>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The content of one moved run.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Inline(Bytes),
    Object {
        objects: Arc<Objects>,
        key: Arc<str>,
        size: u64,
    },
    /// It was removed.
    Gone,
}

impl Body {
    /// Fills the buffer from a place in the content.
    pub(super) fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Inline(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX);
                let there = bytes.get(from..).and_then(|rest| rest.get(..buffer.len()));
                buffer.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Self::Object { objects, key, size } => objects.read(key, *size, at, buffer),
            Self::Gone => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
