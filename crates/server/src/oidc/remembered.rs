//! What was read from the provider, for a while.
//!
//! Guarantees: one caller reads and the others wait for it; a provider that fails is not asked again at once; what was read
//! before serves on when it cannot be read again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::error::OidcError;

/// How long a failure is the answer.
const PAUSE: Duration = Duration::from_secs(2);

/// One thing that is read from the provider.
#[derive(Debug)]
pub(super) struct Remembered<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    read: Option<(Arc<T>, Instant)>,
    failed: Option<(OidcError, Instant)>,
}

impl<T> Default for Remembered<T> {
    fn default() -> Self {
        Self(Mutex::new(State { read: None, failed: None }))
    }
}

impl<T> Remembered<T> {
    /// What was read at most `age` ago, else what `read` gives, else what was read before.
    pub(super) async fn at_most(
        &self,
        age: Duration,
        read: impl Future<Output = Result<T, OidcError>>,
    ) -> Result<Arc<T>, OidcError> {
        let mut state = self.0.lock().await;
        if let Some((known, at)) = &state.read
            && at.elapsed() < age
        {
            return Ok(Arc::clone(known));
        }
        let failure = match &state.failed {
            Some((error, at)) if at.elapsed() < PAUSE => error.clone(),
            _ => match read.await {
                Ok(found) => {
                    let found = Arc::new(found);
                    state.failed = None;
                    state.read = Some((Arc::clone(&found), Instant::now()));
                    return Ok(found);
                }
                Err(error) => {
                    state.failed = Some((error.clone(), Instant::now()));
                    error
                }
            },
        };
        state.read.as_ref().map(|(known, _)| Arc::clone(known)).ok_or(failure)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn down() -> OidcError {
        OidcError::Unreachable { issuer: "i".to_owned(), cause: "c".to_owned() }
    }

    #[tokio::test]
    async fn a_provider_is_asked_once_and_not_again_at_once_when_it_fails() {
        let (remembered, asked) = (Remembered::default(), AtomicU32::new(0));
        let ask = |age, answer: Result<u32, OidcError>| {
            remembered.at_most(age, async {
                asked.fetch_add(1, Ordering::Relaxed);
                answer
            })
        };
        assert_eq!(ask(HOUR, Err(down())).await, Err(down()));
        assert_eq!(ask(HOUR, Ok(1)).await, Err(down()), "the failure is remembered");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let remembered = Remembered::default();
        assert_eq!(remembered.at_most(HOUR, async { Ok(1) }).await.as_deref(), Ok(&1));
        assert_eq!(remembered.at_most(HOUR, async { Ok(2) }).await.as_deref(), Ok(&1));
        assert_eq!(remembered.at_most(Duration::ZERO, async { Ok(2) }).await.as_deref(), Ok(&2));
        let stale = remembered.at_most(Duration::ZERO, async { Err(down()) }).await;
        assert_eq!(stale.as_deref(), Ok(&2), "what was read serves on");
    }
}
