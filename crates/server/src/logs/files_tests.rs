//! Appending: repeats, gaps, limits, removal.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use muster_domain::{JobId, Lease};
use muster_protocol::{LogAppended, LogStream};

use super::*;

pub(super) fn job() -> JobId {
    JobId::from_random([3; 16])
}

pub(super) fn chunk(offset: u64, bytes: &[u8]) -> Chunk {
    Chunk {
        job: job(),
        lease: Lease(1),
        attempt: 1,
        stream: LogStream::Stdout,
        offset,
        bytes: Bytes::copy_from_slice(bytes),
        skip: false,
        ticks: vec![Tick { end: offset + bytes.len() as u64, micros: 1_000 }],
    }
}

pub(super) fn store(limit: u64) -> (tempfile::TempDir, Arc<LogStore>) {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(LogStore::open(directory.path(), limit, 10).unwrap());
    (directory, store)
}

/// The standard output of the newest run as a reader gets it, gaps as `<bytes>`.
fn content(store: &LogStore) -> String {
    let mut reader = Reader::new(Selection::of(job(), vec![LogStream::Stdout]));
    let mut text = String::new();
    loop {
        let items = reader.read(store, &Moved::default()).unwrap();
        if items.is_empty() {
            return text;
        }
        for item in items {
            match item.content {
                batch::Content::Bytes(bytes) => text.push_str(&String::from_utf8_lossy(&bytes)),
                batch::Content::Missing { bytes, .. } => write!(text, "<{bytes}>").unwrap(),
            }
        }
    }
}

fn kept(length: u64) -> Appended {
    Appended::Kept(LogAppended { length, followed: None })
}

#[tokio::test]
async fn repeated_and_overlapping_pieces_are_kept_once() {
    let (_directory, store) = store(1000);
    assert_eq!(store.append(chunk(0, b"hello")).await.unwrap(), kept(5));
    assert_eq!(store.append(chunk(0, b"hello")).await.unwrap(), kept(5));
    assert_eq!(store.append(chunk(3, b"lo wor")).await.unwrap(), kept(9));
    assert_eq!(store.append(chunk(0, b"he")).await.unwrap(), kept(9));
    assert_eq!(content(&store), "hello wor");
}

#[tokio::test]
async fn a_gap_is_answered_with_what_is_there_unless_it_is_meant() {
    let (_directory, store) = store(1000);
    store.append(chunk(0, b"abc")).await.unwrap();
    let answer = store.append(chunk(5, b"fgh")).await.unwrap();
    assert_eq!(answer, Appended::Misplaced(LogAppended { length: 3, followed: None }));
    assert_eq!(content(&store), "abc");
    let skipping = Chunk { skip: true, ..chunk(5, b"fgh") };
    assert_eq!(store.append(skipping.clone()).await.unwrap(), kept(8));
    assert_eq!(store.append(skipping).await.unwrap(), kept(8), "once");
    assert_eq!(store.append(chunk(8, b"i")).await.unwrap(), kept(9));
    assert_eq!(content(&store), "abc<2>fghi");
}

#[tokio::test]
async fn beyond_the_limit_head_and_tail_are_kept() {
    let (directory, store) = store(80);
    let text: Vec<u8> = (0..200).map(|index| b'a' + index % 26).collect();
    for (index, piece) in text.chunks(7).enumerate() {
        store.append(chunk(index as u64 * 7, piece)).await.unwrap();
    }
    let read = content(&store);
    let (head, rest) = read.split_once('<').unwrap();
    let (missing, tail) = rest.split_once('>').unwrap();
    assert_eq!(head.as_bytes(), &text[..40]);
    assert!((30..=40).contains(&tail.len()), "{tail}");
    assert!(text.ends_with(tail.as_bytes()));
    assert_eq!(head.len() + missing.parse::<usize>().unwrap() + tail.len(), text.len());
    let kept: u64 = walk(directory.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(kept <= 80, "{kept}");
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        } else if !entry.file_name().to_string_lossy().ends_with(".times") {
            found.push(entry.path());
        }
    }
    found
}

#[tokio::test]
async fn one_upload_that_is_longer_than_everything_leaves_few_files() {
    let (directory, store) = store(6);
    let text: Vec<u8> = (0..5000).map(|index| b'a' + (index % 26) as u8).collect();
    assert_eq!(store.append(chunk(0, &text)).await.unwrap(), kept(5000));
    let tail = String::from_utf8(text[4997..].to_vec()).unwrap();
    assert_eq!(content(&store), format!("abc<4994>{tail}"));
    assert!(walk(directory.path()).len() <= 5);
}

#[tokio::test]
async fn runs_are_told_apart_by_lease_and_removed_together() {
    let (_directory, store) = store(1000);
    store.append(chunk(0, b"first")).await.unwrap();
    store.append(Chunk { lease: Lease(3), ..chunk(0, b"again") }).await.unwrap();
    let leases = |store: &LogStore| {
        files::runs(&store.entries(job()).unwrap()).iter().map(|run| run.lease).collect::<Vec<_>>()
    };
    assert_eq!(leases(&store), [1, 3]);
    assert_eq!(content(&store), "again");
    let hour = std::time::Duration::from_secs(3600);
    assert_eq!(store.old_jobs(hour, 10).await.unwrap(), []);
    assert_eq!(store.old_jobs(std::time::Duration::ZERO, 10).await.unwrap(), [job()]);
    store.remove(job()).await.unwrap();
    store.remove(job()).await.unwrap();
    assert!(leases(&store).is_empty());
}

#[tokio::test]
async fn what_expires_leaves_its_length() {
    let (_directory, store) = store(1000);
    store.append(chunk(0, b"hello")).await.unwrap();
    let held = store.shard(u16::from(job().as_uuid().as_bytes()[0])).await.unwrap();
    assert_eq!(held.len(), 1);
    assert!(held[0].bytes >= 5);
    assert_eq!(store.expire(job()).await.unwrap(), 5);
    assert_eq!(content(&store), "<5>");
    assert_eq!(store.shard(u16::from(job().as_uuid().as_bytes()[0])).await.unwrap(), []);
    assert_eq!(store.append(chunk(5, b" late")).await.unwrap(), kept(10));
    assert_eq!(content(&store), "<5> late");
    assert_eq!(store.expire(job()).await.unwrap(), 5);
    assert_eq!(content(&store), "<10>");
}

#[tokio::test]
async fn a_deleted_job_takes_its_output_with_it() {
    let (_directory, store) = store(1000);
    store.append(chunk(0, b"hello")).await.unwrap();
    crate::batcher::EndListener::deleted(&*store, job());
    let gone = async {
        while !store.entries(job()).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), gone).await.unwrap();
}
