//! What crosses a terminal session: frames between the client and the worker, and the order that brings them together.
//!
//! A session is one WebSocket from end to end; the schedulers between pass its bytes on unread. Each message of it is one
//! frame: a letter that says what it is, then bytes as they are or an object as JSON.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// No frame is longer, the letter included.
pub const MAX_TERMINAL_FRAME: usize = 256 * 1024;

/// Names the secret of a session in the request of its worker.
pub const HEADER_TERMINAL_SECRET: &str = "x-muster-terminal-secret";

/// The protocol that the worker asks to change over to.
pub const TERMINAL_UPGRADE: &str = "muster-terminal";

/// The size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

/// What a session is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TerminalKind {
    /// A new process beside those of the job.
    Exec,
    /// The terminal that the job itself runs in.
    Attach,
}

/// The first frame of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TerminalOpen {
    /// The program to start, with its arguments. Only for `exec`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// The size of the client's terminal. `exec`: without it the program gets pipes. `attach`: without it the size stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<TerminalSize>,
    /// The value of `TERM` for a program that gets a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub term: Option<String>,
    /// Only look: input and sizes of this client are ignored. Only for `attach`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// How a session came to its end: that of the program of `exec`, or of the attempt of `attach`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct TerminalEnd {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The program did not end by itself: the job did, or the session was idle for too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalFrame {
    /// From the client: what to open. The first frame, and only that.
    Open(TerminalOpen),
    /// From the client: what was typed, or read from its standard input.
    Input(Vec<u8>),
    /// From the client: there is no more input.
    InputEnd,
    /// From the client: its terminal has another size now.
    Resize(TerminalSize),
    /// From the client: a signal for the program of `exec`, by its number on Linux.
    Signal(u8),
    /// From the worker: the session is open.
    Opened,
    /// From the worker: what was written to the terminal, or to standard output.
    Output(Vec<u8>),
    /// From the worker: what was written to standard error.
    ErrorOutput(Vec<u8>),
    /// From the worker: the last frame.
    Ended(TerminalEnd),
    /// From the worker: the last frame of a session that could not be opened, and why.
    Refused(String),
}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    #[error("an empty message is no frame")]
    Empty,
    #[error("no frame begins with {0:?}")]
    Unknown(char),
    #[error("a frame has {0} bytes, and {MAX_TERMINAL_FRAME} is the most")]
    TooLong(usize),
    #[error("a frame that begins with {0:?} cannot be read: {1}")]
    Unreadable(char, String),
}

impl TerminalFrame {
    /// The bytes of a message.
    pub fn encode(&self) -> Vec<u8> {
        // Plain values always have a JSON form.
        let json = |value: serde_json::Result<Vec<u8>>| value.unwrap_or_default();
        match self {
            Self::Open(open) => framed(b'o', &json(serde_json::to_vec(open))),
            Self::Input(bytes) => framed(b'i', bytes),
            Self::InputEnd => framed(b'z', &[]),
            Self::Resize(size) => framed(b'r', &json(serde_json::to_vec(size))),
            Self::Signal(number) => framed(b's', &[*number]),
            Self::Opened => framed(b'O', &[]),
            Self::Output(bytes) => framed(b'1', bytes),
            Self::ErrorOutput(bytes) => framed(b'2', bytes),
            Self::Ended(end) => framed(b'X', &json(serde_json::to_vec(end))),
            Self::Refused(why) => framed(b'F', why.as_bytes()),
        }
    }

    /// Reads a message. What a newer version may send is refused, so that nothing is taken for something else.
    pub fn decode(message: &[u8]) -> Result<Self, BadFrame> {
        if message.len() > MAX_TERMINAL_FRAME {
            return Err(BadFrame::TooLong(message.len()));
        }
        let (letter, rest) = message.split_first().ok_or(BadFrame::Empty)?;
        let unreadable =
            |error: serde_json::Error| BadFrame::Unreadable(char::from(*letter), error.to_string());
        Ok(match letter {
            b'o' => Self::Open(serde_json::from_slice(rest).map_err(unreadable)?),
            b'i' => Self::Input(rest.to_vec()),
            b'z' => Self::InputEnd,
            b'r' => Self::Resize(serde_json::from_slice(rest).map_err(unreadable)?),
            b's' => match rest {
                [number] => Self::Signal(*number),
                _ => return Err(BadFrame::Unreadable('s', "a signal is one byte".to_owned())),
            },
            b'O' => Self::Opened,
            b'1' => Self::Output(rest.to_vec()),
            b'2' => Self::ErrorOutput(rest.to_vec()),
            b'X' => Self::Ended(serde_json::from_slice(rest).map_err(unreadable)?),
            b'F' => Self::Refused(String::from_utf8_lossy(rest).into_owned()),
            other => return Err(BadFrame::Unknown(char::from(*other))),
        })
    }
}

fn framed(letter: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(letter);
    message.extend_from_slice(bytes);
    message
}

/// Tells a worker that somebody wants a session with one of its jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TerminalOrder {
    /// The name of the session: `GET /jobs/{job_id}/terminals/{session}` joins it.
    pub session: String,
    /// Good for one use, in the header `x-muster-terminal-secret`.
    pub secret: String,
    pub job_id: String,
    pub lease: u64,
    pub kind: TerminalKind,
    /// The session ends when nothing was typed or written for so long; 0 means never.
    #[serde(default)]
    pub idle_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were() {
        let size = TerminalSize { columns: 120, rows: 40 };
        let open = TerminalOpen {
            argv: vec!["sh".into()],
            size: Some(size),
            term: Some("xterm".into()),
            read_only: true,
        };
        let end = TerminalEnd { exit_code: Some(3), signal: None, reason: Some("why".into()) };
        let frames = [
            TerminalFrame::Open(open),
            TerminalFrame::Input(vec![0, 255, b'\n']),
            TerminalFrame::InputEnd,
            TerminalFrame::Resize(size),
            TerminalFrame::Signal(2),
            TerminalFrame::Opened,
            TerminalFrame::Output(Vec::new()),
            TerminalFrame::ErrorOutput(vec![1]),
            TerminalFrame::Ended(end),
            TerminalFrame::Refused("no".into()),
        ];
        for frame in frames {
            assert_eq!(TerminalFrame::decode(&frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_with_the_reason() {
        assert_eq!(TerminalFrame::decode(b""), Err(BadFrame::Empty));
        assert_eq!(TerminalFrame::decode(b"?"), Err(BadFrame::Unknown('?')));
        assert!(matches!(TerminalFrame::decode(b"r{"), Err(BadFrame::Unreadable('r', _))));
        assert!(matches!(TerminalFrame::decode(b"s"), Err(BadFrame::Unreadable('s', _))));
        let long = vec![b'i'; MAX_TERMINAL_FRAME + 1];
        assert_eq!(TerminalFrame::decode(&long), Err(BadFrame::TooLong(MAX_TERMINAL_FRAME + 1)));
    }
}
