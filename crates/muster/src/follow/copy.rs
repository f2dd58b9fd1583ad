//! The output of a job on its way to us.
//!
//! Guarantee: every byte once and in order, also across lost connections and restarts of the scheduler; what
//! the scheduler does not have any more is shown as missing.

use std::io;
use std::time::Duration;

use muster_client::{Client, ClientError, LogItem, LogQuery};
use tokio::time::Instant;

use super::patience::Patience;
use super::sink::Sink;

/// A connection that was of use for so long was not in vain.
const LIVED: Duration = Duration::from_secs(1);

/// Whoever takes the output.
pub(crate) trait Taker: Send {
    /// Takes the next item; it may take as long as it needs.
    fn take(&mut self, item: LogItem) -> impl Future<Output = io::Result<()>> + Send;
}

impl Taker for Sink {
    async fn take(&mut self, item: LogItem) -> io::Result<()> {
        // A reader that is slow to take our output must not hold up signals and other tasks.
        tokio::task::block_in_place(|| self.write(&item))
    }
}

enum Interruption {
    Connection(ClientError),
    Output(io::Error),
}

/// Copies what the query names; ends when the scheduler says that nothing more will come. The query then says
/// where to go on.
pub(crate) async fn copy<T: Taker>(
    client: &Client,
    query: &mut LogQuery,
    taker: &mut T,
) -> anyhow::Result<()> {
    let mut patience = Patience::default();
    loop {
        let begun = Instant::now();
        match copy_once(client, query, taker).await {
            Ok(()) => return Ok(()),
            Err(Interruption::Connection(error)) => {
                if begun.elapsed() > LIVED {
                    patience.restore();
                }
                patience.bear(error).await?;
            }
            Err(Interruption::Output(error)) => return Err(error.into()),
        }
    }
}

async fn copy_once<T: Taker>(
    client: &Client,
    query: &mut LogQuery,
    taker: &mut T,
) -> Result<(), Interruption> {
    let mut reader = client.log_stream(query).await.map_err(Interruption::Connection)?;
    loop {
        let item = reader.next().await.map_err(Interruption::Connection);
        query.cursor = reader.cursor().map(str::to_owned);
        match item? {
            Some(LogItem::End) => return Ok(()),
            Some(item) => taker.take(item).await.map_err(Interruption::Output)?,
            None => {
                let url = client.url().to_owned();
                let source = "it ended before the output did".into();
                return Err(Interruption::Connection(ClientError::Interrupted { url, source }));
            }
        }
    }
}
