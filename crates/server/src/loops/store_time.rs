//! The clock of the store, asked again and again: all schedulers on one store keep to it.
//!
//! Guarantee: however the wall clocks of their machines are set, the times of schedulers that reach the store differ
//! by no more than an answer of it takes, and half a second while a wall clock was just set.

use std::time::Duration;

use muster_store::Store;

use crate::app::App;
use crate::clock::Clock;
use crate::health::StoreHealth;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(5);
/// After one that was not answered.
const AGAIN: Duration = Duration::from_millis(500);

/// Runs until `stop` resolves.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    loop {
        let told = ask(app.store.as_ref(), &app.config.clock, &app.health).await;
        let pause = if told { PAUSE } else { AGAIN };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Asks once; true when there was an answer. Nothing is committed before the first one. A store of one scheduler has no clock to keep to.
pub(crate) async fn ask(store: &dyn Store, clock: &Clock, health: &StoreHealth) -> bool {
    let asked = clock.read();
    match store.time().await {
        Ok(Some(time)) => {
            if clock.follow(asked, time) {
                health.begin_anew();
            }
            true
        }
        Ok(None) => {
            clock.stands_alone();
            true
        }
        Err(error) => {
            tracing::debug!(%error, "the store did not tell the time");
            false
        }
    }
}
