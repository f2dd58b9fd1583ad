//! The harness reads answers as they are on the wire and ends what it starts.
#![expect(clippy::unwrap_used, reason = "test code, also outside of the test functions")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use muster_tests::{Http, Process, until};
use tempfile::TempDir;

/// Serves one connection with fixed bytes and returns the request that came.
fn serve(answer: &'static [u8]) -> (Http, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let http = Http::new(listener.local_addr().unwrap().port());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0_u8; 4096];
        let count = stream.read(&mut request).unwrap();
        stream.write_all(answer).unwrap();
        String::from_utf8_lossy(&request[..count]).into_owned()
    });
    (http, server)
}

#[test]
fn requests_are_sent_as_they_are_written() {
    let (http, server) = serve(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-One: 1\r\n\r\nhi and more");
    let response = http.request("PUT", "/a?b=c").header("X-Two", "2").body("body").send();
    assert_eq!((response.status, response.text().as_str(), response.header("x-one")), (200, "hi", Some("1")));
    let request = server.join().unwrap();
    assert!(request.starts_with("PUT /a?b=c HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nX-Two: 2\r\n") && request.ends_with("\r\n\r\nbody"), "{request}");
}

#[test]
fn chunks_are_joined() {
    let (http, _server) = serve(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n",
    );
    assert_eq!(http.get("/").text(), "abc0123456789");
}

#[test]
fn a_body_without_a_length_ends_with_the_connection() {
    let (http, _server) = serve(b"HTTP/1.1 503 Nope\r\n\r\nuntil the end");
    let response = http.get("/");
    assert_eq!((response.status, response.text().as_str()), (503, "until the end"));
}

#[test]
fn a_closed_connection_is_an_error() {
    for answer in
        [b"".as_slice(), b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"]
    {
        let (http, _server) = serve(answer);
        assert!(http.request("GET", "/").try_send().is_err());
    }
}

#[test]
fn a_dropped_process_is_gone() {
    let directory = TempDir::new().unwrap();
    let mut command = Command::new("sleep");
    command.arg("600");
    let mut process = Process::start("sleep", command, &directory.path().join("log"));
    assert!(process.is_alive());
    let entry = format!("/proc/{}", process.id());
    drop(process);
    until("the process is gone", Duration::from_secs(5), || !std::path::Path::new(&entry).exists());
}
