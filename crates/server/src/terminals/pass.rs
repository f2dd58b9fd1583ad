//! Passes bytes between two connections until one of them ends.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::time::timeout;

use crate::listener::{Stream, StreamFuture};

/// How long a connection may take to change over once that was agreed.
const CHANGE_OVER: Duration = Duration::from_secs(30);
/// How long one direction may go on when the other has ended: for the last word of the other side.
const LINGER: Duration = Duration::from_secs(10);
const BUFFER_BYTES: usize = 16 * 1024;

/// The two connections of a session, which change over just now.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) client: StreamFuture,
    pub(crate) worker: StreamFuture,
}

/// Passes everything on until one side ends, or `stop` resolves.
pub(crate) async fn pass(ends: Ends, stop: impl Future<Output = ()>) {
    let both = timeout(CHANGE_OVER, futures::future::try_join(ends.client, ends.worker));
    let (client, worker) = match both.await {
        Ok(Ok(both)) => both,
        Ok(Err(error)) => return tracing::debug!(%error, "a terminal did not come about"),
        Err(_) => return tracing::debug!("a terminal did not come about in time"),
    };
    tokio::select! {
        () = between(client, worker) => {}
        () = stop => {}
    }
}

async fn between(client: Box<dyn Stream>, worker: Box<dyn Stream>) {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_worker, to_worker) = tokio::io::split(worker);
    let mut up = std::pin::pin!(one_way(from_client, to_worker));
    let mut down = std::pin::pin!(one_way(from_worker, to_client));
    // What follows is bounded, so that how it ends does not matter.
    tokio::select! {
        _ = &mut up => drop(timeout(LINGER, down).await),
        _ = &mut down => drop(timeout(LINGER, up).await),
    }
}

/// Reads no more before what was read is written: whoever sends waits for whoever reads.
async fn one_way(mut from: ReadHalf<Box<dyn Stream>>, mut to: WriteHalf<Box<dyn Stream>>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await;
        let length = match read {
            Ok(0) | Err(_) => break,
            Ok(length) => length,
        };
        to.write_all(&buffer[..length]).await?;
        to.flush().await?;
    }
    to.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, duplex};

    use super::*;

    fn end(stream: tokio::io::DuplexStream) -> StreamFuture {
        StreamFuture::new(async move {
            let stream: Box<dyn Stream> = Box::new(stream);
            Ok(stream)
        })
    }

    #[tokio::test]
    async fn bytes_go_both_ways_and_the_end_of_one_side_is_the_end_of_both() {
        let (mut client, one) = duplex(16);
        let (mut worker, other) = duplex(16);
        let passing =
            tokio::spawn(pass(Ends { client: end(one), worker: end(other) }, std::future::pending()));
        client.write_all(b"to the worker").await.unwrap();
        worker.write_all(b"to the client").await.unwrap();
        let mut buffer = [0; 13];
        worker.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"to the worker");
        client.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"to the client");
        drop(worker);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        drop(client);
        passing.await.unwrap();
    }

    #[tokio::test]
    async fn a_scheduler_that_ends_ends_its_sessions() {
        let (_client, one) = duplex(16);
        let (_worker, other) = duplex(16);
        pass(Ends { client: end(one), worker: end(other) }, std::future::ready(())).await;
    }
}
