//! Reading files that are to be kept: piece by piece while they are sent, and beforehand for their SHA-256.
//!
//! Guarantee: no more than a few pieces of a file are in memory; a file that changes meanwhile is told.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use muster_client::{BoxError, Pieces};
use sha2::{Digest as _, Sha256};
use tokio::sync::{mpsc, oneshot};

use super::artifact_scan::{self, Found, Look};

/// Bytes that are read at a time, and how many such pieces wait to be sent.
const PIECE: usize = 256 * 1024;
const AHEAD: usize = 4;

/// What became of reading a file.
#[derive(Debug)]
pub(super) enum Read {
    /// Its SHA-256.
    Whole(String),
    Changed,
    Broken(String),
    /// Nobody wanted the rest.
    Left,
}

/// What a file was when it was read for its digests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digests {
    pub(super) look: Look,
    pub(super) sha256: String,
    /// Bytes of a part and the digests of all; none of what is sent whole.
    pub(super) part_size: Option<u64>,
    pub(super) parts: Vec<String>,
}

/// Reads a file away from the loop, a few pieces ahead of who sends them.
pub(super) fn read(mut file: File, look: Look) -> (Pieces, oneshot::Receiver<Read>) {
    let (pieces, taken) = mpsc::channel::<Result<Bytes, BoxError>>(AHEAD);
    let (done, told) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let mut hash = Sha256::new();
        let mut left = look.size;
        let outcome = loop {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
            let mut piece = vec![0; most];
            match file.read(&mut piece) {
                Ok(0) => break finish(&file, look, left, hash),
                Ok(length) => {
                    piece.truncate(length);
                    hash.update(&piece);
                    left -= length as u64;
                    if pieces.blocking_send(Ok(piece.into())).is_err() {
                        break Read::Left;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Read::Broken(format!("it cannot be read: {error}")),
            }
        };
        if !matches!(outcome, Read::Whole(_)) {
            let _ = pieces.blocking_send(Err("the file could not be read as it was".into()));
        }
        let _ = done.send(outcome);
    });
    (stream(taken), told)
}

/// Bytes of a file from an offset on, read in the same way. The receiver knows what they should be.
pub(super) fn range(file: Arc<File>, from: u64, length: u64) -> Pieces {
    let (pieces, taken) = mpsc::channel::<Result<Bytes, BoxError>>(AHEAD);
    tokio::task::spawn_blocking(move || {
        let (mut at, end) = (from, from + length);
        while at < end {
            let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE);
            let mut piece = vec![0; most];
            let read = match file.read_at(&mut piece, at) {
                Ok(0) => Err("the file became shorter".into()),
                Ok(length) => {
                    piece.truncate(length);
                    at += length as u64;
                    Ok(piece.into())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error.into()),
            };
            let broken = read.is_err();
            if pieces.blocking_send(read).is_err() || broken {
                return;
            }
        }
    });
    stream(taken)
}

fn stream(taken: mpsc::Receiver<Result<Bytes, BoxError>>) -> Pieces {
    futures::stream::unfold(taken, |mut taken| async move { Some((taken.recv().await?, taken)) }).boxed()
}

/// Reads a file for its digests. The parts are read beside the whole, since both take their time.
pub(super) async fn digests(found: Found, part_size: impl Fn(u64) -> Option<u64>) -> Result<Digests, Read> {
    let broken = |error: &dyn std::fmt::Display| Read::Broken(format!("it cannot be read: {error}"));
    let opened = tokio::task::spawn_blocking(move || artifact_scan::open(&found)).await;
    let (file, look) = opened.map_err(|error| broken(&error))?.map_err(|error| broken(&error))?;
    let (file, part) = (Arc::new(file), part_size(look.size));
    let again = Arc::clone(&file);
    let whole = tokio::task::spawn_blocking(move || hash(&again, 0, look.size));
    let beside = Arc::clone(&file);
    let parts = tokio::task::spawn_blocking(move || parts(&beside, look.size, part));
    let parts = parts.await.map_err(|error| broken(&error))?.map_err(|error| broken(&error))?;
    let sha256 = whole.await.map_err(|error| broken(&error))?.map_err(|error| broken(&error))?;
    if file.metadata().is_ok_and(|found| Look::at(&found) != look) {
        return Err(Read::Changed);
    }
    match sha256 {
        Some(sha256) => Ok(Digests { look, sha256, part_size: part, parts }),
        None => Err(Read::Changed),
    }
}

fn parts(file: &File, size: u64, part: Option<u64>) -> io::Result<Vec<String>> {
    let Some(part) = part.filter(|part| *part > 0) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for from in (0..size).step_by(usize::try_from(part).unwrap_or(usize::MAX)) {
        found.extend(hash(file, from, part.min(size - from))?);
    }
    Ok(found)
}

/// The SHA-256 of a piece of a file; `None` when it ends before.
fn hash(file: &File, from: u64, length: u64) -> io::Result<Option<String>> {
    let (mut at, end) = (from, from + length);
    let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
    while at < end {
        let most = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE);
        match file.read_at(&mut piece[..most], at) {
            Ok(0) => return Ok(None),
            Ok(length) => {
                hash.update(&piece[..length]);
                at += length as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(hexadecimal(hash)))
}

fn finish(file: &File, look: Look, left: u64, hash: Sha256) -> Read {
    let after = file.metadata().map(|found| Look::at(&found));
    if left > 0 || after.is_ok_and(|after| after != look) {
        return Read::Changed;
    }
    Read::Whole(hexadecimal(hash))
}

fn hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_range_is_what_its_digest_says_and_a_file_that_shrinks_is_told() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let content: Vec<u8> = (0..700_000_u32).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let found = digests(Found { name: String::new(), path: path.clone(), size: 0, user: None }, |_| {
            Some(300_000)
        })
        .await
        .unwrap();
        assert_eq!((found.parts.len(), found.look.size), (3, 700_000));
        assert_eq!(found.sha256, hexadecimal(Sha256::new_with_prefix(&content)));
        assert_eq!(found.parts[2], hexadecimal(Sha256::new_with_prefix(&content[600_000..])));
        let file = Arc::new(File::open(&path).unwrap());
        let read: Vec<_> = range(Arc::clone(&file), 299_999, 2).collect().await;
        assert_eq!(read[0].as_ref().unwrap(), &content[299_999..300_001]);
        std::fs::write(&path, "short").unwrap();
        let read: Vec<_> = range(file, 0, 10).collect().await;
        assert!(read.last().unwrap().is_err());
    }
}
