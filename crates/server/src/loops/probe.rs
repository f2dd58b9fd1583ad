//! Asks a store on another machine again and again whether it is in reach.
//!
//! Guarantee: an outage is known within about two seconds, also one in which nobody says anything, and so is its end. A
//! store that still answers somebody is in reach.

use std::time::Duration;

use crate::app::App;

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(500);
/// After one without an answer.
const AGAIN: Duration = Duration::from_millis(100);
/// How long one is waited for.
const BOUND: Duration = Duration::from_secs(1);
/// A store that answered nobody for so long, and does not answer the question, is out of reach.
const SILENCE: Duration = Duration::from_millis(1_500);

/// Runs until `stop` resolves; returns at once for a store of this machine.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    if !app.store.is_remote() {
        return;
    }
    let mut stop = std::pin::pin!(stop);
    loop {
        let pause = probe(app).await;
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn probe(app: &App) -> Duration {
    let reason = match tokio::time::timeout(BOUND, app.store.ping()).await {
        Ok(Ok(())) => {
            app.health.reached();
            return PAUSE;
        }
        Ok(Err(error)) => error.reason(),
        Err(_) => "it does not answer".to_owned(),
    };
    // It may be busy, or have no connection left for the question: then it answers others.
    if !app.health.heard_within(SILENCE) {
        app.health.lost(&reason);
    }
    AGAIN
}
