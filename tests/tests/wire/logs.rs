//! The output of jobs: ranges, gaps, head and tail, the live stream and its cursors, retention.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use muster_tests::{Http, Response, Scheduler, Settings, StoreKind, for_each_store, id_of, lease_of, until};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;
use serde_json::Value;

const BOUND: Duration = Duration::from_secs(20);

/// A claimed job whose output the test writes.
struct Claimed {
    id: String,
    lease: u64,
    attempt: u32,
}

fn claimed(scheduler: &Scheduler) -> Claimed {
    scheduler.submit("x");
    claim(scheduler, 1)
}

fn claim(scheduler: &Scheduler, attempt: u32) -> Claimed {
    let job = scheduler.claim(None);
    Claimed { id: id_of(&job), lease: lease_of(&job), attempt }
}

impl Claimed {
    fn upload(&self, http: Http, stream: &str, offset: usize, bytes: impl AsRef<[u8]>) -> Response {
        self.upload_with(http, &format!("stream={stream}&offset={offset}"), "", bytes)
    }

    fn upload_with(&self, http: Http, query: &str, times: &str, bytes: impl AsRef<[u8]>) -> Response {
        let Self { id, lease, attempt } = self;
        let target = format!("/jobs/{id}/logs?lease={lease}&attempt={attempt}&{query}");
        http.request("POST", &target).header("x-muster-log-times", times).body(bytes).send()
    }

    fn read(&self, http: Http, query: &str) -> Response {
        http.get(&format!("/jobs/{}/logs?{query}", self.id))
    }

    fn range(&self, http: Http, range: &str) -> Response {
        let target = format!("/jobs/{}/logs?stream=stdout", self.id);
        http.request("GET", &target).header("Range", range).send()
    }

    fn stream(&self, http: Http, query: &str) -> Vec<Message> {
        let response = http.get(&format!("/jobs/{}/logs/stream?{query}", self.id));
        response.expect(200);
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        messages(&response.text())
    }
}

/// One message of the live stream.
#[derive(Debug, Clone, PartialEq)]
struct Message {
    id: String,
    kind: String,
    data: Value,
}

fn messages(text: &str) -> Vec<Message> {
    let field = |block: &str, name: &str| {
        block.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned)).unwrap_or_default()
    };
    text.split("\n\n")
        .filter(|block| block.contains("data: "))
        .map(|block| Message {
            id: field(block, "id: "),
            kind: field(block, "event: "),
            data: serde_json::from_str(&field(block, "data: ")).unwrap(),
        })
        .collect()
}

/// The output in messages, gaps as `<bytes>`.
fn text(messages: &[Message]) -> String {
    let show = |message: &Message| match message.kind.as_str() {
        "output" => message.data["text"].as_str().unwrap().to_owned(),
        "gap" => format!("<{}>", message.data["bytes"]),
        _ => String::new(),
    };
    messages.iter().map(show).collect()
}

/// A connection on which the live stream comes piece by piece.
pub(super) struct Live {
    pub(super) reader: BufReader<TcpStream>,
}

impl Live {
    pub(super) fn open(http: Http, target: &str) -> Self {
        let mut stream = http.connect().unwrap();
        // A system that lends a connection many megabytes would never find this reader slow.
        setsockopt(&stream, RcvBuf, &16_384).unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    /// Reads on until a line with `wanted` has come; returns what was read.
    pub(super) fn until(&mut self, wanted: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(wanted) {
            assert!(self.reader.read_line(&mut seen).unwrap() > 0, "ended without {wanted}: {seen}");
        }
        seen
    }
}

for_each_store! {
    fn uploads_are_kept_once_and_read_by_range(store) {
        let scheduler = Scheduler::start(store);
        let http = scheduler.http();
        let job = claimed(&scheduler);
        job.upload(http, "stdout", 0, "0123456789").expect(200);
        assert_eq!(job.upload(http, "stdout", 5, "56789abcde").expect(200).json()["length"], 15);
        assert_eq!(job.upload(http, "stdout", 20, "x").expect(409).json()["length"], 15);
        assert_eq!(job.read(http, "stream=stdout&offset=12").expect(200).text(), "cde");

        let part = job.range(http, "bytes=3-6");
        assert_eq!(part.expect(206).text(), "3456");
        assert_eq!(part.header("content-range"), Some("bytes 3-6/15"));
        assert_eq!(part.header("content-length"), Some("4"));
        assert_eq!(job.range(http, "bytes=10-").expect(206).text(), "abcde");
        assert_eq!(job.range(http, "bytes=-2").expect(206).text(), "de");
        assert_eq!(job.range(http, "bytes=12-900").expect(206).header("content-range"), Some("bytes 12-14/15"));
        let beyond = job.range(http, "bytes=15-");
        assert_eq!(beyond.expect(416).header("content-range"), Some("bytes */15"));
        assert_eq!(job.range(http, "bytes=9-2").expect(200).text(), "0123456789abcde", "nonsense is ignored");
        let whole = job.read(http, "stream=stdout");
        assert_eq!(whole.header("accept-ranges"), Some("bytes"));
        assert_eq!(whole.header("x-muster-log-length"), Some("15"));
        for wrong in ["tail=5&since=2026-01-01T00:00:00Z", "since=yesterday", "tail=-1", "offset=x", "stream=stdin"] {
            job.read(http, wrong).expect(400);
        }
        http.get(&format!("/jobs/{}/logs/stream?cursor=nonsense", job.id)).expect(400);
        http.get("/jobs/job-00000000-0000-4000-8000-000000000000/logs/stream").expect(404);
    }
}

/// A scheduler that forgets its jobs has nothing to resume, so that the memory store is left out.
fn resume_after_a_kill(store: StoreKind) {
    let mut scheduler = Scheduler::start(store);
    let http = scheduler.http();
    let job = claimed(&scheduler);
    job.upload(http, "stdout", 0, "before\n").expect(200);
    let mut live = Live::open(http, &format!("/jobs/{}/logs/stream?follow=true", job.id));
    let seen = messages(&live.until("before"));
    let cursor = &seen.last().unwrap().id;
    scheduler.kill9();
    scheduler.restart();
    let http = scheduler.http();
    job.upload(http, "stdout", 0, "before\nafter\n").expect(200);
    scheduler.report_under(job.lease, &job.id, "done").expect(200);
    let rest = job.stream(http, &format!("follow=true&cursor={cursor}"));
    assert_eq!(text(&rest), "after\n");
    assert_eq!(rest.last().unwrap().kind, "end");
}

#[test]
fn a_cursor_survives_a_killed_scheduler_on_sqlite() {
    resume_after_a_kill(StoreKind::Sqlite);
}

#[test]
fn a_cursor_survives_a_killed_scheduler_on_postgres() {
    resume_after_a_kill(StoreKind::Postgres);
}

#[test]
fn both_streams_come_by_time_with_gaps_and_bytes() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let http = scheduler.http();
    let job = claimed(&scheduler);
    job.upload_with(http, "stream=stdout&offset=0", "2@1000000,4@3000000", "a\nc\n").expect(200);
    job.upload_with(http, "stream=stderr&offset=0", "2@2000000", "b\n").expect(200);
    job.upload_with(http, "stream=stderr&offset=9&skip=true", "11@4000000", "d\n").expect(200);
    job.upload_with(http, "stream=stdout&offset=4", "6@5000000", b"\xff\x00").expect(200);
    let all = job.stream(http, "timestamps=true");
    let kinds: Vec<&str> = all.iter().map(|message| message.kind.as_str()).collect();
    assert_eq!(kinds, ["output", "output", "gap", "output", "output", "output", "end"]);
    assert_eq!(text(&all[..2]), "a\nb\n");
    assert_eq!(all[2].data["bytes"], 7);
    assert_eq!((&all[2].data["stream"], &all[2].data["offset"]), (&"stderr".into(), &2.into()));
    assert_eq!(all[0].data["at"], "1970-01-01T00:00:01Z");
    assert_eq!(all[5].data["base64"], "/wA=");
    for (index, message) in all.iter().enumerate() {
        let rest = job.stream(http, &format!("timestamps=true&cursor={}", message.id));
        let expected: Vec<&Value> = all[(index + 1).min(6)..].iter().map(|message| &message.data).collect();
        assert_eq!(rest.iter().map(|message| &message.data).collect::<Vec<_>>(), expected, "after {index}");
    }
    let raw = job.read(http, "stream=stderr").expect(200).text();
    assert!(
        raw.starts_with("b\n\n[muster: 7 bytes of output are missing here") && raw.ends_with("]\nd\n"),
        "{raw}"
    );
    assert_eq!(text(&job.stream(http, "tail=1&stream=stderr")), "d\n");
    assert_eq!(text(&job.stream(http, "since=1970-01-01T00:00:04Z&stream=stderr")), "d\n");
}

#[test]
fn the_limit_keeps_head_and_tail_and_ranges_stop_at_the_gap() {
    let settings = Settings::default().set("log-limit", "1000");
    let scheduler = Scheduler::start_with(StoreKind::Memory, settings);
    let http = scheduler.http();
    let job = claimed(&scheduler);
    let whole: Vec<u8> = (0..5000_u32).map(|index| b'a' + (index % 26) as u8).collect();
    for (index, piece) in whole.chunks(100).enumerate() {
        job.upload(http, "stdout", index * 100, piece).expect(200);
    }
    let read = job.read(http, "stream=stdout");
    let missing = read.header("x-muster-log-missing").unwrap();
    let (first, last) = missing.split_once('-').unwrap();
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    assert_eq!(first, 500);
    assert!((4500..4625).contains(&(last + 1)), "{missing}");
    let mark = format!(
        "\n[muster: {} bytes of output are missing here: dropped, the stream is longer than its limit]\n",
        last + 1 - first
    );
    let expected = [&whole[..500], mark.as_bytes(), &whole[last + 1..]].concat();
    assert_eq!(String::from_utf8_lossy(&read.body), String::from_utf8_lossy(&expected));
    let part = job.range(http, "bytes=490-");
    assert_eq!(part.expect(206).header("content-range"), Some("bytes 490-499/5000"));
    let after = job.range(http, "bytes=600-");
    assert_eq!(
        after.expect(206).header("content-range"),
        Some(format!("bytes {}-4999/5000", last + 1).as_str())
    );
    assert_eq!(after.body, &whole[last + 1..]);
    let lost = job.range(http, "bytes=600-700");
    assert_eq!(lost.expect(416).header("x-muster-log-missing"), Some(missing));
    let gap = job.stream(http, "stream=stdout").into_iter().find(|message| message.kind == "gap").unwrap();
    assert_eq!(gap.data["cause"], "dropped");
}

#[test]
fn a_follower_gets_everything_of_all_attempts() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let http = scheduler.http();
    let job = claimed(&scheduler);
    let mut live = Live::open(http, &format!("/jobs/{}/logs/stream?follow=true", job.id));
    assert!(live.until("event: start").contains("id: start"));
    job.upload(http, "stdout", 0, "first").expect(200);
    let seen = live.until("first");
    assert!(seen.contains("\"attempt\":1"), "{seen}");
    scheduler.report_under(job.lease, &job.id, "fail").expect(200);
    let second = claim(&scheduler, 2);
    second.upload(http, "stderr", 0, "second").expect(200);
    let seen = live.until("second");
    assert!(seen.contains("\"attempt\":2") && seen.contains("\"stream\":\"stderr\""), "{seen}");
    job.upload(http, "stdout", 5, " late").expect(200);
    assert!(live.until(" late").contains("\"attempt\":1"), "output that comes late is not lost");
    scheduler.report_under(second.lease, &job.id, "done").expect(200);
    live.until("event: end");
}

#[test]
fn a_reader_that_does_not_read_is_let_go_and_comes_back() {
    let settings = Settings::default().set("log-reader-timeout", "100ms");
    let scheduler = Scheduler::start_with(StoreKind::Memory, settings);
    let http = scheduler.http();
    let job = claimed(&scheduler);
    let piece = "0123456789abcdef".repeat(16 * 1024);
    let pieces = 64;
    let mut live = Live::open(http, &format!("/jobs/{}/logs/stream?follow=true", job.id));
    live.until("event: start");
    for index in 0..pieces {
        job.upload(http, "stdout", index * piece.len(), &piece).expect(200);
    }
    // More than the sockets and queues hold; the scheduler gives up on us and says so at the end.
    until("the reader is let go", BOUND, || scheduler.metric("muster_log_readers_dropped_total") == Some(1));
    let mut received = Vec::new();
    let drained = until_dropped(&mut live.reader, &mut received);
    assert!(drained, "the stream ended without a word");
    let mut seen = messages(&without_chunks(&received));
    seen.retain(|message| message.kind == "output");
    let taken: usize = seen.iter().map(|message| message.data["text"].as_str().unwrap().len()).sum();
    assert!(taken < pieces * piece.len(), "it was not let go");
    let cursor = &seen.last().unwrap().id;
    scheduler.report_under(job.lease, &job.id, "done").expect(200);
    let rest = job.stream(http, &format!("follow=true&cursor={cursor}"));
    assert_eq!(rest[0].data["offset"], taken as u64);
    assert_eq!(taken + text(&rest).len(), pieces * piece.len());
    assert_eq!(rest.last().unwrap().kind, "end");
}

#[test]
fn a_reader_that_never_comes_back_costs_no_connection() {
    let settings = Settings::default().set("log-reader-timeout", "100ms").set("write-timeout", "200ms");
    let scheduler = Scheduler::start_with(StoreKind::Memory, settings);
    let http = scheduler.http();
    let job = claimed(&scheduler);
    let mut live = Live::open(http, &format!("/jobs/{}/logs/stream?follow=true", job.id));
    live.until("event: start");
    // The other end of our connection: it comes from our port and is established.
    let port = format!(":{:04X} 01 ", live.reader.get_ref().local_addr().unwrap().port());
    let is_open = || std::fs::read_to_string("/proc/net/tcp").unwrap().contains(&port);
    assert!(is_open());
    let piece = "x".repeat(256 * 1024);
    for index in 0..64 {
        job.upload(http, "stdout", index * piece.len(), &piece).expect(200);
    }
    until("the scheduler has closed the connection", BOUND, || !is_open());
    drop(live);
}

/// Reads to the end of the connection; whether the scheduler has said that it lets us go.
pub(super) fn until_dropped(reader: &mut BufReader<TcpStream>, received: &mut Vec<u8>) -> bool {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = reader.read(&mut buffer).unwrap();
        received.extend_from_slice(&buffer[..count]);
        let tail = &received[received.len().saturating_sub(200)..];
        if String::from_utf8_lossy(tail).contains("event: dropped") {
            return true;
        }
        if count == 0 {
            return false;
        }
    }
}

/// Takes the lengths of the chunks out of a body.
fn without_chunks(body: &[u8]) -> String {
    let mut text = Vec::new();
    let mut rest = body;
    while let Some(line_end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..line_end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let start = line_end + 2;
        let Some(size) = size.filter(|size| *size > 0) else {
            // What `until` has read before left the end of a chunk.
            rest = &rest[start..];
            continue;
        };
        text.extend_from_slice(&rest[start..(start + size).min(rest.len())]);
        rest = rest.get(start + size + 2..).unwrap_or_default();
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn all_output_together_is_bounded_and_the_oldest_goes_first() {
    let settings = Settings::default().set("log-total-limit", "300K").set("retention-interval", "50ms");
    let scheduler = Scheduler::start_with(StoreKind::Memory, settings);
    let http = scheduler.http();
    let running = claimed(&scheduler);
    running.upload(http, "stdout", 0, "still here").expect(200);
    let ended: Vec<Claimed> = (0..6)
        .map(|_| {
            let job = claimed(&scheduler);
            job.upload(http, "stdout", 0, vec![b'x'; 100_000]).expect(200);
            scheduler.report_under(job.lease, &job.id, "done").expect(200);
            job
        })
        .collect();
    let gone =
        |job: &Claimed| job.read(http, "stream=stdout").header("x-muster-log-missing") == Some("0-99999");
    until("enough of it is gone", BOUND, || ended.iter().filter(|job| gone(job)).count() >= 3);
    assert!(ended.iter().any(|job| !gone(job)), "not everything goes");
    assert_eq!(running.read(http, "stream=stdout").text(), "still here");
    let gap = ended.iter().find(|job| gone(job)).unwrap().stream(http, "");
    assert_eq!((gap[0].kind.as_str(), &gap[0].data["cause"]), ("gap", &"expired".into()));
}

/// How many jobs have output on the disk.
fn jobs_with_output(scheduler: &Scheduler) -> usize {
    let shards = std::fs::read_dir(scheduler.backing().directory().join("data/logs")).unwrap().flatten();
    shards.flat_map(|shard| std::fs::read_dir(shard.path()).unwrap().flatten()).count()
}

#[test]
fn output_goes_with_its_job() {
    let settings = Settings::default().set("retention", "100ms").set("retention-interval", "50ms");
    let scheduler = Scheduler::start_with(StoreKind::Memory, settings);
    let http = scheduler.http();
    let job = claimed(&scheduler);
    job.upload(http, "stdout", 0, "hello").expect(200);
    scheduler.report_under(job.lease, &job.id, "done").expect(200);
    until("the job is gone", BOUND, || http.get(&format!("/jobs/{}", job.id)).status == 404);
    until("its output is gone", BOUND, || jobs_with_output(&scheduler) == 0);
}

#[test]
fn output_of_a_deleted_job_is_deleted() {
    let scheduler = Scheduler::start(StoreKind::Memory);
    let http = scheduler.http();
    let job = claimed(&scheduler);
    job.upload(http, "stdout", 0, "hello").expect(200);
    scheduler.report_under(job.lease, &job.id, "done").expect(200);
    assert_eq!(jobs_with_output(&scheduler), 1);
    let deleted = http.request("DELETE", &format!("/jobs/{}", job.id)).send();
    assert!((200..300).contains(&deleted.status), "{deleted:?}");
    until("its output is gone", BOUND, || jobs_with_output(&scheduler) == 0);
}
