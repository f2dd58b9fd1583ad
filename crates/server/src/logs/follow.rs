//! Reading output: what is there, or what is there and comes, until the job has ended.
//!
//! Guarantee: a reader holds one piece at a time; one that reads slowly slows only itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use muster_domain::JobId;
use muster_protocol::LogStream;
use muster_store::StoreExt;

use super::files::{LogStore, Run};
use super::watchers::Watcher;
use crate::app::Shared;

/// Bytes that are read at a time.
const PIECE: usize = 128 * 1024;
/// Other schedulers on a shared directory ring no bell here, so followers also look this often.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What a reader wants.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    pub(crate) job: JobId,
    /// `None` means the last attempt, and, when following, those after it.
    pub(crate) attempt: Option<u32>,
    pub(crate) streams: Vec<LogStream>,
}

/// One attempt's streams and how far each was read.
#[derive(Debug)]
struct Cursor {
    run: Run,
    positions: Vec<(LogStream, u64)>,
}

impl Selection {
    fn cursor(&self, run: Run) -> Cursor {
        Cursor { run, positions: self.streams.iter().map(|stream| (*stream, 0)).collect() }
    }

    /// The attempt to begin with.
    fn first(&self, runs: &[Run]) -> Option<Run> {
        let wanted = |run: &&Run| self.attempt.is_none_or(|attempt| attempt == run.attempt);
        runs.iter().rev().find(wanted).copied()
    }

    /// The attempt after `run`, when the reader wants to go on.
    fn next(&self, runs: &[Run], run: Run) -> Option<Run> {
        let wanted = |next: &&Run| self.attempt.is_none_or(|attempt| attempt == next.attempt);
        runs.iter().filter(|next| next.lease > run.lease).find(wanted).copied()
    }
}

/// The next piece of any stream of the cursor; empty when all of it was read.
fn read_piece(logs: &LogStore, job: JobId, cursor: &mut Cursor) -> io::Result<Bytes> {
    for (stream, position) in &mut cursor.positions {
        let path = logs.path(job, cursor.run, *stream);
        let piece = LogStore::read(&path, *position, PIECE)?;
        if !piece.is_empty() {
            *position += piece.len() as u64;
            return Ok(piece);
        }
    }
    Ok(Bytes::new())
}

/// Everything that is there now: one stream after the other.
pub(crate) fn whole(
    logs: Arc<LogStore>,
    selection: Selection,
) -> impl futures::Stream<Item = io::Result<Bytes>> {
    stream::try_unfold((logs, selection, None), |(logs, selection, mut cursor)| async move {
        let step = tokio::task::spawn_blocking(move || {
            if cursor.is_none() {
                let run = selection.first(&logs.runs(selection.job)?);
                cursor = run.map(|run| selection.cursor(run));
            }
            let piece = match &mut cursor {
                Some(cursor) => read_piece(&logs, selection.job, cursor)?,
                None => Bytes::new(),
            };
            Ok::<_, io::Error>((piece, (logs, selection, cursor)))
        });
        let (piece, state) = step.await.map_err(io::Error::other)??;
        Ok((!piece.is_empty()).then_some((piece, state)))
    })
}

/// A reader that stays until the job has ended and everything was read.
#[derive(Debug)]
pub(crate) struct Follow {
    app: Shared,
    selection: Selection,
    cursor: Option<Cursor>,
    watcher: Watcher,
}

impl Follow {
    pub(crate) fn new(app: Shared, selection: Selection) -> Self {
        let watcher = app.logs.watchers.watch(selection.job);
        Self { app, selection, cursor: None, watcher }
    }

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            self.watcher.reset();
            let piece = self.read().await?;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
            // The state is read first and the files once more after it: what was written before the
            // job ended is then seen.
            let ended = self.ended().await;
            let piece = self.read().await?;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
            if ended {
                return Ok(None);
            }
            tokio::select! {
                () = self.watcher.woken() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = self.app.closed() => return Ok(None),
            }
        }
    }

    async fn read(&mut self) -> io::Result<Bytes> {
        let (logs, selection, mut cursor) =
            (Arc::clone(&self.app.logs), self.selection.clone(), self.cursor.take());
        let step = tokio::task::spawn_blocking(move || {
            let piece = read_on(&logs, &selection, &mut cursor)?;
            Ok::<_, io::Error>((piece, cursor))
        });
        let (piece, cursor) = step.await.map_err(io::Error::other)??;
        self.cursor = cursor;
        Ok(piece)
    }

    /// Whether nothing more can come. A store that does not answer says nothing about that.
    async fn ended(&self) -> bool {
        match self.app.store.job(self.selection.job).await {
            Ok(Some(view)) => {
                let past = self.selection.attempt.is_some_and(|attempt| view.job.attempts > attempt);
                view.job.is_terminal() || past
            }
            Ok(None) => true,
            Err(error) => {
                tracing::warn!(%error, "a follower could not read its job");
                false
            }
        }
    }
}

/// The next piece, going on to the next attempt at the end of one.
fn read_on(logs: &LogStore, selection: &Selection, cursor: &mut Option<Cursor>) -> io::Result<Bytes> {
    loop {
        if let Some(current) = cursor {
            let piece = read_piece(logs, selection.job, current)?;
            if !piece.is_empty() {
                return Ok(piece);
            }
        }
        let runs = logs.runs(selection.job)?;
        let next = match cursor {
            Some(current) => selection.next(&runs, current.run),
            None => selection.first(&runs),
        };
        match next {
            Some(run) => *cursor = Some(selection.cursor(run)),
            None => return Ok(Bytes::new()),
        }
    }
}

/// The stream of a follower.
pub(crate) fn follow(reader: Follow) -> impl futures::Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(reader, |mut reader| async move {
        let piece = reader.next().await?;
        Ok(piece.map(|piece| (piece, reader)))
    })
}
