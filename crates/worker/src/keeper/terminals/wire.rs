//! Messages over the socket of a session: a length of four bytes, little endian, and the bytes.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use muster_protocol::{MAX_TERMINAL_FRAME, TerminalFrame};

/// No message is longer, without its length.
pub(crate) const MAX_MESSAGE_BYTES: usize = MAX_TERMINAL_FRAME;

/// The next message; `None` when the other side has ended the session.
pub(super) fn read_message(mut stream: &UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE_BYTES {
        return Err(io::Error::other("a message is too long"));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok(Some(message))
}

/// The next frame.
pub(super) fn read(stream: &UnixStream) -> io::Result<Option<TerminalFrame>> {
    match read_message(stream)? {
        None => Ok(None),
        Some(message) => TerminalFrame::decode(&message).map(Some).map_err(io::Error::other),
    }
}

/// Sends a frame, in one piece.
pub(super) fn write(mut stream: &UnixStream, frame: &TerminalFrame) -> io::Result<()> {
    let message = frame.encode();
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(message.len() + 4);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&message);
    stream.write_all(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cross_and_the_end_is_seen() {
        let (one, other) = UnixStream::pair().unwrap();
        write(&one, &TerminalFrame::Input(b"x".to_vec())).unwrap();
        assert_eq!(read(&other).unwrap(), Some(TerminalFrame::Input(b"x".to_vec())));
        drop(one);
        assert_eq!(read(&other).unwrap(), None);
    }

    #[test]
    fn a_message_that_is_too_long_ends_the_session() {
        let (one, other) = UnixStream::pair().unwrap();
        (&one).write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(read_message(&other).is_err());
    }
}
