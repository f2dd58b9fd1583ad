//! How long a lost connection is borne: a scheduler that restarts must not end what only watches a job.

use std::time::Duration;

use muster_client::ClientError;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Counts from the first failure; any success starts anew.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    failing_since: Option<Instant>,
    pause: Duration,
}

impl Patience {
    /// The scheduler answered.
    pub(crate) fn restore(&mut self) {
        *self = Self::default();
    }

    /// Waits a moment when it makes sense to try again, otherwise gives the error back.
    pub(crate) async fn bear(&mut self, error: ClientError) -> Result<(), ClientError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        // People want to hear of a certificate at once, and not in a minute.
        let is_final = !error.is_transient() || matches!(error, ClientError::Untrusted { .. });
        if is_final || since.elapsed() > LIMIT {
            return Err(error);
        }
        self.pause = if self.pause.is_zero() { FIRST_PAUSE } else { (self.pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(self.pause).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost() -> ClientError {
        ClientError::Unreachable { url: "http://h".into(), source: "refused".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn gives_up_after_a_minute_without_an_answer() {
        let mut patience = Patience::default();
        let start = Instant::now();
        while patience.bear(lost()).await.is_ok() {}
        assert!((LIMIT..LIMIT * 2).contains(&start.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_final() {
        let refusal = ClientError::InvalidUrl { url: "x".into(), why: "y" };
        assert!(Patience::default().bear(refusal).await.is_err());
    }
}
