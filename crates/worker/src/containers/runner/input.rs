//! The standard input of a container: a file, or what is typed into a terminal, passed on to it.
//!
//! Guarantee: the container reads the bytes of a file in their order and then its end; if the engine goes away before all of them
//! were passed on, the container does not go on without the rest.

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::OwnedWriteHalf;
use tokio::task::JoinHandle;

use crate::containers::own_terminal::OwnTerminal;

/// Where the engine takes what the container reads.
type Into = Pin<Box<dyn AsyncWrite + Send>>;

/// Where it comes from and where it goes.
enum Source {
    File(Option<File>, Into),
    Terminal(Arc<OwnTerminal>, OwnedWriteHalf),
}

/// What is on its way.
pub(super) struct Input {
    waiting: Option<Source>,
    task: Option<JoinHandle<()>>,
    is_over: Arc<AtomicBool>,
}

/// Opens the file. Nobody else needs its name.
pub(super) fn open(path: Option<&str>) -> io::Result<Option<File>> {
    let Some(path) = path else { return Ok(None) };
    let file = File::open(path)?;
    // What cannot be removed now is removed when the attempt has ended.
    let _ = std::fs::remove_file(path);
    Ok(Some(file))
}

impl Input {
    /// A file that is passed on from the start of the container on.
    pub(super) fn waiting(file: Option<File>, into: Into) -> Self {
        let is_over = Arc::new(AtomicBool::new(file.is_none()));
        Self { waiting: Some(Source::File(file, into)), task: None, is_over }
    }

    /// What is typed into a terminal. It is never over.
    pub(super) fn typed(terminal: Arc<OwnTerminal>, into: OwnedWriteHalf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        Self { waiting: Some(Source::Terminal(terminal, into)), task: None, is_over }
    }

    /// The container was started.
    pub(super) fn begin(&mut self) {
        let noted = Arc::clone(&self.is_over);
        self.task = match self.waiting.take() {
            Some(Source::File(Some(file), into)) => Some(tokio::spawn(async move {
                // What a program that has ended does not read, or an engine that is gone, shows in its end.
                if pass(file, into).await.is_ok() {
                    noted.store(true, Ordering::Relaxed);
                }
            })),
            Some(Source::Terminal(terminal, into)) => {
                Some(tokio::spawn(async move { terminal.pass_on(into).await }))
            }
            Some(Source::File(None, _)) | None => None,
        };
    }

    /// Whether all of it was passed on.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn pass(file: File, mut into: Into) -> io::Result<()> {
    let mut file = tokio::fs::File::from_std(file);
    tokio::io::copy(&mut file, &mut into).await?;
    into.shutdown().await
}
