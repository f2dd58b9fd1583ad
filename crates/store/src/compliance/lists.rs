//! Lists, counts, events and explanations.

use muster_domain::{JobSpec, QueueName, ReportKind, Span, Status, WorkerId};

use super::stage::{Stage, memory, needing};
use crate::query::{EventFilter, JobFilter};
use crate::store::StoreExt;

pub async fn empty_lists(stage: &Stage) {
    assert!(stage.all().await.is_empty());
    assert!(stage.store.workers().await.unwrap().is_empty());
    assert_eq!(stage.store.last_event().await.unwrap(), 0);
    assert!(stage.store.counts().await.unwrap().jobs.is_empty());
}

pub async fn filters_hold_together(stage: &Stage) {
    let spec = |name: &str, queue: &str, tag: &str| JobSpec {
        name: Some(name.into()),
        queue: Some(QueueName::new(queue)),
        tags: [tag.to_owned()].into(),
        ..JobSpec::shell("x")
    };
    let a = stage.submit(spec("a", "q1", "t%1")).await;
    stage.advance(Span::from_secs(10));
    let b = stage.submit(spec("b", "q1", "t%")).await;
    let c = stage.submit(spec("c", "q2", "t%")).await;
    let found = async |filter: JobFilter| -> Vec<_> {
        let page = stage.store.jobs(filter).await.unwrap();
        page.jobs.into_iter().map(|view| view.job.id).collect()
    };
    let all = JobFilter::default();
    assert_eq!(found(all.clone()).await, [c.id, b.id, a.id], "newest first");
    assert_eq!(found(JobFilter { queue: Some(QueueName::new("q1")), ..all.clone() }).await, [b.id, a.id]);
    assert_eq!(found(JobFilter { name: Some("c".into()), ..all.clone() }).await, [c.id]);
    assert_eq!(
        found(JobFilter { tag: Some("t%".into()), ..all.clone() }).await,
        [c.id, b.id],
        "no wildcards"
    );
    assert_eq!(found(JobFilter { since: Some(b.created_at), ..all.clone() }).await, [c.id, b.id]);
    assert_eq!(found(JobFilter { statuses: vec![Status::Done], ..all.clone() }).await, []);
    let both = JobFilter { queue: Some(QueueName::new("q1")), tag: Some("t%".into()), ..all.clone() };
    assert_eq!(found(both).await, [b.id]);
    stage.cancel(a.id).await.unwrap();
    let statuses = vec![Status::Cancelled, Status::Pending];
    assert_eq!(found(JobFilter { statuses, ..all }).await, [c.id, b.id, a.id]);
}

/// While the worker has it, and after the job has ended there.
pub async fn jobs_of_a_worker_are_listed(stage: &Stage) {
    for name in ["w1", "w2"] {
        stage.register(name, memory(1), None).await;
        stage.shell("x").await;
    }
    let (first, second) = (stage.claim_by("w1").await.unwrap(), stage.claim_by("w2").await.unwrap());
    let on = async |worker: &str| -> Vec<_> {
        let filter = JobFilter { worker: Some(WorkerId::new(worker)), ..JobFilter::default() };
        stage.store.jobs(filter).await.unwrap().jobs.into_iter().map(|view| view.job.id).collect()
    };
    assert_eq!((on("w1").await, on("w2").await), (vec![first.id], vec![second.id]));
    stage.report(&first, ReportKind::Done).await.unwrap();
    assert_eq!(on("w1").await, [first.id]);
    assert_eq!(on("w").await, [], "no beginnings");
}

/// Whatever a client can put into a JSON text is kept, found again, and spoils nothing for others.
pub async fn awkward_texts_are_kept_and_found(stage: &Stage) {
    let texts =
        ["a\0b", "\0", "'; DROP TABLE jobs; --", r#"{"a\",b}"#, ",", "\u{1f980}\u{feff}", " ", "%_?$1"];
    for text in texts {
        let spec = JobSpec {
            name: Some(text.to_owned()),
            queue: Some(QueueName::new(text)),
            tags: [text.to_owned(), format!("{text},other")].into(),
            idempotency_key: Some(text.to_owned()),
            ..JobSpec::shell(text)
        };
        let job = stage.submit(spec.clone()).await;
        assert_eq!(*stage.get(job.id).await.spec, spec, "{text:?}");
        assert_eq!(stage.submit(spec.clone()).await.id, job.id, "the key {text:?} is found");
        for filter in [
            JobFilter { name: Some(text.to_owned()), ..JobFilter::default() },
            JobFilter { queue: Some(QueueName::new(text)), ..JobFilter::default() },
            JobFilter { tag: Some(text.to_owned()), ..JobFilter::default() },
        ] {
            let found = stage.store.jobs(filter.clone()).await.unwrap().jobs;
            assert_eq!(found.iter().map(|view| view.job.id).collect::<Vec<_>>(), [job.id], "{filter:?}");
        }
    }
    assert_eq!(stage.store.counts().await.unwrap().pending_by_queue.len(), texts.len());
}

pub async fn pages_join_without_loss(stage: &Stage) {
    for n in 0..7 {
        stage.shell(&n.to_string()).await;
    }
    let all: Vec<_> = stage.all().await.iter().map(|job| job.id).collect();
    let (mut joined, mut before_seq) = (Vec::new(), None);
    loop {
        let page =
            stage.store.jobs(JobFilter { before_seq, limit: Some(3), ..JobFilter::default() }).await.unwrap();
        joined.extend(page.jobs.iter().map(|view| view.job.id));
        before_seq = page.next;
        if before_seq.is_none() {
            break;
        }
    }
    assert_eq!(joined, all);
}

pub async fn counts_leave_out_what_ended(stage: &Stage) {
    let first = stage.run_to_done().await;
    stage.submit(JobSpec { queue: Some(QueueName::new("q")), ..JobSpec::shell("x") }).await;
    stage.claim().await.unwrap();
    stage.submit(JobSpec { queue: Some(QueueName::new("q")), ..JobSpec::shell("x") }).await;
    let parent = stage.shell("x").await;
    stage.after(&[parent.id, first.id]).await;
    let counts = stage.store.counts().await.unwrap();
    let expected = [(Status::Pending, 2), (Status::Blocked, 1), (Status::Running, 1)];
    assert_eq!(counts.jobs, expected.into());
    assert_eq!(counts.pending_by_queue, [(String::new(), 1), ("q".to_owned(), 1)].into());
}

pub async fn events_are_numbered_and_readable_from_a_position(stage: &Stage) {
    stage.register("w1", memory(1), None).await;
    for _ in 0..3 {
        stage.run_to_done().await;
    }
    let read =
        async |after, limit| stage.store.events(EventFilter { job: None, after, limit }).await.unwrap();
    let all = read(0, 1000).await;
    let names: Vec<_> = all.iter().map(|event| event.kind.name()).collect();
    assert_eq!(names[..4], ["worker_registered", "submitted", "claimed", "done"]);
    assert_eq!(all.len(), 10);
    assert!(all.windows(2).all(|pair| pair[0].seq < pair[1].seq));
    assert_eq!(read(all[3].seq, 2).await, all[4..6]);
    assert_eq!(stage.store.last_event().await.unwrap(), all[9].seq);
}

pub async fn why_names_the_cause(stage: &Stage) {
    let codes = async |id| {
        let reasons = stage.reasons(id).await;
        reasons.iter().map(muster_domain::Reason::code).collect::<Vec<_>>()
    };
    let first = stage.shell("x").await;
    let second = stage.shell("x").await;
    let child = stage.after(&[first.id, second.id]).await;
    assert_eq!(codes(first.id).await, ["no_workers"]);
    assert_eq!(codes(second.id).await, ["no_workers", "ahead"]);
    assert_eq!(codes(child.id).await, ["dependency", "dependency"]);
    stage.register("w1", memory(10), None).await;
    let large = stage.submit(needing(99)).await;
    assert_eq!(codes(large.id).await, ["impossible", "ahead"]);
    let running = stage.claim().await.unwrap();
    assert_eq!(codes(running.id).await, ["running"]);
    stage.cancel(running.id).await.unwrap();
    assert_eq!(codes(running.id).await, ["stopping"]);
    stage.report(&running, ReportKind::Preempted).await.unwrap();
    assert_eq!(codes(running.id).await, ["ended"]);
    assert!(stage.store.why(stage.new_id(), stage.now()).await.unwrap().is_none());
}
