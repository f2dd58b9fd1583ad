//! The image of a container.
//!
//! Guarantee: a pull that fails for a reason that may pass is tried again for a while, at no cost to the job.

use std::time::Duration;

use tokio::time::Instant;

use super::{Cost, Unready};
use crate::backoff::Backoff;
use crate::containers::{Prospect, Pulls, Wanted};
use crate::keeper::StartSpec;

/// Between two tries of a pull that failed.
const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(30);
/// How long it is tried here before the job is handed back.
const PATIENCE: Duration = Duration::from_secs(180);

/// Sees to it that the image is there, and pins the container to it.
pub(super) async fn provide(pulls: &Pulls, wanted: &Wanted, spec: &mut StartSpec) -> Result<(), Unready> {
    let (since, mut backoff) = (Instant::now(), Backoff::new(FIRST, MOST));
    let key = spec.key.clone();
    loop {
        let tell = |words: String| tracing::debug!(job_id = %key.job_id, lease = key.lease, "{words}");
        let failure = match pulls.provide(wanted, tell).await {
            Ok(pulled) => {
                if let Some(container) = &mut spec.container {
                    container.image_id = Some(pulled.id);
                }
                return Ok(());
            }
            Err(failure) => failure,
        };
        let message = failure.message;
        match failure.prospect {
            Prospect::Never => return Err(Unready { message, cost: Cost::Final }),
            Prospect::Elsewhere => return Err(Unready { message, cost: Cost::Attempt }),
            Prospect::Later if since.elapsed() > PATIENCE => {
                return Err(Unready { message, cost: Cost::Free });
            }
            Prospect::Later => {
                tracing::warn!(job_id = %key.job_id, lease = key.lease, error = message, "trying again");
                tokio::time::sleep(backoff.fail()).await;
            }
        }
    }
}
