//! Reading on: what is there, or what is there and comes, until the job has ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use muster_protocol::LogGapCause;
use muster_store::StoreExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::batch::{Content, Item};
use super::cursor::Cursor;
use super::reader::Reader;
use super::watchers::Watcher;
use crate::app::Shared;
use crate::metrics::Open;
use crate::moved_output::{self, Sight};
use crate::peers;

/// Other schedulers on a shared directory ring no bell here, so followers also look this often, ...
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// ... and ask this often whether the job has ended although nothing was heard of it.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// What a reader is told.
#[derive(Debug)]
pub(crate) enum Told {
    Items(Vec<Item>),
    /// Everything that there is, or ever will be, was read.
    End,
    /// The scheduler shuts down, or the worker sends to another scheduler now. The reader should ask again.
    Closed,
    /// Nothing has come for as long as the caller wants to wait.
    Silence,
}

/// A reader that may stay until the job has ended.
#[derive(Debug)]
pub(crate) struct Follow {
    app: Shared,
    reader: Reader,
    sight: Sight,
    /// What was read before it was asked for.
    ready: Option<Vec<Item>>,
    /// Only those that stay are woken.
    watcher: Option<Watcher>,
    asked: Option<(Instant, u64)>,
    ended: bool,
    /// It was asked at the end what has moved.
    looked: bool,
    /// What comes is sent to another scheduler.
    moved: bool,
}

impl Follow {
    pub(crate) fn new(app: Shared, reader: Reader, stay: bool, sight: Sight) -> Self {
        let watcher = stay.then(|| app.logs.watchers.watch(&reader));
        Self {
            app,
            reader,
            sight,
            ready: None,
            watcher,
            asked: None,
            ended: false,
            looked: false,
            moved: false,
        }
    }

    /// Reads the first piece where that may fail. The reader is then told so, instead of getting an answer that
    /// breaks off.
    pub(crate) async fn prime(mut self) -> io::Result<Self> {
        if self.sight.moved.is_far() {
            self.ready = Some(self.read().await?);
        }
        Ok(self)
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        self.reader.cursor()
    }

    /// Counts this reader among those that were too slow.
    pub(super) fn count_dropped(&self) {
        self.app.metrics.log_reader_dropped();
    }

    /// The next thing to know, within `patience`.
    pub(crate) async fn next(&mut self, patience: Duration) -> io::Result<Told> {
        let deadline = Instant::now() + patience;
        loop {
            let events = self.watcher.as_mut().map(Watcher::reset);
            if events.is_some() && *self.app.closing.borrow() {
                return Ok(Told::Closed);
            }
            let items = match self.ready.take() {
                Some(items) => items,
                None => self.read().await?,
            };
            if !items.is_empty() {
                return Ok(Told::Items(items));
            }
            // Another scheduler that shares the files may have moved them meanwhile.
            if (events.is_none() || self.ended) && !self.looked {
                self.looked = true;
                if self.look_again().await {
                    continue;
                }
            }
            let Some(events) = events else { return Ok(Told::End) };
            if self.ended {
                return Ok(Told::End);
            }
            // The state is read first and the files once more after it: what was written before the
            // job ended is then seen.
            self.ask(events).await;
            if self.ended {
                continue;
            }
            if self.moved {
                return Ok(Told::Closed);
            }
            if Instant::now() >= deadline {
                return Ok(Told::Silence);
            }
            let Some(watcher) = &mut self.watcher else { return Ok(Told::End) };
            tokio::select! {
                () = watcher.woken() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = tokio::time::sleep_until(deadline) => {}
                () = self.app.closed() => return Ok(Told::Closed),
            }
        }
    }

    /// Finds out what has moved by now; whether there may be something new.
    async fn look_again(&mut self) -> bool {
        if !self.app.logs.waiting.is_on() {
            return false;
        }
        let moved = moved_output::load(&self.app, self.reader.selection.job).await;
        moved.map(|moved| self.sight.moved = moved).is_ok()
    }

    async fn read(&mut self) -> io::Result<Vec<Item>> {
        let logs = Arc::clone(&self.app.logs);
        let mut reader = self.reader.clone();
        let moved = self.sight.moved.clone();
        let (job, is_far) = (self.reader.selection.job, moved.is_far());
        let step = move || reader.read(&logs, &moved).map(|items| (items, reader));
        let logs = &self.app.logs;
        let read = if is_far { logs.fetching(job, step).await } else { logs.reading(job, step).await };
        let (items, reader) = read?;
        if let Some(watcher) = &self.watcher {
            watcher.came_to(&reader);
        }
        self.reader = reader;
        Ok(items)
    }

    /// Asks whether nothing more can come, when there is a reason to. A store that does not answer says
    /// nothing about that.
    async fn ask(&mut self, events: u64) {
        let now = Instant::now();
        if self.asked.is_some_and(|(at, seen)| seen == events && now < at + ASK_AGAIN) {
            return;
        }
        let selection = &self.reader.selection;
        match self.app.store.job(selection.job).await {
            Ok(Some(view)) => {
                let past = selection.attempt.is_some_and(|attempt| view.job.attempts > attempt);
                self.ended = view.job.is_terminal() || past;
                let attempt = selection.attempt;
                self.look_again().await;
                let moved = &self.sight.moved;
                self.moved = !self.ended && peers::has_moved(&self.app, &view.job, attempt, moved).await;
                self.asked = Some((now, events));
            }
            Ok(None) => self.ended = true,
            Err(error) => tracing::warn!(%error, "a follower could not read its job"),
        }
    }
}

/// What stands in raw output where something is missing.
pub(crate) fn marker(bytes: u64, cause: LogGapCause) -> String {
    let why = match cause {
        LogGapCause::Dropped => "dropped, the stream is longer than its limit",
        LogGapCause::Expired => "removed, they were too old or took too much space",
    };
    format!("\n[muster: {bytes} bytes of output are missing here: {why}]\n")
}

/// The plain bytes of a reader, with marks where something is missing. A shutdown breaks it off, so that
/// nobody takes it for complete. One that stays has a seat.
pub(crate) fn raw(
    reader: Follow,
    seat: Option<(OwnedSemaphorePermit, Open)>,
) -> impl futures::Stream<Item = io::Result<Bytes>> {
    stream::try_unfold((reader, seat), |(mut reader, seat)| async move {
        loop {
            match reader.next(ASK_AGAIN).await? {
                Told::Items(items) => return Ok(Some((plain(&items), (reader, seat)))),
                Told::End => return Ok(None),
                Told::Closed => {
                    return Err(io::Error::other(
                        "the scheduler is shutting down, or another one has the rest",
                    ));
                }
                Told::Silence => {}
            }
        }
    })
}

fn plain(items: &[Item]) -> Bytes {
    let text = |item: &Item| match &item.content {
        Content::Bytes(bytes) => bytes.clone(),
        Content::Missing { bytes, cause } => marker(*bytes, *cause).into(),
    };
    match items {
        [item] => text(item),
        items => items.iter().map(text).collect::<Vec<_>>().concat().into(),
    }
}
