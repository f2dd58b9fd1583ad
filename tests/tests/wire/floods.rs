//! Clients that take what they can get: connections, heads, bodies, polls and answers without end.
//!
//! While each goes on, others are served; afterwards the memory of the scheduler has not grown beyond a bound, its files
//! are back, and its log tells of no panic.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use muster_tests::{Http, Response, Scheduler, Settings, StoreKind, id_of, lease_of, until};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};
use serde_json::json;

const BOUND: Duration = Duration::from_secs(60);
/// What the scheduler may have more in memory after a flood.
const GROWTH: u64 = 400 * 1024 * 1024;
const MANY: usize = 5_000;

/// A scheduler under attack, and what it had before.
struct Attacked {
    scheduler: Scheduler,
    memory: u64,
    files: usize,
}

fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Lets this program have as many connections as its hard limit allows.
fn raise_own_limit() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    assert!(hard as usize > 2 * MANY, "this test needs {} open files; the hard limit is {hard}", 2 * MANY);
}

impl Attacked {
    fn start(settings: Settings) -> Self {
        let mut scheduler = Scheduler::start_with(StoreKind::Sqlite, settings);
        let pid = scheduler.process().id();
        let mut attacked = Self { scheduler, memory: 0, files: 0 };
        // What is made at the first use is no growth.
        attacked.serves_others();
        (attacked.memory, attacked.files) = (memory(pid), files(pid));
        attacked
    }

    fn http(&self) -> Http {
        self.scheduler.http()
    }

    /// Health, a submit, a claim and a report: each is answered as if nobody else were there.
    fn serves_others(&self) {
        let http = self.http();
        http.get("/healthz").expect(200);
        http.get("/readyz").expect(200);
        let id = id_of(&http.post_json("/jobs", &json!({ "command": "true" })).expect(201).json());
        let claimed = http.get("/jobs/next?worker_id=other").expect(200).json();
        assert_eq!(id_of(&claimed), id);
        let done = format!("/jobs/{id}/done?lease={}", lease_of(&claimed));
        http.post(&done, "").expect(200);
    }

    fn refused(&self, reason: &str) -> u64 {
        self.scheduler.metric(&format!("muster_refused_total{{reason=\"{reason}\"}}")).unwrap()
    }

    /// Nothing is left of the attack, whose connections are closed by now.
    fn recovers(mut self) {
        self.serves_others();
        let pid = self.scheduler.process().id();
        until("its files are back", BOUND, || files(pid) <= self.files + 8);
        let grown = memory(pid).saturating_sub(self.memory);
        assert!(grown < GROWTH, "its memory has grown by {} MiB", grown / 1024 / 1024);
        assert!(self.scheduler.process().is_alive());
        let log = self.scheduler.process().output();
        assert!(!log.contains("panicked"), "{log}");
        let page = self.http().get("/metrics").text();
        let served =
            |line: &&str| line.starts_with("muster_http_requests_total") && line.contains("code=\"5");
        let others: Vec<&str> =
            page.lines().filter(served).filter(|line| !line.contains("code=\"503\"")).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

fn connect(http: &Http, bytes: &[u8]) -> TcpStream {
    let mut stream = http.connect().unwrap();
    stream.write_all(bytes).unwrap();
    stream
}

/// Everything up to the end of the connection.
fn rest(mut stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset says the same as an end.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn refusal(response: &Response) -> (u16, String) {
    (response.status, response.json()["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn heads_that_come_byte_by_byte_are_cut_off_with_words() {
    let attacked = Attacked::start(Settings::default().set("header-timeout", "1s"));
    let mut slow: Vec<TcpStream> =
        (0..200).map(|_| connect(&attacked.http(), b"GET /jobs HTTP/1.1\r\nX-A: ")).collect();
    let mut open = slow.len();
    until("all of them are cut off", BOUND, || {
        for stream in &mut slow {
            let _ = stream.write(b"a");
        }
        attacked.http().get("/healthz").expect(200);
        open = attacked.scheduler.metric("muster_connections{kind=\"known\"}").unwrap() as usize;
        open <= 5
    });
    assert!(attacked.refused("head_timeout") >= 200, "{}", attacked.refused("head_timeout"));
    let told = slow.iter().map(rest).filter(|answer| answer.contains("\"code\":\"head_timeout\"")).count();
    assert!(told > 0, "none was told");
    drop(slow);
    attacked.recovers();
}

#[test]
fn idle_connections_are_closed_without_a_word() {
    let attacked = Attacked::start(Settings::default().set("header-timeout", "1s"));
    let silent = connect(&attacked.http(), b"");
    let kept = connect(&attacked.http(), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(rest(&silent), "");
    assert_eq!(rest(&kept).matches("HTTP/1.1").count(), 1);
    assert_eq!(attacked.refused("head_timeout"), 0);
    attacked.recovers();
}

#[test]
fn slow_bodies_cost_what_they_have_sent() {
    let settings = Settings::default().set("body-memory", "4194304").set("body-timeout", "60s");
    let attacked = Attacked::start(settings);
    let head = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Length: 8000000\r\n\r\n";
    let mut slow: Vec<TcpStream> = (0..300).map(|_| connect(&attacked.http(), head)).collect();
    let batches = String::from_utf8_lossy(head).replace("/jobs", "/jobs/batch").into_bytes();
    slow.extend((0..20).map(|_| connect(&attacked.http(), &batches)));
    attacked.serves_others();
    // Those that have sent much take all the memory that there is for large bodies ...
    for stream in slow.iter_mut().take(8) {
        let _ = stream.write_all(&vec![b' '; 1024 * 1024]);
    }
    until("the memory is taken", BOUND, || {
        attacked.scheduler.metric("muster_body_memory_bytes").unwrap() > 3 * 1024 * 1024
    });
    // ... so that large ones are told to wait, and small ones go on, batches too.
    until("large bodies are told", BOUND, || attacked.refused("too_many_bodies") > 0);
    attacked.serves_others();
    attacked.http().post("/jobs/batch", "[{\"command\":\"true\"}]").expect(201);
    attacked.http().get("/jobs/next?worker_id=other").expect(200);
    drop(slow);
    until("the memory is back", BOUND, || attacked.scheduler.metric("muster_body_memory_bytes") == Some(0));
    attacked.recovers();
}

#[test]
fn bodies_that_do_not_come_are_408() {
    let attacked = Attacked::start(Settings::default().set("body-timeout", "500ms"));
    let head =
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nContent-Length: 100\r\n\r\n{";
    let mut stream = connect(&attacked.http(), head.as_bytes());
    let answer = Response::read(&mut stream, false).unwrap();
    assert_eq!(refusal(&answer), (408, "body_timeout".to_owned()));
    assert_eq!(attacked.refused("body_timeout"), 1);
    attacked.recovers();
}

#[test]
fn readers_that_do_not_read_are_let_go() {
    let attacked =
        Attacked::start(Settings::default().set("write-timeout", "1s").set("event-reader-timeout", "1s"));
    let http = attacked.http();
    let jobs: Vec<_> = (0..40).map(|_| json!({ "command": "x".repeat(100_000) })).collect();
    http.post_json("/jobs/batch", &json!(jobs)).expect(201);
    let mut readers = Vec::new();
    for target in ["/jobs?limit=40", "/events?after=0", "/jobs?limit=40"] {
        for _ in 0..10 {
            let stream = http.connect().unwrap();
            // The less the kernel takes for the reader, the sooner the scheduler notices.
            setsockopt(&stream, sockopt::RcvBuf, &4_096).unwrap();
            let mut stream = stream;
            let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.repeat(8).as_bytes()).unwrap();
            readers.push(stream);
        }
    }
    until("those who read nothing are let go", BOUND, || attacked.refused("answer_timeout") >= 20);
    http.post_json("/jobs/bulk/cancel", &json!({ "status": ["pending"] })).expect(200);
    attacked.serves_others();
    drop(readers);
    attacked.recovers();
}

#[test]
fn heads_that_are_too_large_are_told_the_bound() {
    let attacked = Attacked::start(Settings::default());
    let http = attacked.http();
    let line = "GET /jobs HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n";
    let many: Vec<String> = (0..5_000).map(|number| format!("X-{number}: y\r\n")).collect();
    let over = (431, "head_too_large".to_owned());
    for headers in [many.concat(), format!("X-Long: {}\r\n", "z".repeat(10_000_000)), "a".repeat(200_000)] {
        let answer = http.raw(format!("{line}{headers}\r\n").as_bytes()).unwrap();
        assert_eq!(refusal(&answer), over);
        assert!(answer.text().contains("65536 bytes (--head-limit) and 100 headers"), "{}", answer.text());
    }
    assert_eq!(attacked.refused("head_too_large"), 3);
    for length in [17_000, 60_000, 300_000] {
        let answer = http
            .raw(
                line.replace("/jobs", &format!("/jobs?name={}", "n".repeat(length)))
                    .as_bytes()
                    .iter()
                    .chain(b"\r\n")
                    .copied()
                    .collect::<Vec<_>>()
                    .as_slice(),
            )
            .unwrap();
        let (status, code) = refusal(&answer);
        assert!(
            [414, 431].contains(&status) && ["url_too_long", "head_too_large"].contains(&code.as_str()),
            "{length}: {status} {code}"
        );
    }
    assert!(attacked.refused("url_too_long") >= 1);
    for garbage in
        ["\0\0\0\0\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /jobs HTTP/1.1\r\nHost x\r\n\r\n"]
    {
        let answer = http.raw(garbage.as_bytes()).unwrap();
        assert_eq!(refusal(&answer), (400, "malformed_request".to_owned()), "{garbage:?}");
    }
    attacked.recovers();
}

#[test]
fn values_in_values_are_told_the_bound() {
    let attacked = Attacked::start(Settings::default());
    let http = attacked.http();
    let ask = |target: &str, body: &str| {
        http.request("POST", target).header("Accept", "application/json").body(body).send()
    };
    for depth in [200, 100_000] {
        for field in ["env", "x", "resources"] {
            let nested = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
            let body = format!("{{\"command\":\"a\",\"{field}\":{nested}}}");
            assert_eq!(ask("/jobs", &body).status, 400, "{field} {depth}");
        }
        let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let lenient = http
            .request("POST", "/jobs")
            .header("Accept", "application/json")
            .header("Muster-Lenient", "true");
        let answer = lenient.body(format!("{{\"command\":\"a\",\"x\":{nested}}}")).send();
        assert_eq!(refusal(&answer), (400, "nested_too_deep".to_owned()));
        let yaml = format!("steps: {nested}\n");
        let answer = ask("/pipelines", &yaml);
        assert!(
            answer.status == 400
                && ["more than 64 deep", "lie in each other too deep"]
                    .iter()
                    .any(|said| answer.text().contains(said)),
            "{}",
            answer.text()
        );
        let block: Vec<String> =
            (0..depth.min(3_000)).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        assert_eq!(ask("/pipelines", &block.concat()).status, 400);
    }
    assert!(attacked.refused("nested_too_deep") >= 2);
    for body in
        ["{\"command\":\"a\",\"priority\":1e400}", "{\"command\":\"a\",\"priority\":99999999999999999999999}"]
    {
        assert_eq!(ask("/jobs", body).status, 400, "{body}");
    }
    // The last of several keys counts, as always.
    let job = ask("/jobs", "{\"command\":\"a\",\"command\":\"b\"}");
    assert_eq!(job.expect(201).json()["command"], "b");
    http.get("/jobs/next?worker_id=other").expect(200);
    attacked.recovers();
}

#[test]
fn thousands_of_idle_connections_keep_nobody_out() {
    raise_own_limit();
    // The first of them must still be there when the last one comes, also on a busy machine.
    let attacked = Attacked::start(Settings::default().set("header-timeout", "10m"));
    let http = attacked.http();
    let idle: Vec<TcpStream> = (0..MANY).map(|_| http.connect().unwrap()).collect();
    attacked.serves_others();
    until("all are there", BOUND, || {
        attacked.scheduler.metric("muster_connections{kind=\"known\"}").unwrap() >= MANY as u64
    });
    attacked.serves_others();
    drop(idle);
    attacked.recovers();
}

#[test]
fn thousands_of_polls_keep_nobody_out_and_one_of_them_gets_the_work() {
    raise_own_limit();
    let attacked = Attacked::start(Settings::default());
    let http = attacked.http();
    let poll = |number: usize| {
        format!("GET /jobs/next?wait=60s&worker_id=w{number} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    };
    let polls: Vec<TcpStream> = (0..MANY).map(|number| connect(&http, poll(number).as_bytes())).collect();
    let parked = || attacked.scheduler.metric("muster_parked_requests").unwrap();
    // Those who came first have waited for long by then, and may have got their answer.
    until("they wait", 3 * BOUND, || {
        parked() > 0 && attacked.scheduler.metric("muster_workers{status=\"active\"}") >= Some(MANY as u64)
    });
    http.get("/healthz").expect(200);
    let job = id_of(&http.post_json("/jobs", &json!({ "command": "true" })).expect(201).json());
    until("the work is with one of them", BOUND, || attacked.scheduler.status(&job) == "running");
    let lease = lease_of(&attacked.scheduler.job(&job));
    http.post(&format!("/jobs/{job}/done?lease={lease}"), "").expect(200);
    drop(polls);
    until("nobody waits any more", BOUND, || parked() == 0);
    attacked.recovers();
}

#[test]
fn polls_beyond_the_bound_are_told_and_syncs_are_heard() {
    let attacked = Attacked::start(Settings::default().set("max-long-polls", "3"));
    let http = attacked.http();
    let polls: Vec<TcpStream> = (0..3)
        .map(|_| connect(&http, b"GET /jobs/next?wait=60s HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        .collect();
    attacked.scheduler.await_parked(3);
    let answer = http.request("GET", "/jobs/next?wait=60s").header("Accept", "application/json").send();
    assert_eq!(refusal(&answer), (503, "too_many_long_polls".to_owned()));
    assert_eq!(answer.header("retry-after"), Some("5"));
    http.get("/jobs/next").expect(204);
    attacked.scheduler.register(&json!({ "id": "w" }));
    let heard = http
        .post_json("/workers/w/sync", &json!({ "max": 1, "wait_ms": 60_000, "orders": true }))
        .expect(200)
        .json();
    assert_eq!(heard["jobs"], json!([]), "{heard}");
    drop(polls);
    attacked.recovers();
}

#[test]
fn connections_that_are_reset_at_every_stage_leave_nothing() {
    let attacked = Attacked::start(Settings::default());
    let http = attacked.http();
    let request = b"POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"command\":\"x\"";
    for end in 0..request.len() {
        let stream = connect(&http, &request[..end]);
        // A socket that is closed with no time to linger is reset.
        setsockopt(&stream, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
    }
    for target in ["/events?after=0", "/jobs/next?wait=60s", "/metrics"] {
        for _ in 0..50 {
            let stream =
                connect(&http, format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
            setsockopt(&stream, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
        }
    }
    until("nobody waits any more", BOUND, || attacked.scheduler.metric("muster_parked_requests") == Some(0));
    assert_eq!(attacked.scheduler.metric("muster_event_readers").map(|readers| readers <= 50), Some(true));
    attacked.recovers();
}

#[test]
fn requests_that_are_sent_ahead_are_answered_in_turn() {
    let attacked = Attacked::start(Settings::default());
    let one = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let stream = connect(&attacked.http(), one.repeat(1_000).as_bytes());
    stream.shutdown(Shutdown::Write).unwrap();
    let answers = rest(&stream).matches("HTTP/1.1 200").count();
    assert!(answers > 0, "none was answered");
    let old = connect(&attacked.http(), b"GET /healthz HTTP/1.0\r\n\r\n");
    assert!(rest(&old).starts_with("HTTP/1.0 200"));
    attacked.recovers();
}

#[test]
fn lengths_that_contradict_each_other_smuggle_nothing_in() {
    let attacked = Attacked::start(Settings::default());
    let smuggled =
        "POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 22\r\n\r\n{\"command\":\"smuggled\"}";
    let heads = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
        "Content-Length: +5\r\n\r\n12345",
        "Content-Length: 5, 5\r\n\r\n12345",
        "Content-Length: 99999999999999999999\r\n\r\n12345",
        "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n1234567\r\n0\r\n\r\n",
        "Transfer-Encoding: identity\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    ];
    for head in heads {
        let bytes = format!("POST /jobs HTTP/1.1\r\nHost: localhost\r\n{head}{smuggled}");
        let stream = connect(&attacked.http(), bytes.as_bytes());
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = rest(&stream);
        assert!(!answer.contains("HTTP/1.1 201"), "{head:?}: {answer}");
        attacked.http().get("/healthz").expect(200);
    }
    let jobs = attacked.http().get("/jobs").text();
    assert!(!jobs.contains("smuggled"), "{jobs}");
    attacked.recovers();
}

#[test]
fn strangers_leave_places_for_those_who_show_a_credential() {
    let settings = |loopback: &str| {
        let settings = Settings::default().set("loopback", loopback).set("max-connections", "100");
        // Strangers who have a place keep it.
        settings.set("header-timeout", "1h")
    };
    let mut scheduler = Scheduler::start_with(StoreKind::Sqlite, settings("same"));
    let account = json!({ "name": "root", "role": "admin", "password": "a long password" });
    scheduler.http().post_json("/users", &account).expect(201);
    scheduler.terminate();
    scheduler.restart_with(settings("none"));
    let http = scheduler.http();
    let login = json!({ "user": "root", "password": "a long password" });
    let token =
        http.post_json("/auth/login", &login).expect(200).json()["token"].as_str().unwrap().to_owned();
    let shown = format!("Bearer {token}");
    // More than there are places at all; those beyond what strangers may have are let go after a while.
    let strangers: Vec<TcpStream> =
        (0..120).map(|_| connect(&http, b"GET /healthz HTTP/1.1\r\nHo")).collect();
    let mut known = Vec::new();
    for _ in 0..20 {
        let request = format!("GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: {shown}\r\n\r\n");
        let mut stream = connect(&http, request.as_bytes());
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        known.push(stream);
    }
    let page = http.request("GET", "/metrics").header("Authorization", &shown).send().expect(200).text();
    let kind = |kind: &str| {
        let line = format!("muster_connections{{kind=\"{kind}\"}} ");
        page.lines().find_map(|found| found.strip_prefix(&line)).unwrap().parse::<u32>().unwrap()
    };
    assert!(kind("known") >= 20 && kind("unknown") <= 75, "{} {}", kind("known"), kind("unknown"));
    drop((strangers, known));
}
