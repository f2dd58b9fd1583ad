//! The image of a container.
//!
//! Guarantees: a pull that fails for a reason that may pass is tried again for a while, at no cost to the job; the scheduler is
//! told of a pull once a second at the most, and what it does not hear delays no job for long.

use std::time::Duration;

use muster_client::{Client, Proof};
use muster_protocol::{ImagePull, ImagePulled, ImageReport};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Cost, Tools, Unready};
use crate::backoff::Backoff;
use crate::containers::{Fetched, Prospect, Pulled, Pulls, Wanted};
use crate::keeper::{Key, StartSpec};

/// Between two tries of a pull that failed.
const FIRST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(30);
/// How long it is tried here before the job is handed back.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two words about a pull.
const PACE: Duration = Duration::from_secs(1);
/// How long a scheduler may take to hear one. One that knows no such words refuses them, which does no harm.
const HEARD: Duration = Duration::from_secs(5);

/// A pull under way, with what has come of it; outside of pulls there is none.
type Word = Option<Option<Fetched>>;

/// Sees to it that the image is there, and pins the container to it.
pub(super) async fn provide(tools: &Tools, wanted: &Wanted, spec: &mut StartSpec) -> Result<(), Unready> {
    let begun = Instant::now();
    let teller = Teller { client: &tools.client, key: &spec.key };
    let (sender, receiver) = watch::channel(None);
    let (result, was_told) =
        tokio::join!(obtain(&tools.pulls, wanted, &spec.key, sender), teller.follow(receiver));
    let pulled = result?;
    if let Some(fetched) = pulled.fetched.filter(|_| !was_told) {
        teller.pulling(Some(fetched)).await;
    }
    let is_news = was_told || pulled.fetched.is_some();
    let bytes = pulled.fetched.unwrap_or_default().bytes;
    let cost = is_news.then(|| ImagePulled { bytes, seconds: begun.elapsed().as_secs_f64() });
    let digest = Some(pulled.digest);
    teller.say(&ImageReport { digest, pulled: cost, ..ImageReport::default() }).await;
    if let Some(container) = &mut spec.container {
        container.image_id = Some(pulled.id);
    }
    Ok(())
}

async fn obtain(
    pulls: &Pulls,
    wanted: &Wanted,
    key: &Key,
    progress: watch::Sender<Word>,
) -> Result<Pulled, Unready> {
    let (since, mut backoff) = (Instant::now(), Backoff::new(FIRST, MOST));
    loop {
        let tell = |fetched| {
            progress.send_replace(Some(fetched));
        };
        let failure = match pulls.provide(wanted, tell).await {
            Ok(pulled) => return Ok(pulled),
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

/// Tells the scheduler about the image of one attempt.
struct Teller<'a> {
    client: &'a Client,
    key: &'a Key,
}

impl Teller<'_> {
    /// Tells of a pull until it is over; true when there was anything to tell. A registry that has not named a layer yet is
    /// worth a word when that takes long.
    async fn follow(&self, mut progress: watch::Receiver<Word>) -> bool {
        let mut told: Word = None;
        let mut next = Instant::now() + PACE;
        loop {
            let word = *progress.borrow_and_update();
            let is_news = word.is_some() && word != told;
            let is_first = told.is_none() && word.flatten().is_some();
            if is_news && (is_first || Instant::now() >= next) {
                self.pulling(word.flatten()).await;
                (told, next) = (word, Instant::now() + PACE);
                continue;
            }
            tokio::select! {
                () = sleep_until(next), if is_news => {}
                changed = progress.changed() => if changed.is_err() { return told.is_some() },
            }
        }
    }

    async fn pulling(&self, fetched: Option<Fetched>) {
        let Fetched { bytes, total } = fetched.unwrap_or_default();
        let pulling = Some(ImagePull { bytes, total_bytes: total });
        self.say(&ImageReport { pulling, ..ImageReport::default() }).await;
    }

    async fn say(&self, report: &ImageReport) {
        let proof = Proof { lease: Some(self.key.lease), token: None };
        let said = timeout(HEARD, self.client.note_image(&self.key.job_id, &proof, report)).await;
        if let Ok(Err(error)) = said {
            let (job_id, lease) = (&self.key.job_id, self.key.lease);
            tracing::debug!(%job_id, lease, %error, "the scheduler does not take what is said of an image");
        }
    }
}
