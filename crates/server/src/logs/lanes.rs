//! Threads that do nothing but read and write output, each with a bounded queue.
//!
//! Guarantees: output never occupies a thread that serves requests or commits; work with the same key is done
//! one after the other, in order; whoever brings more than a queue holds waits.

use std::io;
use std::panic;
use std::thread;

use tokio::sync::{mpsc, oneshot};

/// Pieces of work that wait for one thread before their bringers do.
const QUEUE: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// Some threads, chosen by key.
#[derive(Debug)]
pub(super) struct Lanes {
    queues: Vec<mpsc::Sender<Work>>,
}

impl Lanes {
    /// Starts the threads; they end with the last use of this value.
    pub(super) fn start(name: &str, count: usize) -> io::Result<Self> {
        let mut queues = Vec::with_capacity(count);
        for number in 0..count.max(1) {
            let (sender, mut queue) = mpsc::channel::<Work>(QUEUE);
            let serve = move || {
                while let Some(work) = queue.blocking_recv() {
                    // A thread outlives what goes wrong in one piece of work; its bringer hears of it.
                    let _ = panic::catch_unwind(panic::AssertUnwindSafe(work));
                }
            };
            thread::Builder::new().name(format!("{name}-{number}")).spawn(serve)?;
            queues.push(sender);
        }
        Ok(Self { queues })
    }

    /// Does the work on the thread of the key and returns what it returned.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        key: usize,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (done, result) = oneshot::channel();
        let work: Work = Box::new(move || {
            // Nobody waits any more when the request was given up.
            let _ = done.send(work());
        });
        let gone = || io::Error::other("the output could not be read or written");
        self.queues[key % self.queues.len()].send(work).await.map_err(|_| gone())?;
        result.await.map_err(|_| gone())?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn the_same_key_means_one_after_the_other() {
        let lanes = Arc::new(Lanes::start("test", 3).unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..QUEUE)
            .map(|number| {
                let (lanes, seen) = (Arc::clone(&lanes), Arc::clone(&seen));
                async move {
                    let note = move || {
                        seen.lock().unwrap().push(number);
                        Ok(number)
                    };
                    lanes.run(7, note).await.unwrap()
                }
            })
            .collect();
        let answers = futures::future::join_all(tasks).await;
        assert_eq!(answers, (0..QUEUE).collect::<Vec<_>>());
        assert_eq!(*seen.lock().unwrap(), answers);
    }

    #[tokio::test]
    async fn a_failure_is_the_callers() {
        let lanes = Lanes::start("test", 1).unwrap();
        let failed: io::Result<()> = lanes.run(0, || Err(io::Error::other("no"))).await;
        assert_eq!(failed.unwrap_err().to_string(), "no");
        assert_eq!(lanes.run(0, || Ok(5)).await.unwrap(), 5);
    }
}
