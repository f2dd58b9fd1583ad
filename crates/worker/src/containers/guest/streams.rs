//! What a program in a container writes and reads, through the streams of the process that stands for it.
//!
//! Guarantee: a reader that is slow holds up the program and nothing else here; signals and ends are heard meanwhile.

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::containers::raw_stream::{Output, Piece};

/// Pieces that are on their way.
const ROOM: usize = 8;
const PIECE: usize = 32 * 1024;
/// How long nothing may come after the end before it counts as all.
const QUIET: Duration = Duration::from_millis(300);

/// Where the output goes.
#[derive(Debug)]
pub(super) struct Screen {
    reading: JoinHandle<()>,
    writing: JoinHandle<()>,
    read: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
}

impl Screen {
    pub(super) fn begin(mut output: Output) -> Self {
        let (sender, mut receiver) = mpsc::channel(ROOM);
        let (read, written) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (has_read, has_written) = (Arc::clone(&read), Arc::clone(&written));
        let reading = tokio::spawn(async move {
            while let Some(piece) = output.next().await {
                has_read.fetch_add(1, Ordering::Relaxed);
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
        });
        let writing = tokio::task::spawn_blocking(move || {
            while let Some(piece) = receiver.blocking_recv() {
                let sent = match &piece {
                    Piece::Output(bytes) => {
                        let mut stdout = std::io::stdout().lock();
                        stdout.write_all(bytes).and_then(|()| stdout.flush())
                    }
                    Piece::Errors(bytes) => std::io::stderr().lock().write_all(bytes),
                };
                // Nobody reads any more.
                if sent.is_err() {
                    return;
                }
                has_written.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { reading, writing, read, written }
    }

    /// Writes what is left. What the program left running keeps nobody waiting.
    pub(super) async fn finish(mut self) {
        loop {
            let before = self.read.load(Ordering::Relaxed);
            if timeout(QUIET, &mut self.reading).await.is_ok() || self.writing.is_finished() {
                break;
            }
            // Somebody who is slow has not taken all that was read.
            let is_quiet = before == self.read.load(Ordering::Relaxed);
            if is_quiet && before == self.written.load(Ordering::Relaxed) {
                break;
            }
        }
        // With the reader its end of the channel goes.
        self.reading.abort();
        let _ = (&mut self.writing).await;
    }
}

/// Passes on what is read from standard input, until there is no more.
pub(super) async fn read_in(mut into: OwnedWriteHalf) {
    let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(ROOM);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = stdin.read(&mut piece) {
            if sender.blocking_send(piece[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    while let Some(piece) = receiver.recv().await {
        if into.write_all(&piece).await.is_err() {
            break;
        }
    }
    // The program reads the end, and is still heard.
    let _ = into.shutdown().await;
}
