//! The output of a container on its way to the streams of the runner.
//!
//! Guarantee: each stream is passed on byte for byte; what was passed on before a connection broke is not passed on again.

use std::io::{self, Write as _};
use std::pin::Pin;

use bollard::container::LogOutput;
use bollard::errors::Error;
use futures::{Stream, StreamExt as _};

/// A stream of pieces of output.
pub(super) type Pieces = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// How much of both streams was passed on, and how much of what comes is known already.
#[derive(Debug, Default)]
pub(super) struct Passed {
    stdout: Position,
    stderr: Position,
}

#[derive(Debug, Default)]
struct Position {
    passed: u64,
    /// Bytes that come again.
    known: u64,
}

impl Position {
    /// The part that is new.
    fn fresh<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let repeated = usize::try_from(self.known).unwrap_or(usize::MAX).min(piece.len());
        self.known -= repeated as u64;
        let fresh = &piece[repeated..];
        self.passed += fresh.len() as u64;
        fresh
    }
}

impl Passed {
    /// Everything comes once more, from the beginning.
    pub(super) fn again(&mut self) {
        for position in [&mut self.stdout, &mut self.stderr] {
            position.known = position.passed;
        }
    }

    /// Passes one piece on. A reader that is gone costs output and not the job.
    fn pass(&mut self, piece: &LogOutput) {
        let written: io::Result<()> = match piece {
            LogOutput::StdErr { message } => io::stderr().lock().write_all(self.stderr.fresh(message)),
            LogOutput::StdOut { message } | LogOutput::Console { message } | LogOutput::StdIn { message } => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(self.stdout.fresh(message)).and_then(|()| stdout.flush())
            }
        };
        drop(written);
    }
}

/// Passes everything on until the stream ends. Says whether it ended well.
pub(super) async fn pump(pieces: &mut Pieces, passed: &mut Passed) -> bool {
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => passed.pass(&piece),
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_again_is_left_out() {
        let mut position = Position::default();
        assert_eq!(position.fresh(b"abc"), b"abc");
        position.known = position.passed;
        assert_eq!(position.fresh(b"ab"), b"");
        assert_eq!(position.fresh(b"cde"), b"de");
        assert_eq!(position.fresh(b"f"), b"f");
        assert_eq!((position.passed, position.known), (6, 0));
    }
}
