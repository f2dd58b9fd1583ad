//! The sessions whose client waits for the worker.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_domain::JobId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::ids;
use crate::listener::StreamFuture;
use crate::tokens;

/// How long a worker may take to join. A worker polls all the time, so that it hears of a session at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Sessions by their names, and places for those that are open.
#[derive(Debug)]
pub(crate) struct Terminals {
    waiting: Mutex<HashMap<String, Waiting>>,
    places: Arc<Semaphore>,
}

#[derive(Debug)]
struct Waiting {
    job: JobId,
    secret: String,
    worker: oneshot::Sender<StreamFuture>,
}

/// A session that waits for its worker as long as this value lives.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    terminals: &'a Terminals,
    pub(crate) name: String,
    pub(crate) secret: String,
    worker: oneshot::Receiver<StreamFuture>,
}

impl Terminals {
    /// With room for so many sessions.
    pub(crate) fn new(most: usize) -> Self {
        let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Self { waiting: Mutex::default(), places }
    }

    /// A place, for as long as it is held.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session with a job. Its name begins with that of this scheduler, so that others know where it is.
    pub(crate) fn begin(&self, scheduler: &str, job: JobId) -> Session<'_> {
        let name = format!("{scheduler}-{}", ids::request().simple());
        let secret = ids::secret();
        let (sender, worker) = oneshot::channel();
        let waiting = Waiting { job, secret: secret.clone(), worker: sender };
        self.lock().insert(name.clone(), waiting);
        Session { terminals: self, name, secret, worker }
    }

    /// Lets the worker in, once. Says whether there is such a session, and it is this secret's.
    pub(crate) fn join(
        &self,
        name: &str,
        job: JobId,
        secret: &str,
        take: impl FnOnce() -> StreamFuture,
    ) -> bool {
        let mut waiting = self.lock();
        let fits = |session: &Waiting| {
            session.job == job && tokens::same(session.secret.as_bytes(), secret.as_bytes())
        };
        if !waiting.get(name).is_some_and(fits) {
            return false;
        }
        let session = waiting.remove(name);
        drop(waiting);
        // A client that has just left is noticed when its end of the session is closed.
        session.is_some_and(|session| session.worker.send(take()).is_ok())
    }
}

impl Session<'_> {
    /// The connection of the worker; `None` when it does not come in time.
    pub(crate) async fn worker(&mut self) -> Option<StreamFuture> {
        tokio::time::timeout(PATIENCE, &mut self.worker).await.ok()?.ok()
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.terminals.lock().remove(&self.name);
    }
}

/// The scheduler that a session began at.
pub(crate) fn scheduler_of(session: &str) -> Option<&str> {
    session.rsplit_once('-').map(|(scheduler, _)| scheduler)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> StreamFuture {
        StreamFuture::new(async { Err(std::io::ErrorKind::Other.into()) })
    }

    #[tokio::test]
    async fn a_worker_joins_once_with_the_secret_and_for_the_job() {
        let terminals = Terminals::new(1);
        let (job, other) = (JobId::from_random([1; 16]), JobId::from_random([2; 16]));
        let mut session = terminals.begin("abc", job);
        let (name, secret) = (session.name.clone(), session.secret.clone());
        assert_eq!(scheduler_of(&name), Some("abc"));
        assert!(!terminals.join(&name, job, "wrong", stream));
        assert!(!terminals.join(&name, other, &secret, stream));
        assert!(!terminals.join("nothing", job, &secret, stream));
        assert!(terminals.join(&name, job, &secret, stream));
        assert!(!terminals.join(&name, job, &secret, stream), "only once");
        assert!(session.worker().await.is_some());
    }

    #[tokio::test]
    async fn a_session_whose_client_is_gone_cannot_be_joined() {
        let terminals = Terminals::new(1);
        let job = JobId::from_random([1; 16]);
        let session = terminals.begin("abc", job);
        let (name, secret) = (session.name.clone(), session.secret.clone());
        drop(session);
        assert!(!terminals.join(&name, job, &secret, stream));
    }
}
