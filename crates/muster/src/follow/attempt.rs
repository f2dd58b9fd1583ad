//! The output of one attempt, from its first byte to its last.
//!
//! Guarantee: every byte once and in order, also across lost connections.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use muster_client::{Client, ClientError, OutputQuery};
use tokio::task::JoinSet;

use super::patience::Patience;
use super::sink::Sink;

/// Which output to copy.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) job_id: String,
    pub(crate) number: u32,
    /// Until the attempt is over, instead of what is there now.
    pub(crate) follow: bool,
}

/// Shows from outside whether output still moves.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    begun: AtomicU64,
    written: AtomicU64,
}

impl Pulse {
    /// How many pieces were written.
    pub(crate) fn count(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether a piece waits for our own reader.
    pub(crate) fn is_writing(&self) -> bool {
        self.begun.load(Ordering::Relaxed) != self.count()
    }
}

/// Copies the wanted streams at the same time; ends when all have ended.
pub(crate) async fn copy_attempt(
    client: Client,
    attempt: Attempt,
    sink: Sink,
    pulse: Arc<Pulse>,
) -> anyhow::Result<()> {
    let mut copies = JoinSet::new();
    for stream in sink.streams.list() {
        let query = OutputQuery {
            job_id: attempt.job_id.clone(),
            stream,
            attempt: Some(attempt.number),
            follow: attempt.follow,
        };
        let copy = Copy {
            client: client.clone(),
            query,
            number: attempt.number,
            sink,
            pulse: Arc::clone(&pulse),
            copied: 0,
        };
        copies.spawn(copy.run());
    }
    while let Some(copied) = copies.join_next().await {
        copied??;
    }
    Ok(())
}

/// One stream on its way to us.
struct Copy {
    client: Client,
    query: OutputQuery,
    number: u32,
    sink: Sink,
    pulse: Arc<Pulse>,
    /// Bytes that were written; a new connection begins from the first byte again.
    copied: u64,
}

enum Interruption {
    Connection(ClientError),
    Output(io::Error),
}

impl Copy {
    async fn run(mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        loop {
            match self.run_once(&mut patience).await {
                Ok(()) => return Ok(()),
                Err(Interruption::Connection(error)) => patience.bear(error).await?,
                Err(Interruption::Output(error)) => return Err(error.into()),
            }
        }
    }

    async fn run_once(&mut self, patience: &mut Patience) -> Result<(), Interruption> {
        let mut reader = self.client.output(&self.query).await.map_err(Interruption::Connection)?;
        patience.restore();
        let mut seen = 0;
        while let Some(bytes) = reader.next().await.map_err(Interruption::Connection)? {
            let known = usize::try_from(self.copied - seen).unwrap_or(usize::MAX).min(bytes.len());
            seen += known as u64;
            let news = &bytes[known..];
            if !news.is_empty() {
                self.write(news).map_err(Interruption::Output)?;
                self.copied += news.len() as u64;
                seen = self.copied;
            }
        }
        Ok(())
    }

    /// A reader that is slow to take our output must not hold up signals and other streams.
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.pulse.begun.fetch_add(1, Ordering::Relaxed);
        let written = tokio::task::block_in_place(|| self.sink.write(self.number, self.query.stream, bytes));
        self.pulse.written.fetch_add(1, Ordering::Relaxed);
        written
    }
}
