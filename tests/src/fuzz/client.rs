//! A client that keeps its connection as long as it can, and reads no more of an endless answer than its head.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::requests::Made;
use crate::http::Http;

const BOUND: Duration = Duration::from_secs(120);

/// What came back; status 0 when the connection was closed without an answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

#[derive(Debug)]
pub(super) struct Client {
    http: Http,
    stream: Option<TcpStream>,
}

struct Head {
    status: u16,
    length: Option<usize>,
    is_chunked: bool,
    is_endless: bool,
    closes: bool,
}

impl Client {
    pub(super) fn new(http: Http) -> Self {
        Self { http, stream: None }
    }

    pub(super) fn send(&mut self, made: &Made) -> Answer {
        let is_fresh = self.stream.is_none();
        let answer = self.exchange(made);
        match answer {
            Ok(answer) => answer,
            // A kept connection may have been closed just now.
            Err(_) if !is_fresh && !made.is_broken => self.exchange(made).unwrap_or_default(),
            Err(_) => Answer::default(),
        }
    }

    fn exchange(&mut self, made: &Made) -> io::Result<Answer> {
        let mut stream = match self.stream.take().filter(|_| !made.is_broken) {
            Some(stream) => stream,
            None => self.http.connect()?,
        };
        stream.set_read_timeout(Some(BOUND))?;
        let written = stream.write_all(&made.bytes);
        if made.is_broken {
            // The scheduler may take it for the beginning of something longer.
            stream.shutdown(Shutdown::Write)?;
        }
        let mut received = Vec::new();
        let head = loop {
            if let Some(end) = find(&received, b"\r\n\r\n") {
                let head = head(&String::from_utf8_lossy(&received[..end]));
                received.drain(..end + 4);
                if head.status != 100 {
                    break head;
                }
            } else if receive(&mut stream, &mut received)? == 0 {
                return Err(written.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
            }
        };
        if head.is_endless {
            return Ok(Answer { status: head.status, body: String::new() });
        }
        let has_body = !made.is_head && head.status != 204 && head.status != 304;
        let whole = |received: &[u8]| match head.length {
            _ if !has_body => true,
            Some(length) => received.len() >= length,
            None => head.is_chunked && received.ends_with(b"0\r\n\r\n"),
        };
        while !whole(&received) {
            if receive(&mut stream, &mut received)? == 0 {
                break;
            }
        }
        if !head.closes && !made.is_broken && whole(&received) {
            self.stream = Some(stream);
        }
        Ok(Answer { status: head.status, body: String::from_utf8_lossy(&received).into_owned() })
    }
}

fn receive(stream: &mut TcpStream, into: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0_u8; 16 * 1024];
    let count = stream.read(&mut buffer)?;
    into.extend_from_slice(&buffer[..count]);
    Ok(count)
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

fn head(text: &str) -> Head {
    let text = text.to_lowercase();
    let field =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let is_chunked = field("transfer-encoding").is_some_and(|value| value.contains("chunked"));
    let kind = field("content-type").unwrap_or_default();
    Head {
        status: text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0),
        length: field("content-length").and_then(|length| length.parse().ok()),
        // Raw output of a job may be followed, and then ends with the job.
        is_endless: kind.starts_with("text/event-stream")
            || (is_chunked && kind.starts_with("application/octet-stream")),
        is_chunked,
        closes: field("connection").is_some_and(|value| value.contains("close")),
    }
}
