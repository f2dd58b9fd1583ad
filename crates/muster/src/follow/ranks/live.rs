//! What the tasks write from now on, until all of them have ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use muster_client::{Client, LogItem};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::{Lines, Rank, Source, Writes};
use crate::exit;
use crate::follow::copy::{Taker, copy};
use crate::follow::patience::Patience;

/// Items that wait to be written.
const AHEAD: usize = 256;
/// Each task of a large gang is looked at once in so many times its size.
const TURN: Duration = Duration::from_millis(10);

/// Sends whole lines on, with the task that wrote them.
struct Outlet {
    place: usize,
    lines: Lines,
    sender: mpsc::Sender<(usize, LogItem)>,
}

impl Outlet {
    async fn send(&mut self, items: Vec<LogItem>) -> io::Result<()> {
        for item in items {
            self.sender.send((self.place, item)).await.map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl Taker for Outlet {
    async fn take(&mut self, item: LogItem) -> io::Result<()> {
        let items = self.lines.take(item);
        self.send(items).await
    }
}

/// Shows what comes; ends when all tasks have.
pub(super) async fn show<W: Writes>(
    client: &Client,
    sources: Vec<Source>,
    sink: &mut W,
    most: usize,
) -> anyhow::Result<()> {
    let (sender, mut receiver) = mpsc::channel(AHEAD);
    let mut reading = JoinSet::new();
    let ranks: Vec<Rank> = sources.iter().map(|source| source.rank.clone()).collect();
    let turns = (ranks.len() > most).then(|| Arc::new(Semaphore::new(most)));
    let pause = TURN.saturating_mul(u32::try_from(ranks.len()).unwrap_or(u32::MAX));
    for (place, Source { rank, lines }) in sources.into_iter().enumerate() {
        let (client, turns) = (client.clone(), turns.clone());
        let mut outlet = Outlet { place, lines, sender: sender.clone() };
        reading.spawn(async move {
            if let Some(turns) = turns {
                in_turns(&client, rank, &mut outlet, &turns, pause).await?;
            } else {
                let mut query = rank.query;
                query.follow = true;
                copy(&client, &mut query, &mut outlet).await?;
            }
            let rest = outlet.lines.rest();
            outlet.send(rest).await?;
            anyhow::Ok(())
        });
    }
    drop(sender);
    loop {
        tokio::select! {
            item = receiver.recv() => {
                let Some((place, item)) = item else { break };
                tokio::task::block_in_place(|| sink.write(&ranks[place], &item))?;
            }
            Some(read) = reading.join_next() => read??,
        }
    }
    while let Some(read) = reading.join_next().await {
        read??;
    }
    Ok(())
}

/// Reads what there is, again and again, with one of the connections that all share.
async fn in_turns(
    client: &Client,
    mut rank: Rank,
    outlet: &mut Outlet,
    turns: &Semaphore,
    pause: Duration,
) -> anyhow::Result<()> {
    rank.query.follow = false;
    let mut patience = Patience::default();
    loop {
        {
            let _turn = turns.acquire().await?;
            // The state first: what was written before the end is then seen.
            let ended = match client.job(&rank.query.job_id).await {
                Ok(job) => {
                    patience.restore();
                    exit::is_final(job.status)
                }
                Err(error) => {
                    patience.bear(error).await?;
                    continue;
                }
            };
            copy(client, &mut rank.query, outlet).await?;
            if ended {
                return Ok(());
            }
        }
        tokio::time::sleep(pause).await;
    }
}
