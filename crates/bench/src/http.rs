//! A blocking HTTP/1.1 connection that is kept open: the cheapest client there is, so that what is measured
//! is the server.
//!
//! It understands what our server sends: a status line, headers and a body of a stated length.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

const PATIENCE: Duration = Duration::from_secs(60);

/// An open connection.
#[derive(Debug)]
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
    request: Vec<u8>,
    /// The header that says who asks, where somebody must.
    authorization: String,
}

/// An answer: status, the cursor of the next page if there is one, and the body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) next_cursor: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Fails with what the server said unless the status is one of the two hundreds.
    pub(crate) fn success(self) -> Result<Self> {
        let words = || String::from_utf8_lossy(&self.body).chars().take(300).collect::<String>();
        ensure!((200..300).contains(&self.status), "HTTP status {}: {}", self.status, words());
        Ok(self)
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        Self::open_with(address, None)
    }

    /// A connection that shows a credential with each request.
    pub(crate) fn open_with(address: SocketAddr, credential: Option<&str>) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let authorization =
            credential.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let reader = BufReader::with_capacity(64 * 1024, stream);
        Ok(Self { reader, request: Vec::new(), authorization })
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<Answer> {
        self.send("GET", path, &[])
    }

    pub(crate) fn post(&mut self, path: &str, body: &[u8]) -> Result<Answer> {
        self.send("POST", path, body)
    }

    fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        self.request.clear();
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             {}Content-Length: {}\r\n\r\n",
            self.authorization,
            body.len()
        )?;
        self.request.extend_from_slice(body);
        self.reader.get_mut().write_all(&self.request).with_context(|| format!("sending {method} {path}"))?;
        self.receive().with_context(|| format!("reading the answer to {method} {path}"))
    }

    fn receive(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.with_context(|| format!("not a status line: {line:?}"))?;
        let mut length = 0;
        let mut next_cursor = None;
        loop {
            line.clear();
            self.reader.read_line(&mut line)?;
            let header = line.trim_end();
            let Some((name, value)) = header.split_once(':') else {
                ensure!(header.is_empty(), "not a header: {header:?}");
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().context("the length of the body")?,
                "transfer-encoding" => bail!("the body has no stated length"),
                muster_protocol::HEADER_NEXT_CURSOR => next_cursor = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        Ok(Answer { status, next_cursor, body })
    }
}
