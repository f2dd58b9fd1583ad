//! What the tasks have written so far, put together by the time of writing.
//!
//! Each task is read by a connection of its own, no further ahead than a few lines: memory does not depend on
//! how much there is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use jiff::Timestamp;
use muster_client::{Client, LogItem};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Lines, Rank, Source, Writes};
use crate::follow::copy::{Taker, copy};

/// Items that are read ahead of each task.
const AHEAD: usize = 16;

/// Sends whole lines on.
struct Outlet {
    lines: Lines,
    sender: mpsc::Sender<LogItem>,
}

impl Taker for Outlet {
    async fn take(&mut self, item: LogItem) -> io::Result<()> {
        for item in self.lines.take(item) {
            self.sender.send(item).await.map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// Shows what there is of these tasks; gives them back with the place after it.
pub(super) async fn show<W: Writes>(
    client: &Client,
    group: Vec<Source>,
    sink: &mut W,
) -> anyhow::Result<Vec<Source>> {
    let mut reading = JoinSet::new();
    let mut queues = Vec::with_capacity(group.len());
    let ranks: Vec<Rank> = group.iter().map(|source| source.rank.clone()).collect();
    for (place, source) in group.into_iter().enumerate() {
        let (sender, receiver) = mpsc::channel(AHEAD);
        queues.push(receiver);
        let client = client.clone();
        reading.spawn(async move {
            let Source { mut rank, lines } = source;
            let wanted = (rank.query.follow, rank.query.timestamps);
            // Each piece needs a time of its own to find its place.
            (rank.query.follow, rank.query.timestamps) = (false, true);
            let mut outlet = Outlet { lines, sender };
            copy(&client, &mut rank.query, &mut outlet).await?;
            (rank.query.follow, rank.query.timestamps) = wanted;
            anyhow::Ok((place, Source { rank, lines: outlet.lines }))
        });
    }
    let mut merge = Merge::default();
    for (place, queue) in queues.iter_mut().enumerate() {
        merge.add(place, queue.recv().await);
    }
    while let Some((place, item)) = merge.next() {
        tokio::task::block_in_place(|| sink.write(&ranks[place], &item))?;
        merge.add(place, queues[place].recv().await);
    }
    let mut read = Vec::with_capacity(ranks.len());
    while let Some(source) = reading.join_next().await {
        read.push(source??);
    }
    read.sort_by_key(|(place, _)| *place);
    Ok(read.into_iter().map(|(_, source)| source).collect())
}

/// The next item of each task; the oldest leaves first.
#[derive(Debug, Default)]
struct Merge {
    heads: BinaryHeap<Reverse<(Timestamp, usize)>>,
    items: Vec<Option<LogItem>>,
    /// The time of the last item of each: one without a time stands where the one before it stands.
    last: Vec<Timestamp>,
}

impl Merge {
    fn add(&mut self, place: usize, item: Option<LogItem>) {
        if self.items.len() <= place {
            self.items.resize(place + 1, None);
            self.last.resize(place + 1, Timestamp::MIN);
        }
        if let Some(item) = &item {
            let at = match item {
                LogItem::Output { at, .. } => *at,
                LogItem::Gap(_) | LogItem::End => None,
            };
            // The order within a task is that of writing, whatever the clock did.
            let at = at.map_or(self.last[place], |at| at.max(self.last[place]));
            self.last[place] = at;
            self.heads.push(Reverse((at, place)));
        }
        self.items[place] = item;
    }

    fn next(&mut self) -> Option<(usize, LogItem)> {
        let Reverse((_, place)) = self.heads.pop()?;
        Some((place, self.items.get_mut(place)?.take()?))
    }
}
