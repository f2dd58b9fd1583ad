//! A thread that owns a connection and runs what it is sent, one piece after the other.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use muster_store::StoreError;
use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use crate::error::failed;
use crate::tx::Done;

type Task = Box<dyn FnOnce(&Connection) + Send>;

/// The handle of the thread. Dropping it waits until the thread has finished what it was sent.
#[derive(Debug)]
pub(crate) struct DatabaseThread {
    tasks: Mutex<Option<Sender<Task>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Resolves when the thread has let go of the connection.
    ended: watch::Receiver<()>,
}

impl DatabaseThread {
    /// Starts the thread. `last` runs on the connection when the store is closed; what it owns is dropped
    /// after the connection.
    pub(crate) fn start(
        name: &str,
        connection: Connection,
        last: impl FnOnce(&Connection) + Send + 'static,
    ) -> Done<Self> {
        let (tasks, received) = mpsc::channel::<Task>();
        let (running, ended) = watch::channel(());
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            serve(&connection, &received);
            last(&connection);
            drop(connection);
            drop(running);
        });
        let thread = thread.map_err(|error| failed("open", error.to_string()))?;
        Ok(Self { tasks: Mutex::new(Some(tasks)), thread: Mutex::new(Some(thread)), ended })
    }

    /// Runs `task` on the thread and returns its result. Once sent it runs, also when nobody waits.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        task: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Done<T> {
        let (answer, answered) = oneshot::channel();
        let task: Task = Box::new(move |connection| {
            let _nobody_waits = answer.send(task(connection));
        });
        let gone = || failed("reach the database thread", "it has ended");
        match self.tasks.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            None => return Err(StoreError::Closed),
            Some(tasks) => tasks.send(task).map_err(|_| gone())?,
        }
        answered.await.map_err(|_| gone())?
    }

    /// Takes no more tasks and waits until those taken are done and the connection is closed.
    pub(crate) async fn close(&self) {
        self.refuse_more();
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }

    fn refuse_more(&self) {
        drop(self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for DatabaseThread {
    fn drop(&mut self) {
        self.refuse_more();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("a database thread panicked");
        }
    }
}

fn serve(connection: &Connection, tasks: &Receiver<Task>) {
    while let Ok(task) = tasks.recv() {
        task(connection);
    }
}
