//! Moved output: the longest copy stays, what is old goes, all of it goes with its job.

use muster_domain::{Job, JobId, Lease, ReportKind, Span};

use super::stage::Stage;
use crate::command::{Command, Outcome};
use crate::output::{ExpireOutput, Moved, MovedOutput, OutputContent};
use crate::store::StoreExt;

fn output(stage: &Stage, job: &Job, length: u64, content: OutputContent) -> MovedOutput {
    MovedOutput {
        job: job.id,
        lease: job.lease,
        attempt: job.attempts,
        written: [length, 1],
        kept: length,
        grown_at: stage.now(),
        whole: length > 5,
        facts: format!("facts of {length}"),
        content,
    }
}

fn blob(key: &str) -> OutputContent {
    OutputContent::Blob(key.to_owned())
}

async fn put(stage: &Stage, outputs: Vec<MovedOutput>) -> Vec<Moved> {
    match stage.one(Command::MoveOutput(outputs)).await.unwrap() {
        Outcome::OutputMoved(became) => became,
        other => panic!("{other:?}"),
    }
}

async fn ended(stage: &Stage) -> Job {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    stage.report(&job, ReportKind::Done).await.unwrap();
    job
}

const KEPT: Moved = Moved::Kept { replaced: None };

pub async fn moved_output_is_read_as_it_was_kept(stage: &Stage) {
    let (one, two) = (ended(stage).await, ended(stage).await);
    assert_eq!(stage.store.moved_output(one.id).await.unwrap(), []);
    let inline = output(stage, &one, 3, OutputContent::Inline(vec![0, 255, 7]));
    let large = output(stage, &two, 900, blob("output/a"));
    let later = MovedOutput { lease: Lease(two.lease.0 + 1), ..output(stage, &two, 9, blob("output/b")) };
    let all = vec![later.clone(), inline.clone(), large.clone()];
    assert_eq!(put(stage, all).await, [KEPT, KEPT, KEPT]);
    assert_eq!(stage.store.moved_output(one.id).await.unwrap(), [inline]);
    assert_eq!(stage.store.moved_output(two.id).await.unwrap(), [large, later]);
    assert_eq!(stage.store.moved_bytes().await.unwrap(), 912);
    let asked = ["output/a", "output/x"].map(str::to_owned).to_vec();
    assert_eq!(stage.store.known_blobs(asked).await.unwrap(), ["output/a"]);
}

pub async fn the_longest_copy_of_output_stays(stage: &Stage) {
    let job = ended(stage).await;
    let copy = |length, key: &str| output(stage, &job, length, blob(key));
    assert_eq!(put(stage, vec![copy(5, "a")]).await, [KEPT]);
    assert_eq!(put(stage, vec![copy(5, "b")]).await, [Moved::There]);
    assert_eq!(put(stage, vec![copy(4, "c")]).await, [Moved::There]);
    let replaced = Moved::Kept { replaced: Some("a".to_owned()) };
    assert_eq!(put(stage, vec![copy(6, "d"), copy(5, "e")]).await, [replaced, Moved::There]);
    assert_eq!(stage.store.moved_output(job.id).await.unwrap(), [copy(6, "d")]);
    let nobody = MovedOutput { job: JobId::from_random([9; 16]), ..copy(7, "f") };
    assert_eq!(put(stage, vec![nobody]).await, [Moved::NoJob]);
}

pub async fn old_output_goes_and_its_length_stays(stage: &Stage) {
    let (old, young) = (ended(stage).await, ended(stage).await);
    stage.shell("x").await;
    let running = stage.claim().await.unwrap();
    let first = vec![output(stage, &old, 10, blob("a")), output(stage, &running, 10, blob("live"))];
    put(stage, first).await;
    stage.advance(Span::from_secs(100));
    put(stage, vec![output(stage, &young, 20, OutputContent::Inline(vec![1; 20]))]).await;
    let expire = |before, excess, limit| Command::ExpireOutput(ExpireOutput { before, excess, limit });
    let cutoff = Some(stage.now() - Span::from_secs(50));
    let gone = stage.one(expire(cutoff, None, 10)).await.unwrap();
    assert_eq!(gone, Outcome::OutputExpired { runs: 1, bytes: 10, blobs: vec!["a".to_owned()] });
    let left = stage.store.moved_output(old.id).await.unwrap().remove(0);
    assert_eq!((left.written, left.kept, left.content), ([10, 1], 0, OutputContent::Removed));
    // It does not come back.
    assert_eq!(put(stage, vec![output(stage, &old, 10, blob("again"))]).await, [Moved::There]);
    let nothing = Outcome::OutputExpired { runs: 0, bytes: 0, blobs: Vec::new() };
    assert_eq!(stage.one(expire(cutoff, None, 10)).await.unwrap(), nothing);
    assert_eq!(stage.one(expire(None, Some(0), 10)).await.unwrap(), nothing);
    let gone = stage.one(expire(None, Some(1), 10)).await.unwrap();
    assert_eq!(gone, Outcome::OutputExpired { runs: 1, bytes: 20, blobs: Vec::new() });
    assert_eq!(stage.store.moved_bytes().await.unwrap(), 10, "what runs keeps its output");
}

pub async fn moved_output_goes_with_its_job(stage: &Stage) {
    let job = ended(stage).await;
    put(stage, vec![output(stage, &job, 10, blob("a"))]).await;
    stage.one(Command::Delete { job: job.id }).await.unwrap();
    assert_eq!(stage.store.moved_output(job.id).await.unwrap(), []);
    assert_eq!(stage.store.moved_bytes().await.unwrap(), 0);
    assert_eq!(stage.store.known_blobs(vec!["a".to_owned()]).await.unwrap(), Vec::<String>::new());
    assert_eq!(put(stage, vec![output(stage, &job, 10, blob("b"))]).await, [Moved::NoJob]);
}
