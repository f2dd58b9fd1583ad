//! The files of one run put together into one piece of content, and what lies where in it.
//!
//! Guarantees: the content is that of the files at one look, byte for byte, or the attempt to put it together fails;
//! nothing but a piece of it is held in memory.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt as _};
use muster_blob::{BoxError, Content};
use muster_protocol::LogStream;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;

use super::files::Stream;
use super::layout::{Extent, Layout};
use super::names::{Entry, Run};
use super::times::PAIR;

/// Read at a time.
const PIECE: usize = 256 * 1024;
pub(super) const STREAMS: [LogStream; 2] = [LogStream::Stdout, LogStream::Stderr];

pub(super) fn index(stream: LogStream) -> usize {
    usize::from(stream == LogStream::Stderr)
}

/// One kept piece of a stream: its bytes, and behind them the list of their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) start: u64,
    pub(super) length: u64,
    /// Bytes of the list.
    pub(super) times: u64,
}

/// One stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PackedStream {
    /// Everything before this offset was removed.
    #[serde(default)]
    gone: u64,
    parts: Vec<Part>,
}

/// What lies where: the parts of standard output, then those of standard error, each with its times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pack {
    streams: [PackedStream; 2],
}

/// Where a part lies in the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bytes: u64,
    pub(super) times: u64,
    /// Pairs in the list.
    pub(super) pairs: u64,
}

impl Pack {
    pub(super) fn layout(&self, stream: LogStream) -> Layout {
        let PackedStream { gone, parts } = &self.streams[index(stream)];
        let extent = |part: &Part| Extent { start: part.start, length: part.length };
        Layout::new(parts.iter().map(extent).collect(), *gone)
    }

    /// How much the process wrote to each stream.
    pub(super) fn written(&self) -> [u64; 2] {
        STREAMS.map(|stream| self.layout(stream).end())
    }

    fn parts(&self) -> impl Iterator<Item = (LogStream, Part)> {
        let of =
            |stream: LogStream| self.streams[index(stream)].parts.iter().map(move |part| (stream, *part));
        STREAMS.into_iter().flat_map(of)
    }

    /// Bytes of output.
    pub(super) fn kept(&self) -> u64 {
        self.parts().map(|(_, part)| part.length).sum()
    }

    /// Bytes of the content.
    pub(super) fn size(&self) -> u64 {
        self.parts().map(|(_, part)| part.length + part.times).sum()
    }

    /// Where the part lies that begins at `start`.
    pub(super) fn place(&self, stream: LogStream, start: u64) -> Option<Place> {
        let mut at = 0;
        for (of, part) in self.parts() {
            if of == stream && part.start == start {
                return Some(Place { bytes: at, times: at + part.length, pairs: part.times / PAIR });
            }
            at += part.length + part.times;
        }
        None
    }
}

/// One run as it lies in files.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    pub(crate) run: Run,
    pub(super) pack: Pack,
    /// When it grew last.
    pub(crate) grown_at: SystemTime,
    /// The files of the content, with as much as counts of each.
    sources: Vec<(PathBuf, u64)>,
}

impl Packed {
    /// Looks at the files of a run.
    pub(super) fn look(directory: &Path, run: Run, entries: &[Entry]) -> io::Result<Self> {
        let mut packed =
            Self { run, pack: Pack::default(), grown_at: SystemTime::UNIX_EPOCH, sources: Vec::new() };
        for kind in STREAMS {
            let stream = Stream { directory: directory.to_owned(), run, kind };
            let layout = stream.layout(entries)?;
            let mut found = PackedStream { gone: layout.gone(), parts: Vec::new() };
            for extent in layout.extents() {
                let (data, list) = (stream.data(extent.start), stream.times(extent.start));
                let times = length(&list)? / PAIR * PAIR;
                packed.grown_at = packed.grown_at.max(fs::metadata(&data)?.modified()?);
                packed.sources.push((data, extent.length));
                packed.sources.push((list, times));
                found.parts.push(Part { start: extent.start, length: extent.length, times });
            }
            packed.pack.streams[index(kind)] = found;
        }
        Ok(packed)
    }

    pub(crate) fn facts(&self) -> String {
        // Numbers only: nothing of it cannot be written.
        serde_json::to_string(&self.pack).unwrap_or_default()
    }

    pub(crate) fn written(&self) -> [u64; 2] {
        self.pack.written()
    }

    pub(crate) fn length(&self) -> u64 {
        self.written().iter().sum()
    }

    pub(crate) fn kept(&self) -> u64 {
        self.pack.kept()
    }

    pub(crate) fn size(&self) -> u64 {
        self.pack.size()
    }

    /// All of the content. For what is small.
    pub(crate) fn collect(&self) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        for (path, length) in self.sources.iter().filter(|(_, length)| *length > 0) {
            let before = all.len() as u64;
            fs::File::open(path)?.take(*length).read_to_end(&mut all)?;
            if all.len() as u64 - before != *length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(all)
    }

    /// All of the content, piece by piece.
    pub(crate) fn content(&self) -> Content<'static> {
        let sources: Vec<(PathBuf, u64)> =
            self.sources.iter().filter(|(_, size)| *size > 0).cloned().collect();
        let pieces = |(path, length): (PathBuf, u64)| {
            stream::try_unfold((None, length), move |(file, left)| {
                let path = path.clone();
                async move {
                    if left == 0 {
                        return Ok(None);
                    }
                    let mut file = match file {
                        Some(file) => file,
                        None => tokio::fs::File::open(&path).await?,
                    };
                    let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
                    let piece = next(&mut file, most).await?;
                    let left = left - piece.len() as u64;
                    Ok::<_, BoxError>(Some((piece, (Some(file), left))))
                }
            })
        };
        stream::iter(sources).flat_map(move |source| pieces(source).boxed()).boxed()
    }
}

async fn next(file: &mut tokio::fs::File, most: usize) -> io::Result<Bytes> {
    let mut piece = BytesMut::with_capacity(most);
    match file.take(most as u64).read_buf(&mut piece).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(piece.freeze()),
    }
}

fn length(path: &Path) -> io::Result<u64> {
    match fs::metadata(path) {
        Ok(file) => Ok(file.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}
