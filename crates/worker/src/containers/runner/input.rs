//! The standard input of a container: a file that is passed on to it.
//!
//! Guarantee: the container reads the bytes of the file in their order and then its end; if the engine goes away before all of them
//! were passed on, the container does not go on without the rest.

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinHandle;

/// Where the engine takes what the container reads.
type Into = Pin<Box<dyn AsyncWrite + Send>>;

/// A file on its way.
#[derive(Debug)]
pub(super) struct Input {
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
    /// Begins to pass a file on.
    pub(super) fn begin(file: Option<File>, into: Into) -> Self {
        let is_over = Arc::new(AtomicBool::new(file.is_none()));
        let noted = Arc::clone(&is_over);
        let task = file.map(|file| {
            tokio::spawn(async move {
                // What a program that has ended does not read, or an engine that is gone, shows in its end.
                if pass(file, into).await.is_ok() {
                    noted.store(true, Ordering::Relaxed);
                }
            })
        });
        Self { task, is_over }
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
