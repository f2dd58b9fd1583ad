//! Standard output and error, written by a thread of their own: a reader that is slow keeps us from reading, and from
//! nothing else.

use std::io::{self, Write as _};

use tokio::sync::{mpsc, oneshot};

/// Pieces that may wait.
const AHEAD: usize = 4;

/// Something to write.
#[derive(Debug)]
pub(super) enum Piece {
    Output(Vec<u8>),
    ErrorOutput(Vec<u8>),
}

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Output {
    pieces: mpsc::Sender<Piece>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Output {
    pub(super) fn start() -> Self {
        let (pieces, mut receiver) = mpsc::channel(AHEAD);
        let (sender, done) = oneshot::channel();
        std::thread::spawn(move || {
            let mut written = Ok(());
            while let Some(piece) = receiver.blocking_recv() {
                written = write(&piece);
                if written.is_err() {
                    break;
                }
            }
            // Nobody asks when the program has left for another reason.
            let _ = sender.send(written);
        });
        Self { pieces, done }
    }

    /// Says false when nobody reads any more.
    pub(super) async fn write(&self, piece: Piece) -> bool {
        self.pieces.send(piece).await.is_ok()
    }

    /// Waits until everything is written.
    pub(super) async fn finish(self) -> io::Result<()> {
        drop(self.pieces);
        self.done.await.unwrap_or(Ok(()))
    }
}

fn write(piece: &Piece) -> io::Result<()> {
    match piece {
        Piece::Output(bytes) => {
            let mut out = io::stdout().lock();
            out.write_all(bytes)?;
            out.flush()
        }
        Piece::ErrorOutput(bytes) => {
            let mut out = io::stderr().lock();
            out.write_all(bytes)?;
            out.flush()
        }
    }
}
