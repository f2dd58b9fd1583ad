//! A small HTTP/1.1 client over a plain socket. It sends exactly what it is told, however wrong, and shows
//! exactly what came back.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

const READ_BOUND: Duration = Duration::from_secs(120);

/// One server. Every request has a connection of its own.
#[derive(Debug, Clone, Copy)]
pub struct Http {
    address: SocketAddr,
}

/// A request under construction.
#[derive(Debug, Clone)]
pub struct Request {
    http: Http,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

/// What the server answered.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Http {
    pub fn new(port: u16) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    pub fn at(address: SocketAddr) -> Self {
        Self { address }
    }

    /// What programs are told as the URL of the scheduler.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn request(&self, method: &str, target: &str) -> Request {
        Request { http: *self, method: method.into(), target: target.into(), headers: Vec::new(), body: None }
    }

    pub fn get(&self, target: &str) -> Response {
        self.request("GET", target).send()
    }

    /// Posts bytes without naming their type, as the simplest clients do.
    pub fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Response {
        self.request("POST", target).body(body).send()
    }

    pub fn post_json(&self, target: &str, body: &Value) -> Response {
        self.request("POST", target).header("Content-Type", "application/json").body(body.to_string()).send()
    }

    /// A bare connection, for clients that do not behave.
    pub fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(10))?;
        stream.set_read_timeout(Some(READ_BOUND))?;
        stream.set_write_timeout(Some(READ_BOUND))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends the bytes as they are and reads one answer.
    pub fn raw(&self, bytes: &[u8]) -> io::Result<Response> {
        let mut stream = self.connect()?;
        // A server may answer and close before it has read everything, which is what limits are for.
        let written = stream.write_all(bytes);
        match Response::read(&mut stream, false) {
            Ok(response) => Ok(response),
            Err(error) => Err(written.err().unwrap_or(error)),
        }
    }
}

impl Request {
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = Some(body.as_ref().to_vec());
        self
    }

    /// Sends and reads; a broken connection fails the test.
    pub fn send(&self) -> Response {
        let sent = self.try_send();
        sent.unwrap_or_else(|error| panic!("{} {}: {error}", self.method, self.target))
    }

    pub fn try_send(&self) -> io::Result<Response> {
        let mut stream = self.http.connect()?;
        let written = stream.write_all(&self.bytes());
        match Response::read(&mut stream, self.method == "HEAD") {
            Ok(response) => Ok(response),
            Err(error) => Err(written.err().unwrap_or(error)),
        }
    }

    /// The request as it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.target, self.http.address);
        let length = self.body.as_ref().map(|body| ("Content-Length".to_owned(), body.len().to_string()));
        for (name, value) in self.headers.iter().chain(&length) {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("Connection: close\r\n\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(self.body.iter().flatten());
        bytes
    }
}

impl Response {
    /// The value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {}: {}", self.status, self.text()))
    }

    /// Fails the test unless the status is the expected one; shows the body when it is not.
    #[track_caller]
    pub fn expect(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "unexpected status, body: {}", self.text());
        self
    }

    /// Fails the test unless this is an error in its plain form: the status, the message with a newline, the
    /// headers that keep a browser from guessing.
    #[track_caller]
    pub fn expect_error(&self, status: u16, message: &str) -> &Self {
        self.expect(status);
        assert_eq!(self.text(), format!("{message}\n"));
        assert_eq!(self.header("content-type"), Some("text/plain; charset=utf-8"));
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"));
        self
    }

    /// Fails the test unless this is a success without a body.
    #[track_caller]
    pub fn expect_empty(&self) -> &Self {
        self.expect(200);
        assert_eq!(self.text(), "");
        assert_eq!(self.header("content-length"), Some("0"));
        self
    }

    /// Reads one answer: by its declared length, by chunks, or up to the end of the connection.
    pub fn read(stream: &mut TcpStream, no_body: bool) -> io::Result<Self> {
        let mut received = Vec::new();
        let head_end = loop {
            if let Some(position) = find(&received, b"\r\n\r\n") {
                break position;
            }
            if receive(stream, &mut received)? == 0 {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the connection ended before an answer",
                ));
            }
        };
        let head = String::from_utf8_lossy(&received[..head_end]).into_owned();
        let mut response = parse_head(&head)?;
        let mut body = received.split_off(head_end + 4);
        if no_body || response.status == 204 || response.status == 304 {
            return Ok(response);
        }
        let chunked = response.header("transfer-encoding").is_some_and(|value| value.contains("chunked"));
        let length = response.header("content-length").and_then(|value| value.parse::<usize>().ok());
        while length.is_none_or(|length| body.len() < length) && receive(stream, &mut body)? > 0 {}
        if let Some(length) = length {
            if body.len() < length {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the connection ended within an answer",
                ));
            }
            body.truncate(length);
        }
        response.body = if chunked { join_chunks(&body)? } else { body };
        Ok(response)
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

fn parse_head(head: &str) -> io::Result<Response> {
    let malformed = || io::Error::new(ErrorKind::InvalidData, format!("not an HTTP answer: {head}"));
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers = lines.filter_map(|line| line.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    Ok(Response { status: status.ok_or_else(malformed)?, headers, body: Vec::new() })
}

fn join_chunks(mut bytes: &[u8]) -> io::Result<Vec<u8>> {
    let malformed = || io::Error::new(ErrorKind::InvalidData, "malformed chunk");
    let mut body = Vec::new();
    loop {
        let line_end = find(bytes, b"\r\n").ok_or_else(malformed)?;
        let size = std::str::from_utf8(&bytes[..line_end]).map_err(|_| malformed())?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(|_| malformed())?;
        if size == 0 {
            return Ok(body);
        }
        let start = line_end + 2;
        body.extend_from_slice(bytes.get(start..start + size).ok_or_else(malformed)?);
        bytes = bytes.get(start + size + 2..).ok_or_else(malformed)?;
    }
}
