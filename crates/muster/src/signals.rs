//! The signals by which people, shells and service managers end a command.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit;

/// Listens from its making on; a signal that comes early is not lost.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal; returns the code that a program ended by it leaves with.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => exit::CANCELLED,
            _ = self.terminate.recv() => exit::TERMINATED,
        }
    }
}
