//! What workers say about the images of their jobs.

use muster_domain::container::{CONTAINERS, Container};
use muster_domain::image::{ImageNote, Pulled};
use muster_domain::{By, Caller, EventKind, Job, JobSpec, Rejection, ReportKind, Span, Worker, WorkerId};

use super::Stage;
use super::outlook::alive;
use crate::command::Command;
use crate::store::StoreExt as _;

fn said(job: &Job, note: ImageNote) -> Command {
    Command::NoteImage { job: job.id, caller: Caller { lease: Some(job.lease), worker: None }, note }
}

fn pulling(bytes: u64) -> ImageNote {
    ImageNote::Pulling { bytes, total: 20_000_000 }
}

fn ready(pulled: Option<Pulled>) -> ImageNote {
    ImageNote::Ready { digest: "sha256:1".into(), pulled }
}

async fn codes(stage: &Stage, job: &Job) -> Vec<String> {
    let (_, why) = stage.store.why(job.id, stage.now()).await.unwrap().unwrap();
    why.reasons.iter().map(|reason| format!("{}: {reason}", reason.code())).collect()
}

/// Kept with the job, told by who holds it, and by nobody else.
pub async fn a_pull_is_told_by_the_holder_and_kept_until_it_is_over(stage: &Stage) {
    let container = Some(Box::new(Container { image: "app:1".to_owned(), ..Container::default() }));
    for name in ["old", "new"] {
        let worker = Worker { tags: [CONTAINERS.to_owned()].into(), ..stage.new_worker(name) };
        stage.register_worker(worker).await;
    }
    let id = stage.submit(JobSpec { container, ..JobSpec::shell("x") }).await.id;
    let first = stage.claim_by("old").await.unwrap();
    stage.one(said(&first, pulling(0))).await.unwrap();
    stage.one(said(&first, pulling(5_000_000))).await.unwrap();
    assert_eq!(stage.get(id).await.image_pull().map(|pull| pull.bytes), Some(5_000_000));
    let reasons = codes(stage, &first).await;
    assert_eq!(
        reasons,
        ["running: it is running on old", "pulling: its worker pulls the image app:1: 5 of 20 MB"]
    );
    stage.advance(Span::from_secs(31));
    assert_eq!(stage.sweep().await.requeued, 1);
    alive(stage, &["new"]).await;
    let held = stage.claim_by("new").await.unwrap();
    assert_eq!(held.image_pull(), None, "that was another worker's");
    let late = stage.one(said(&first, ready(None))).await;
    assert!(matches!(late, Err(Rejection::StaleLease { .. })), "{late:?}");
    assert!(stage.one(said(&held, pulling(0))).await.is_ok());
    let pulled = Pulled { bytes: 20_000_000, took: Span::from_secs(3) };
    stage.one(said(&held, ready(Some(pulled)))).await.unwrap();
    let before = stage.get(id).await;
    stage.one(said(&held, ready(Some(pulled)))).await.unwrap();
    assert_eq!(stage.get(id).await, before, "said again it changes nothing");
    assert_eq!(codes(stage, &held).await, ["running: it is running on new"]);
    let done = stage.report(&held, ReportKind::Done).await.unwrap();
    assert_eq!(done.image_digest_of(held.lease).map(|digest| &**digest), Some("sha256:1"));
    assert_eq!((done.image_digest_of(first.lease), done.image_pull()), (None, None));

    let events = stage.events_of(id).await;
    let pulls = events.iter().filter(|event| event.kind.name().starts_with("image_"));
    let told: Vec<_> = pulls.map(|event| (event.kind.clone(), event.by())).collect();
    let begun = EventKind::ImagePulling { image: "app:1".to_owned() };
    let ended = EventKind::ImagePulled {
        image: "app:1".to_owned(),
        digest: "sha256:1".into(),
        bytes: pulled.bytes,
        took: pulled.took,
    };
    let by = |worker: &str| Some(By::Worker(Some(WorkerId::new(worker))));
    assert_eq!(told, [(begun.clone(), by("old")), (begun, by("new")), (ended, by("new"))]);
}
