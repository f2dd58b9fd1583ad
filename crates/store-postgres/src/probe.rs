//! A connection that only asks whether the server is there, so that the answer does not wait for a free one.

use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::error::during;
use crate::pool::Target;
use crate::tx::Done;

/// The connection, made when it is first needed and again after it was lost.
#[derive(Debug, Default)]
pub(crate) struct Probe(Mutex<Option<Client>>);

impl Probe {
    /// Asks once; true when a new connection had to be made. A caller that stops waiting takes the connection along: the
    /// next one makes another.
    pub(crate) async fn ask(&self, target: &Target) -> Done<bool> {
        let mut kept = self.0.lock().await;
        let (client, anew) = match kept.take().filter(|client| !client.is_closed()) {
            Some(client) => (client, false),
            None => (connect(target).await.map_err(during("ping"))?, true),
        };
        client.batch_execute("SELECT 1").await.map_err(during("ping"))?;
        *kept = Some(client);
        Ok(anew)
    }

    /// Lets go of the connection. Whoever asks just now lets go of it later.
    pub(crate) fn close(&self) {
        if let Ok(mut kept) = self.0.try_lock() {
            *kept = None;
        }
    }
}

async fn connect(target: &Target) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = target.connect().await?;
    // Ends when the client is dropped or the connection lost.
    tokio::spawn(connection);
    Ok(client)
}
