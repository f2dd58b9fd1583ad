//! Standard input, read by a thread of its own, so that nothing waits for a key.
//!
//! Guarantee: what is typed between two sessions of one program is not lost: one thread reads for all of them.

use std::io::Read as _;
use std::sync::{Arc, OnceLock};

use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};

const PIECE_BYTES: usize = 16 * 1024;
/// Pieces that may wait: whoever types ahead waits too.
const AHEAD: usize = 4;

type Pieces = mpsc::Receiver<Vec<u8>>;

/// What is typed, or comes from a file or a pipe, for one session at a time.
#[derive(Debug)]
pub(super) struct Input(OwnedMutexGuard<Pieces>);

impl Input {
    /// Begins to read, or goes on where the session before has stopped.
    pub(super) async fn take() -> Self {
        static PIECES: OnceLock<Arc<Mutex<Pieces>>> = OnceLock::new();
        let pieces = PIECES.get_or_init(|| Arc::new(Mutex::new(read())));
        Self(Arc::clone(pieces).lock_owned().await)
    }

    /// The next piece; `None` at the end of input.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        self.0.recv().await
    }
}

fn read() -> Pieces {
    let (sender, receiver) = mpsc::channel(AHEAD);
    // Nobody waits for it at the end: it may be waiting for a key.
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match input.read(&mut piece) {
                Ok(0) => return,
                Ok(length) => {
                    if sender.blocking_send(piece[..length].to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    receiver
}
