//! The output of all tasks of a gang at once, each line with the number of its task before it.
//!
//! What was written before is put in order by its time; what comes is shown as it comes. Guarantees: lines of
//! different tasks are never mixed within a line; every byte of every task once; the connections are bounded
//! whatever the size of the gang is.

mod history;
mod lines;
mod live;
mod sink;
#[cfg(test)]
mod tests;

use std::io;

use muster_client::{Client, LogItem, LogQuery};

use self::lines::Lines;
pub(crate) use self::sink::RankSink;

/// Connections at the same time. Larger gangs are read in groups, and followed in turns.
const MOST: usize = 64;

/// One task: its number, and which of its output is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Rank {
    pub(crate) index: u32,
    pub(crate) query: LogQuery,
}

/// Which of the output is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// What there is.
    Past,
    /// What comes until all tasks have ended; nothing is there yet.
    Coming,
    Both,
}

/// Whoever takes the lines.
trait Writes: Send {
    /// Whether the items are to be cut into whole lines.
    fn wants_lines(&self) -> bool;
    /// Writes an item at once. It may block as long as the reader does.
    fn write(&mut self, rank: &Rank, item: &LogItem) -> io::Result<()>;
}

/// A task whose output is under way.
#[derive(Debug)]
struct Source {
    rank: Rank,
    /// Its beginnings of lines that have not ended yet.
    lines: Lines,
}

/// Copies the output of the tasks.
pub(crate) async fn copy_ranks(
    client: &Client,
    ranks: Vec<Rank>,
    part: Part,
    sink: &mut RankSink,
) -> anyhow::Result<()> {
    copy_bounded(client, ranks, part, sink, MOST).await
}

async fn copy_bounded<W: Writes>(
    client: &Client,
    ranks: Vec<Rank>,
    part: Part,
    sink: &mut W,
    most: usize,
) -> anyhow::Result<()> {
    let cut = sink.wants_lines();
    let mut sources: Vec<Source> =
        ranks.into_iter().map(|rank| Source { rank, lines: Lines::new(cut) }).collect();
    if part != Part::Coming {
        let mut read = Vec::with_capacity(sources.len());
        while !sources.is_empty() {
            let later = sources.split_off(most.min(sources.len()));
            read.extend(history::show(client, sources, sink).await?);
            sources = later;
        }
        sources = read;
    }
    if part != Part::Past {
        return live::show(client, sources, sink, most).await;
    }
    for source in &mut sources {
        for item in source.lines.rest() {
            sink.write(&source.rank, &item)?;
        }
    }
    Ok(())
}
