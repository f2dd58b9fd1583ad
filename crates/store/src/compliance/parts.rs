//! Checkpoints in parts, and the schedulers on a store.

use std::sync::Arc;

use muster_domain::{Caller, JobId, Span};

use super::stage::Stage;
use crate::command::{CheckpointPart, Command, Content, Instance, Outcome};
use crate::store::StoreExt;

async fn put(stage: &Stage, job: JobId, name: &str, number: u32, bytes: &[u8]) {
    let part = CheckpointPart { job, name: Arc::from(name), number, bytes: bytes.to_vec() };
    assert_eq!(stage.one(Command::PutPart(part)).await.unwrap(), Outcome::Noted);
}

async fn part(stage: &Stage, name: &str, number: u32) -> Option<Vec<u8>> {
    stage.store.part(Arc::from(name), number).await.unwrap()
}

pub async fn parts_of_the_last_checkpoint_stay(stage: &Stage) {
    stage.shell("x").await;
    let job = stage.claim().await.unwrap();
    let caller = Caller { lease: Some(job.lease), worker: None };
    let save =
        |content| Command::SaveCheckpoint { job: job.id, caller: caller.clone(), epoch: None, content };
    let parts = |name: &str, bytes| Content::Parts { name: Arc::from(name), bytes };
    put(stage, job.id, "parts-1", 0, &[1, 2]).await;
    put(stage, job.id, "parts-1", 1, &[3]).await;
    put(stage, job.id, "parts-left", 0, &[9]).await;
    stage.one(save(parts("parts-1", 3))).await.unwrap();
    assert_eq!(
        (part(stage, "parts-1", 0).await, part(stage, "parts-1", 1).await),
        (Some(vec![1, 2]), Some(vec![3]))
    );
    assert_eq!((part(stage, "parts-1", 2).await, part(stage, "parts-left", 0).await), (None, None));
    let kept = stage.get(job.id).await;
    assert_eq!((kept.checkpoint_bytes, kept.checkpoint_file.as_deref()), (Some(3), Some("parts-1")));
    // What lacks a part is not saved.
    put(stage, job.id, "parts-2", 0, &[5]).await;
    let torn = stage.store.apply_one(stage.now(), save(parts("parts-2", 2))).await;
    assert!(torn.is_err(), "{torn:?}");
    assert_eq!(part(stage, "parts-1", 1).await, Some(vec![3]));
    stage.one(save(Content::Bytes(vec![7]))).await.unwrap();
    assert_eq!((part(stage, "parts-1", 0).await, part(stage, "parts-2", 0).await), (None, None));
}

pub async fn parts_go_with_their_job(stage: &Stage) {
    let job = stage.run_to_done().await;
    put(stage, job.id, "parts-1", 0, &[1]).await;
    stage.advance(Span::from_secs(100));
    stage.sweep_with(stage.now(), Some(Span::from_secs(50))).await;
    assert_eq!(part(stage, "parts-1", 0).await, None);
    let unknown = CheckpointPart { job: job.id, name: "parts-2".into(), number: 0, bytes: vec![1] };
    assert!(stage.one(Command::PutPart(unknown)).await.is_err(), "nothing is kept for a job that is gone");
}

pub async fn schedulers_know_each_other(stage: &Stage) {
    let instance = |id: &str, url: &str| Instance { id: id.into(), url: url.into(), seen_at: stage.now() };
    assert_eq!(stage.store.instances().await.unwrap(), []);
    for (id, url) in [("b", "http://b:1"), ("a", "http://a:1"), ("b", "http://b:2")] {
        stage.advance(Span::from_secs(1));
        stage.one(Command::NoteInstance(instance(id, url))).await.unwrap();
    }
    let a = Instance { seen_at: stage.now() - Span::from_secs(1), ..instance("a", "http://a:1") };
    assert_eq!(stage.store.instances().await.unwrap(), [a, instance("b", "http://b:2")]);
}
