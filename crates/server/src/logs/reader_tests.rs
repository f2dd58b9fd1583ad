//! Readers: order, beginnings, cursors, later runs.

use std::sync::Arc;

use muster_blob::{BlobKey, BlobSettings, BlobStore, Expected};
use muster_domain::Lease;
use muster_protocol::LogStream;
use muster_store::{MovedOutput, OutputContent};

use super::batch::{Content, Item};
use super::files_tests::{chunk, job, store};
use super::*;

/// Writes one piece at a time of the clock.
async fn write(store: &Arc<LogStore>, lease: u64, stream: LogStream, text: &str, micros: i64) {
    let entries = store.entries(job()).unwrap();
    let run = names::Run { lease, attempt: lease as u32 };
    let offset = store.layout(job(), run, stream, &entries).unwrap().end();
    let ticks = vec![Tick { end: offset + text.len() as u64, micros }];
    let piece =
        Chunk { lease: Lease(lease), attempt: lease as u32, stream, ticks, ..chunk(offset, text.as_bytes()) };
    assert!(matches!(store.append(piece).await.unwrap(), Appended::Kept(_)));
}

fn both() -> Vec<LogStream> {
    vec![LogStream::Stdout, LogStream::Stderr]
}

fn text(items: &[Item]) -> String {
    let show = |item: &Item| match &item.content {
        Content::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Content::Missing { bytes, .. } => format!("<{bytes}>"),
    };
    items.iter().map(show).collect()
}

fn rest(reader: &mut Reader, store: &LogStore) -> String {
    let mut all = String::new();
    loop {
        let items = reader.read(store, &Moved::default()).unwrap();
        if items.is_empty() {
            return all;
        }
        all += &text(&items);
    }
}

async fn interleaved() -> (tempfile::TempDir, Arc<LogStore>) {
    let (directory, store) = store(100_000);
    for number in 0..5 {
        write(&store, 1, LogStream::Stdout, &format!("o{number}\n"), number * 20).await;
        write(&store, 1, LogStream::Stderr, &format!("e{number}\n"), number * 20 + 10).await;
    }
    (directory, store)
}

#[tokio::test]
async fn both_streams_come_in_the_order_of_their_times() {
    let (_directory, store) = interleaved().await;
    let by_time = Selection { order: Order::ByTime, ..Selection::of(job(), both()) };
    assert_eq!(rest(&mut Reader::new(by_time), &store), "o0\ne0\no1\ne1\no2\ne2\no3\ne3\no4\ne4\n");
    let in_turn = Selection::of(job(), both());
    assert_eq!(rest(&mut Reader::new(in_turn), &store), "o0\no1\no2\no3\no4\ne0\ne1\ne2\ne3\ne4\n");
    let timed = Selection { order: Order::Timed, ..Selection::of(job(), vec![LogStream::Stderr]) };
    let items = Reader::new(timed).read(&store, &Moved::default()).unwrap();
    assert_eq!(items.iter().map(|item| item.at.unwrap()).collect::<Vec<_>>(), [10, 30, 50, 70, 90]);
}

#[tokio::test]
async fn the_last_lines_are_those_of_both_streams() {
    let (_directory, store) = interleaved().await;
    let tail = |lines, streams| {
        let start = Start::Tail(lines);
        let selection = Selection { order: Order::ByTime, start, ..Selection::of(job(), streams) };
        rest(&mut Reader::new(selection), &store)
    };
    assert_eq!(tail(3, both()), "e3\no4\ne4\n");
    assert_eq!(tail(2, vec![LogStream::Stdout]), "o3\no4\n");
    assert_eq!(tail(0, both()), "");
    assert_eq!(tail(100, vec![LogStream::Stderr]), "e0\ne1\ne2\ne3\ne4\n");
    write(&store, 1, LogStream::Stdout, "unfinished", 1000).await;
    assert_eq!(tail(1, both()), "unfinished");
    assert_eq!(tail(2, vec![LogStream::Stdout]), "o4\nunfinished");
}

#[tokio::test]
async fn the_last_lines_of_a_long_stream_stop_at_a_gap() {
    let (_directory, store) = store(80);
    let lines = (100..150).map(|number| number.to_string()).collect::<Vec<_>>().join("\n") + "\n";
    write(&store, 1, LogStream::Stdout, &lines, 5).await;
    let tail = |lines| {
        let selection =
            Selection { start: Start::Tail(lines), ..Selection::of(job(), vec![LogStream::Stdout]) };
        rest(&mut Reader::new(selection), &store)
    };
    assert_eq!(tail(3), "147\n148\n149\n");
    assert_eq!(tail(1000).len(), 40, "what is kept of the end");
}

#[tokio::test]
async fn since_goes_by_the_clock_and_over_runs() {
    let (_directory, store) = interleaved().await;
    write(&store, 2, LogStream::Stdout, "second\n", 200).await;
    let since = |micros| {
        let start = Start::Since(micros);
        let base = Selection::of(job(), both());
        let selection = Selection { order: Order::ByTime, begin: Begin::Oldest, onward: true, start, ..base };
        rest(&mut Reader::new(selection), &store)
    };
    assert_eq!(since(70), "e3\no4\ne4\nsecond\n");
    assert_eq!(since(150), "second\n");
    assert_eq!(since(201), "");
}

#[tokio::test]
async fn a_cursor_continues_exactly_there_and_late_output_is_not_lost() {
    let (_directory, store) = store(100_000);
    let selection = Selection {
        order: Order::ByTime,
        begin: Begin::Oldest,
        onward: true,
        ..Selection::of(job(), both())
    };
    let mut reader = Reader::new(selection.clone());
    assert_eq!(rest(&mut reader, &store), "");
    let start = reader.cursor().to_string();
    assert_eq!(start, "start");
    write(&store, 1, LogStream::Stdout, "a", 1).await;
    assert_eq!(rest(&mut reader, &store), "a");
    write(&store, 2, LogStream::Stderr, "b", 2).await;
    assert_eq!(rest(&mut reader, &store), "b");
    let cursor: Cursor = reader.cursor().to_string().parse().unwrap();
    write(&store, 1, LogStream::Stdout, "late", 3).await;
    write(&store, 2, LogStream::Stderr, "c", 4).await;
    let mut resumed = Reader::resume(selection.clone(), cursor);
    assert_eq!(rest(&mut resumed, &store), "latec");
    assert_eq!(rest(&mut resumed, &store), "");
    let mut again = Reader::resume(selection, start.parse().unwrap());
    assert_eq!(rest(&mut again, &store), "alatebc");
}

#[test]
fn an_attempt_is_that_of_the_last_time_round() {
    let runs: Vec<names::Run> =
        [(1, 1), (2, 2), (3, 1), (4, 1), (5, 2)].map(|(lease, attempt)| names::Run { lease, attempt }).into();
    let base = Selection { begin: Begin::Oldest, ..Selection::of(job(), both()) };
    let first = |attempt, from_lease| {
        let selection = Selection { attempt, from_lease, ..base.clone() };
        selection.first(&runs).map(|run| run.lease)
    };
    assert_eq!([first(Some(1), 0), first(Some(2), 0), first(Some(3), 0)], [Some(3), Some(5), None]);
    assert_eq!([first(None, 0), first(None, 4), first(None, 6)], [Some(1), Some(4), None]);
}

#[tokio::test]
async fn an_offset_and_an_end_cut_out_a_part() {
    let (_directory, store) = store(100_000);
    write(&store, 1, LogStream::Stdout, "0123456789", 1).await;
    let base = Selection::of(job(), vec![LogStream::Stdout]);
    let selection = Selection { start: Start::Offset(3), until: 7, ..base };
    assert_eq!(rest(&mut Reader::new(selection), &store), "3456");
}

/// What the database would say of a run whose content lies at a place.
fn moved(packed: &Packed, content: OutputContent) -> MovedOutput {
    MovedOutput {
        job: job(),
        lease: Lease(packed.run.lease),
        attempt: packed.run.attempt,
        written: packed.written(),
        kept: packed.kept(),
        grown_at: muster_domain::Timestamp::default(),
        whole: true,
        facts: packed.facts(),
        content,
    }
}

/// Everything that readers of all kinds get.
async fn all_answers(store: &Arc<LogStore>, moved: &Moved) -> Vec<Vec<Item>> {
    let mut selections = vec![Selection::of(job(), both())];
    for order in [Order::ByTime, Order::Timed] {
        for start in [Start::Offset(7), Start::Tail(3), Start::Since(50), Start::Since(i64::MAX)] {
            let begin = Begin::Oldest;
            selections.push(Selection { begin, order, start, onward: true, ..Selection::of(job(), both()) });
        }
    }
    selections.push(Selection {
        until: 20_000,
        attempt: Some(1),
        ..Selection::of(job(), vec![LogStream::Stdout])
    });
    let mut answers = Vec::new();
    for selection in selections {
        let (logs, moved, mut reader) = (Arc::clone(store), moved.clone(), Reader::new(selection));
        let read = move || {
            let mut all = Vec::new();
            loop {
                let items = reader.read(&logs, &moved)?;
                if items.is_empty() {
                    return Ok(all);
                }
                all.extend(items);
            }
        };
        answers.push(store.fetching(job(), read).await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_output_reads_as_its_files_did() {
    let (directory, store) = store(40_000);
    for number in 0..5 {
        write(&store, 1, LogStream::Stdout, &format!("o{number}\n"), number * 20).await;
        write(&store, 1, LogStream::Stderr, &format!("e{number}\n"), number * 20 + 10).await;
    }
    for number in 0..40 {
        write(&store, 1, LogStream::Stdout, &"0123456789\n".repeat(200), 1_000 + number).await;
    }
    write(&store, 2, LogStream::Stderr, "the second run", 5_000).await;
    let before = all_answers(&store, &Moved::default()).await;
    let gap = |item: &Item| matches!(item.content, Content::Missing { .. });
    assert!(before.iter().flatten().any(gap), "the middle was to be dropped");
    let blobs = BlobStore::open(&BlobSettings::Directory(directory.path().join("blobs"))).unwrap();
    let objects = Arc::new(Objects::new(blobs.clone()));
    let packed = store.packed(job()).await.unwrap();
    let (mut inline, mut far) = (Vec::new(), Vec::new());
    for one in &packed {
        let bytes = store.collected(job(), one.clone()).await.unwrap();
        assert_eq!(bytes.len() as u64, one.size());
        let key = BlobKey::new(format!("output/{}", one.run.lease)).unwrap();
        let expected = Expected { size: Some(one.size()), ..Expected::default() };
        blobs.put(&key, one.content(), expected).await.unwrap();
        far.push(moved(one, OutputContent::Blob(key.as_str().to_owned())));
        inline.push(moved(one, OutputContent::Inline(bytes)));
    }
    let [inline, far] = [inline, far].map(|outputs| Moved::new(outputs, &objects).unwrap());
    for hold in [Some(store.hold(job())), None] {
        let held = hold.is_some();
        for one in &packed {
            assert_eq!(
                store.leave(job(), one.clone()).await.unwrap(),
                !held,
                "files stay while they are read"
            );
        }
    }
    assert_eq!(store.entries(job()).unwrap(), []);
    for moved in [&inline, &far] {
        assert_eq!(all_answers(&store, moved).await, before);
        let facts =
            store.facts(Selection::of(job(), both()), LogStream::Stderr, moved).await.unwrap().unwrap();
        assert_eq!((facts.length(), facts.missing()), (14, None));
    }
    assert!(far.is_far() && !inline.is_far());
    // What is longer in files goes before what has moved.
    write(&store, 2, LogStream::Stderr, "the second run in full", 6_000).await;
    let last = Selection { order: Order::ByTime, ..Selection::of(job(), both()) };
    let mut reader = Reader::new(last);
    assert_eq!(text(&reader.read(&store, &inline).unwrap()), "the second run in full");
}
