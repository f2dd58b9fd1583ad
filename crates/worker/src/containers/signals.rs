//! The signals that a process takes for what runs in a container.
//!
//! Guarantee: every signal that a job can be told to stop by is caught from the first moment on, so that none ends the process
//! instead of the job.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use nix::libc;

/// What arrives, in its order.
#[derive(Debug)]
pub(super) struct Signals {
    receiver: mpsc::UnboundedReceiver<i32>,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut taken = vec![
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGUSR1,
            libc::SIGUSR2,
            libc::SIGALRM,
            libc::SIGABRT,
            libc::SIGWINCH,
        ];
        taken.extend(libc::SIGRTMIN()..=libc::SIGRTMAX());
        for number in taken {
            let mut stream = signal(SignalKind::from_raw(number))?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    if sender.send(number).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Self { receiver })
    }

    /// The next signal.
    pub(super) async fn next(&mut self) -> i32 {
        match self.receiver.recv().await {
            Some(number) => number,
            None => std::future::pending().await,
        }
    }

    /// Whether one has come that asks for the end.
    pub(super) fn end_is_asked_for(&mut self) -> bool {
        let mut asked = false;
        while let Ok(number) = self.receiver.try_recv() {
            asked |= number != libc::SIGWINCH;
        }
        asked
    }
}
