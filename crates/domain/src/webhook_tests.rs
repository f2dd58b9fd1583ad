//! What a hook wants, and what follows attempts.

use std::sync::Arc;

use super::*;
use crate::event::EventKind;
use crate::job::Exit;
use crate::{JobSpec, Lease, WorkerId};

fn hook(events: &[&str]) -> Webhook {
    Webhook {
        id: WebhookId::from_random([9; 16]),
        url: "http://127.0.0.1:1/".to_owned(),
        secret: Secret::new("s3cret"),
        events: events.iter().map(|name| (*name).to_owned()).collect(),
        queue: None,
        job_name: None,
        created_at: Timestamp::default(),
        paused: false,
        retrying: false,
        progress: Progress { cursor: 4, ..Progress::default() },
    }
}

fn done() -> Event {
    let kind = EventKind::Done { lease: Lease(1), exit: Exit::default(), ran: Span::ZERO };
    Event { seq: 5, ..Event::of_job(JobId::from_random([1; 16]), Timestamp::default(), kind) }
}

fn delivery() -> DeliveryId {
    DeliveryId { hook: hook(&[]).id, event: 5 }
}

fn refused() -> Sent {
    Sent::Refused { why: "status 500".to_owned(), retry_after: None }
}

#[test]
fn without_names_a_hook_hears_of_ends() {
    let claimed = Event::of_job(JobId::from_random([1; 16]), Timestamp::default(), EventKind::Unblocked);
    assert!(hook(&[]).wants(&done()));
    assert!(!hook(&[]).wants(&claimed));
    assert!(hook(&["unblocked"]).wants(&claimed) && !hook(&["unblocked"]).wants(&done()));
    assert!(hook(&["all"]).wants(&claimed) && hook(&["all"]).wants(&done()));
}

#[test]
fn filters_by_job_need_a_job() {
    let mut night = hook(&["all"]);
    night.queue = Some(QueueName::new("night"));
    let worker = Event::of_worker(WorkerId::new("w"), Timestamp::default(), EventKind::WorkerOffline);
    assert!(hook(&["all"]).wants(&worker) && !night.wants(&worker));
    assert!(!night.wants_job(None) && hook(&[]).wants_job(None));
    let spec = |queue: &str| {
        let spec = JobSpec { queue: Some(QueueName::new(queue)), ..JobSpec::shell("x") };
        Job::new(JobId::from_random([2; 16]), Arc::new(spec), crate::Phase::Pending, Timestamp::default())
    };
    assert!(night.wants_job(Some(&spec("night"))) && !night.wants_job(Some(&spec("day"))));
}

#[test]
fn success_moves_on_and_forgets_failures() {
    let policy = DeliveryPolicy::default();
    let mut progress = Progress { attempts: 3, failures: 3, ..hook(&[]).progress };
    let now = Timestamp::from_micros(77);
    assert_eq!(policy.settle(&mut progress, delivery(), &Sent::Accepted, now), Fate::Next);
    assert_eq!((progress.cursor, progress.attempts, progress.failures), (5, 0, 0));
    assert_eq!((progress.delivered, progress.last_success), (1, Some(now)));
}

#[test]
fn failures_wait_longer_and_longer_and_then_the_event_is_put_aside() {
    let policy = DeliveryPolicy::default();
    let mut progress = hook(&[]).progress;
    let now = Timestamp::from_micros(1_000_000_000);
    let mut pauses = Vec::new();
    loop {
        match policy.settle(&mut progress, delivery(), &refused(), now) {
            Fate::Again(until) => {
                assert_eq!((progress.cursor, progress.not_before), (4, Some(until)));
                pauses.push(until.since(now).as_secs_f64());
            }
            Fate::Dead => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(pauses.len(), 9, "the tenth attempt is the last");
    for (attempt, pause) in pauses.iter().enumerate() {
        let bare = f64::from(1_u32 << attempt).min(300.0);
        assert!(*pause >= bare * 0.8 && *pause <= (bare * 1.2).min(300.0), "{attempt}: {pause}");
    }
    assert_eq!((progress.cursor, progress.attempts, progress.failures), (5, 0, 10));
    assert_eq!(progress.not_before, None);
}

#[test]
fn the_receiver_may_ask_for_a_longer_pause_up_to_the_cap() {
    let policy = DeliveryPolicy::default();
    let now = Timestamp::from_micros(0);
    let pause = |seconds: u32| {
        let sent = Sent::Refused { why: String::new(), retry_after: Some(Span::from_secs(seconds)) };
        match policy.settle(&mut Progress::default(), delivery(), &sent, now) {
            Fate::Again(until) => until.since(now).as_secs_f64(),
            other => panic!("{other:?}"),
        }
    };
    assert!(pause(0) < 1.3);
    assert!((pause(60) - 60.0).abs() < 1e-9);
    assert!((pause(86_400) - 300.0).abs() < 1e-9);
}

#[test]
fn gone_pauses_where_it_is() {
    let mut progress = hook(&[]).progress;
    let sent = Sent::Gone { why: "410".to_owned() };
    let fate = DeliveryPolicy::default().settle(&mut progress, delivery(), &sent, Timestamp::default());
    assert_eq!((fate, progress.cursor, progress.failures), (Fate::Pause, 4, 1));
}

#[test]
fn a_position_never_goes_back() {
    let mut progress = Progress { cursor: 9, ..Progress::default() };
    progress.pass(5);
    assert_eq!(progress.cursor, 9);
}

#[test]
fn delivery_ids_round_trip_and_secrets_stay_secret() {
    let id = delivery();
    assert_eq!(id.to_string().parse::<DeliveryId>().unwrap(), id);
    for text in ["", "hook-1.2", "5", "hook-67e55044-10b1-426f-9247-bb680e5fe0c8.x"] {
        assert!(text.parse::<DeliveryId>().is_err(), "{text:?}");
    }
    assert!(!format!("{:?}", hook(&[])).contains("s3cret"));
}

#[test]
fn every_default_is_a_name_of_an_event() {
    assert!(DEFAULT_EVENTS.iter().all(|name| EventKind::NAMES.contains(name)));
    assert!(!EventKind::NAMES.contains(&ALL_EVENTS));
}
