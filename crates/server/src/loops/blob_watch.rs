//! Asks S3 again and again whether it is in reach.

use std::time::Duration;

use crate::app::App;

/// Between two questions, and after one without a good answer.
const PAUSE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_secs(5);

/// Runs until `stop` resolves; returns at once for a directory, whose faults tell by themselves.
pub(crate) async fn run(app: &App, stop: impl Future<Output = ()>) {
    if !app.blobs.is_direct() {
        return;
    }
    let mut stop = std::pin::pin!(stop);
    loop {
        let pause = if app.blobs.outage().is_some() { AGAIN } else { PAUSE };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = tokio::time::sleep(pause) => {}
        }
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = app.blobs.watch() => {}
        }
    }
}
