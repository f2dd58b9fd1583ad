//! The image of a job's container as its worker tells of it: how far its pull is, and which one an attempt ran.
//!
//! Guarantee: what is told here changes neither the phase of a job nor when it runs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::EventKind;
use crate::ids::Lease;
use crate::job::Job;
use crate::lifecycle::Change;
use crate::time::Span;

/// Attempts of which the image is remembered.
const REMEMBERED: usize = 8;

/// A pull under way. `total` grows while the registry tells of more layers; 0 when nothing is known yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagePull {
    /// Whose worker pulls.
    #[serde(rename = "l")]
    pub lease: Lease,
    #[serde(rename = "b")]
    pub bytes: u64,
    #[serde(rename = "t")]
    pub total: u64,
}

/// What workers told of the image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageState {
    #[serde(rename = "p", skip_serializing_if = "Option::is_none")]
    pull: Option<ImagePull>,
    /// The digest that each of the last attempts ran, the latest last.
    #[serde(rename = "d", skip_serializing_if = "Vec::is_empty")]
    digests: Vec<(Lease, Arc<str>)>,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageNote {
    Pulling {
        bytes: u64,
        total: u64,
    },
    /// It is there; `pulled` says what it took, where it was not there before.
    Ready {
        digest: Arc<str>,
        pulled: Option<Pulled>,
    },
}

/// A pull that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    pub bytes: u64,
    pub took: Span,
}

impl Job {
    /// The pull that the holder of the job waits for.
    pub fn image_pull(&self) -> Option<ImagePull> {
        let pull = self.image.as_ref()?.pull?;
        (self.is_leased() && pull.lease == self.lease).then_some(pull)
    }

    /// The image that the last attempt ran that had one.
    pub fn image_digest(&self) -> Option<&Arc<str>> {
        self.image.as_ref()?.digests.last().map(|(_, digest)| digest)
    }

    /// The image that the attempt under this lease ran.
    pub fn image_digest_of(&self, lease: Lease) -> Option<&Arc<str>> {
        let mut digests = self.image.as_ref()?.digests.iter().rev();
        digests.find(|(of, _)| *of == lease).map(|(_, digest)| digest)
    }
}

/// Takes down what the holder of a job says about its image. A job without one is left as it is.
pub fn note(job: &mut Job, said: &ImageNote) -> Change {
    let Some(image) = job.spec.container.as_ref().map(|container| container.image.clone()) else {
        return Change::Repeated;
    };
    let lease = job.lease;
    let is_there = job.image_digest_of(lease).is_some();
    let state = job.image.get_or_insert_default();
    match said {
        // It was overtaken.
        ImageNote::Pulling { .. } if is_there => Change::Repeated,
        ImageNote::Pulling { bytes, total } => {
            let pull = ImagePull { lease, bytes: *bytes, total: *total };
            match state.pull.replace(pull).filter(|before| before.lease == lease) {
                None => Change::Happened(EventKind::ImagePulling { image }),
                Some(before) if before == pull => Change::Repeated,
                Some(_) => Change::Touched,
            }
        }
        ImageNote::Ready { digest, pulled } => {
            state.pull = None;
            if state.digests.last() == Some(&(lease, Arc::clone(digest))) {
                return Change::Repeated;
            }
            state.digests.retain(|(of, _)| *of != lease);
            state.digests.push((lease, Arc::clone(digest)));
            let surplus = state.digests.len().saturating_sub(REMEMBERED);
            state.digests.drain(..surplus);
            let Some(Pulled { bytes, took }) = *pulled else { return Change::Touched };
            Change::Happened(EventKind::ImagePulled { image, digest: Arc::clone(digest), bytes, took })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::Container;
    use crate::ids::JobId;
    use crate::phase::Phase;
    use crate::spec::JobSpec;
    use crate::time::Timestamp;

    fn running(image: Option<&str>) -> Job {
        let container =
            image.map(|image| Box::new(Container { image: image.to_owned(), ..Container::default() }));
        let spec = Arc::new(JobSpec { container, ..JobSpec::shell("x") });
        let phase = Phase::Running { worker: None, last_heartbeat: None };
        let mut job = Job::new(JobId::from_random([1; 16]), spec, phase, Timestamp::default());
        job.lease = Lease(1);
        job
    }

    fn ready(digest: &str, pulled: Option<Pulled>) -> ImageNote {
        ImageNote::Ready { digest: digest.into(), pulled }
    }

    #[test]
    fn a_pull_has_a_beginning_and_an_end_and_nothing_in_between() {
        let mut job = running(Some("app:1"));
        let pulling = |bytes| ImageNote::Pulling { bytes, total: 10 };
        let begun = EventKind::ImagePulling { image: "app:1".to_owned() };
        assert_eq!(note(&mut job, &pulling(0)), Change::Happened(begun.clone()));
        assert_eq!(note(&mut job, &pulling(4)), Change::Touched);
        assert_eq!(note(&mut job, &pulling(4)), Change::Repeated);
        assert_eq!(job.image_pull().map(|pull| (pull.bytes, pull.total)), Some((4, 10)));
        let took = Pulled { bytes: 10, took: Span::from_secs(2) };
        let pulled = EventKind::ImagePulled {
            image: "app:1".to_owned(),
            digest: "sha256:a".into(),
            bytes: 10,
            took: Span::from_secs(2),
        };
        assert_eq!(note(&mut job, &ready("sha256:a", Some(took))), Change::Happened(pulled));
        assert_eq!(note(&mut job, &ready("sha256:a", Some(took))), Change::Repeated);
        assert_eq!((job.image_pull(), job.image_digest().map(|digest| &**digest)), (None, Some("sha256:a")));
        assert_eq!(note(&mut job, &pulling(5)), Change::Repeated, "it comes late");
        // What an attempt before has said is not said of this one.
        job.lease = Lease(2);
        note(&mut job, &pulling(4));
        job.lease = Lease(3);
        assert_eq!(job.image_pull(), None);
        assert_eq!(note(&mut job, &pulling(4)), Change::Happened(begun));
    }

    #[test]
    fn each_attempt_has_its_image_and_few_are_remembered() {
        let mut job = running(Some("app:1"));
        for lease in 1..=9 {
            job.lease = Lease(lease);
            assert_eq!(note(&mut job, &ready(&format!("sha256:{lease}"), None)), Change::Touched);
        }
        assert_eq!(job.image_digest_of(Lease(1)), None);
        assert_eq!(job.image_digest_of(Lease(2)).map(|digest| &**digest), Some("sha256:2"));
        assert_eq!(job.image_digest().map(|digest| &**digest), Some("sha256:9"));
        let mut plain = running(None);
        assert_eq!(note(&mut plain, &ready("sha256:a", None)), Change::Repeated);
        assert_eq!(plain.image, None);
    }
}
