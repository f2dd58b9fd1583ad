//! A connection that the engine hands over for the bytes of a program: as they are, one way and the other.
//!
//! The library reads what comes from a terminal line by line, which keeps back a prompt. So the connection is made here.
//!
//! Guarantee: nothing that comes behind the head of the answer is lost.

use std::io;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::engine::Reach;

/// How long the engine may take to hand a connection over.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest head of an answer.
const MOST_HEAD: usize = 16 * 1024;
const PIECE: usize = 16 * 1024;
/// Before each piece of output where both streams share a connection: its stream and length.
const HEADER: usize = 8;
/// The number of the stream of errors there.
const ERRORS: u8 = 2;

/// Asks for something that is answered by handing the connection over.
pub(super) async fn open(reach: &Reach, path: &str, body: &str) -> Result<UnixStream, String> {
    let asked = async {
        let mut stream = UnixStream::connect(&reach.socket).await?;
        let (major, minor) = reach.api;
        let request = format!(
            "POST /v{major}.{minor}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let head = head(&mut stream).await?;
        let status = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        if matches!(status.as_str(), "101" | "200") {
            return Ok(stream);
        }
        let mut said = vec![0; PIECE];
        let length = stream.read(&mut said).await?;
        let said = String::from_utf8_lossy(&said[..length]).trim().to_owned();
        let message = serde_json::from_str::<serde_json::Value>(&said).ok();
        let message = message.and_then(|said| said["message"].as_str().map(str::to_owned));
        Err(io::Error::other(message.unwrap_or(said)))
    };
    let answer = timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    answer.map_err(|error| error.to_string())
}

/// Byte for byte: what comes behind it is not ours to take.
async fn head(stream: &mut UnixStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MOST_HEAD {
            return Err(io::Error::other("the container engine answers something else than HTTP"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// What a program writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Output(Bytes),
    Errors(Bytes),
}

/// The side of a connection that output comes from.
#[derive(Debug)]
pub(super) struct Output {
    stream: OwnedReadHalf,
    read: BytesMut,
    /// Both streams share the connection; otherwise there is one, of a terminal.
    framed: bool,
}

/// Splits a connection into what is read from it and what is written to it.
pub(super) fn split(stream: UnixStream, is_terminal: bool) -> (Output, OwnedWriteHalf) {
    let (read, write) = stream.into_split();
    (Output { stream: read, read: BytesMut::new(), framed: !is_terminal }, write)
}

impl Output {
    /// The next piece; `None` when nothing more comes. May be given up at any time.
    pub(super) async fn next(&mut self) -> Option<Piece> {
        loop {
            if let Some(piece) = take(&mut self.read, self.framed) {
                return Some(piece);
            }
            self.read.reserve(PIECE);
            if !matches!(self.stream.read_buf(&mut self.read).await, Ok(1..)) {
                return None;
            }
        }
    }
}

fn take(read: &mut BytesMut, framed: bool) -> Option<Piece> {
    if !framed {
        return (!read.is_empty()).then(|| Piece::Output(read.split().freeze()));
    }
    let header = read.get(..HEADER)?;
    let (stream, length) = (header[0], [header[4], header[5], header[6], header[7]]);
    let length = u32::from_be_bytes(length) as usize;
    if read.len() < HEADER + length {
        return None;
    }
    read.advance(HEADER);
    let bytes = read.split_to(length).freeze();
    Some(if stream == ERRORS { Piece::Errors(bytes) } else { Piece::Output(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_told_apart() {
        let mut read = BytesMut::from(&b"\x01\0\0\0\0\0\0\x02ab\x02\0\0\0\0\0\0\x01c\x01\0\0"[..]);
        assert_eq!(take(&mut read, true), Some(Piece::Output("ab".into())));
        assert_eq!(take(&mut read, true), Some(Piece::Errors("c".into())));
        assert_eq!(take(&mut read, true), None);
        let mut read = BytesMut::from(&b"\x01\x02"[..]);
        assert_eq!(
            take(&mut read, false),
            Some(Piece::Output("\x01\x02".into())),
            "a terminal has no frames"
        );
        assert_eq!(take(&mut read, false), None);
    }

    #[tokio::test]
    async fn the_words_of_an_engine_that_refuses_are_told() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("socket");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let reach = Reach { socket: socket.to_string_lossy().into_owned(), api: (1, 41), is_podman: false };
        let engine = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = head(&mut stream).await;
            let body = r#"{"message":"no such exec"}"#;
            let answer = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n$ ").await.unwrap();
        };
        let client = async {
            assert_eq!(open(&reach, "/exec/1/start", "{}").await.unwrap_err(), "no such exec");
            let (mut output, _) = split(open(&reach, "/exec/2/start", "{}").await.unwrap(), true);
            assert_eq!(output.next().await, Some(Piece::Output("$ ".into())));
        };
        tokio::join!(engine, client);
    }
}
