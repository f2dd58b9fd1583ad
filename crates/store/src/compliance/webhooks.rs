//! Webhooks: positions, pauses, dead letters.

use muster_domain::{DeadLetter, DeliveryId, Progress, Rejection, Secret, Webhook, WebhookId};

use super::stage::Stage;
use crate::command::{Command, Outcome};
use crate::store::StoreExt;
use crate::webhooks::{
    Delivered, LetterChoice, LetterFilter, MAX_LETTERS, MAX_WEBHOOKS, WebhookCommand, WebhookOutcome,
};

async fn change(stage: &Stage, command: WebhookCommand) -> Result<WebhookOutcome, Rejection> {
    match stage.one(Command::Webhook(command)).await? {
        Outcome::Webhook(outcome) => Ok(outcome),
        other => panic!("{other:?}"),
    }
}

async fn changed(stage: &Stage, command: WebhookCommand) -> Webhook {
    match change(stage, command).await.unwrap() {
        WebhookOutcome::Webhook(webhook) => *webhook,
        other => panic!("{other:?}"),
    }
}

async fn letters_meant(stage: &Stage, command: WebhookCommand) -> usize {
    match change(stage, command).await.unwrap() {
        WebhookOutcome::Letters(count) => count,
        other => panic!("{other:?}"),
    }
}

fn hook(stage: &Stage, url: &str) -> Webhook {
    Webhook {
        id: WebhookId::from_uuid(stage.new_id().as_uuid()),
        url: url.to_owned(),
        secret: Secret::new("κλειδί\u{0}\n"),
        events: vec!["done".to_owned()],
        queue: None,
        job_name: Some("nightly".to_owned()),
        created_at: stage.now(),
        paused: false,
        retrying: false,
        progress: Progress::default(),
    }
}

async fn create(stage: &Stage, url: &str) -> Webhook {
    changed(stage, WebhookCommand::Create(hook(stage, url))).await
}

fn letter(hook: WebhookId, event: u64) -> DeadLetter {
    DeadLetter {
        hook,
        event,
        kind: "done".to_owned(),
        job: None,
        at: muster_domain::Timestamp::from_micros(5),
        attempts: 10,
        error: "status 500".to_owned(),
        body: format!("{{\"text\":\"\u{1f980} {event}\"}}"),
        retry: false,
    }
}

fn report(webhook: &Webhook, cursor: u64) -> Delivered {
    let progress = Progress { cursor, ..webhook.progress.clone() };
    Delivered { id: webhook.id, progress, pause: false, dead: Vec::new(), revived: Vec::new() }
}

async fn dead(stage: &Stage, webhook: &Webhook, events: std::ops::RangeInclusive<u64>) {
    let dead = events.clone().map(|event| letter(webhook.id, event)).collect();
    let delivered = Delivered { dead, ..report(webhook, *events.end()) };
    changed(stage, WebhookCommand::Deliver(delivered)).await;
}

async fn listed(stage: &Stage, filter: LetterFilter) -> Vec<(WebhookId, u64)> {
    let letters = stage.store.dead_letters(filter).await.unwrap();
    letters.iter().map(|letter| (letter.hook, letter.event)).collect()
}

fn all() -> LetterFilter {
    LetterFilter { limit: 100_000, ..LetterFilter::default() }
}

async fn stored(stage: &Stage, id: WebhookId) -> Webhook {
    let webhooks = stage.store.webhooks(false).await.unwrap();
    webhooks.into_iter().map(|view| view.webhook).find(|webhook| webhook.id == id).unwrap()
}

pub async fn a_webhook_begins_with_the_next_event(stage: &Stage) {
    assert!(stage.store.webhooks(true).await.unwrap().is_empty());
    assert_eq!(create(stage, "http://early/").await.progress.cursor, 0);
    stage.run_to_done().await;
    let last = stage.store.last_event().await.unwrap();
    let made = create(stage, "http://late/").await;
    assert_eq!((made.progress.cursor, made.created_at), (last, stage.now()));
    assert_eq!(stored(stage, made.id).await, made, "everything is kept as it was given");
    assert_eq!(stage.store.webhooks(true).await.unwrap().len(), 2);
}

pub async fn webhooks_are_paused_resumed_and_removed(stage: &Stage) {
    let made = create(stage, "http://a/").await;
    let other = create(stage, "http://b/").await;
    let waiting = Progress { attempts: 4, not_before: Some(stage.now()), ..made.progress.clone() };
    let gone = Delivered { pause: true, progress: waiting, ..report(&made, 0) };
    let paused = changed(stage, WebhookCommand::Deliver(gone)).await;
    assert!(paused.paused && paused.progress.attempts == 4);
    let resumed = changed(stage, WebhookCommand::Pause { id: made.id, paused: false }).await;
    assert!(!resumed.paused && resumed.progress.attempts == 0 && resumed.progress.not_before.is_none());
    assert!(changed(stage, WebhookCommand::Pause { id: made.id, paused: true }).await.paused);
    dead(stage, &made, 1..=2).await;
    assert_eq!(change(stage, WebhookCommand::Delete { id: made.id }).await.unwrap(), WebhookOutcome::Deleted);
    let refused = Rejection::WebhookNotFound { id: made.id };
    assert_eq!(change(stage, WebhookCommand::Delete { id: made.id }).await.unwrap_err(), refused);
    let pause = WebhookCommand::Pause { id: made.id, paused: true };
    assert_eq!(change(stage, pause).await.unwrap_err(), refused);
    let late = WebhookCommand::Deliver(report(&made, 9));
    assert_eq!(change(stage, late).await.unwrap_err(), refused);
    assert_eq!(listed(stage, all()).await, [], "its dead letters are gone");
    assert_eq!(stage.store.webhooks(true).await.unwrap()[0].webhook, other);
}

pub async fn a_position_never_goes_back(stage: &Stage) {
    let made = create(stage, "http://a/").await;
    assert_eq!(changed(stage, WebhookCommand::Deliver(report(&made, 10))).await.progress.cursor, 10);
    let stale = Delivered { dead: vec![letter(made.id, 7)], pause: true, ..report(&made, 7) };
    let kept = changed(stage, WebhookCommand::Deliver(stale)).await;
    assert_eq!((kept.progress.cursor, kept.paused), (10, false));
    assert_eq!(listed(stage, all()).await, [], "what came late counts for nothing");
}

pub async fn dead_letters_are_kept_listed_and_removed(stage: &Stage) {
    let (one, two) = (create(stage, "http://a/").await, create(stage, "http://b/").await);
    dead(stage, &one, 1..=3).await;
    dead(stage, &two, 2..=2).await;
    let kept = stage.store.dead_letters(LetterFilter { hook: Some(one.id), ..all() }).await.unwrap();
    assert_eq!(kept, [1, 2, 3].map(|event| letter(one.id, event)));
    let counts = stage.store.webhooks(true).await.unwrap();
    let count = |id| counts.iter().find(|view| view.webhook.id == id).unwrap().dead_letters;
    assert_eq!((count(one.id), count(two.id)), (3, 1));
    let everything = listed(stage, all()).await;
    let mut paged = Vec::new();
    let mut after = None;
    loop {
        let page = listed(stage, LetterFilter { after, limit: 2, ..LetterFilter::default() }).await;
        let Some((hook, event)) = page.last().copied() else { break };
        after = Some(DeliveryId { hook, event });
        paged.extend(page);
    }
    assert_eq!(paged, everything);
    let named = LetterChoice { hook: None, letters: vec![DeliveryId { hook: one.id, event: 2 }] };
    assert_eq!(letters_meant(stage, WebhookCommand::Forget(named.clone())).await, 1);
    assert_eq!(letters_meant(stage, WebhookCommand::Forget(named)).await, 0);
    let of_one = LetterChoice { hook: Some(one.id), letters: Vec::new() };
    assert_eq!(letters_meant(stage, WebhookCommand::Forget(of_one)).await, 2);
    assert_eq!(listed(stage, all()).await, [(two.id, 2)]);
}

pub async fn dead_letters_are_sent_again_on_request(stage: &Stage) {
    let made = create(stage, "http://a/").await;
    dead(stage, &made, 1..=3).await;
    let ids: Vec<DeliveryId> = [1, 2].map(|event| DeliveryId { hook: made.id, event }).to_vec();
    let choice = LetterChoice { hook: None, letters: ids.clone() };
    assert_eq!(letters_meant(stage, WebhookCommand::Retry(choice)).await, 2);
    assert!(stored(stage, made.id).await.retrying);
    let due = LetterFilter { retry: true, ..all() };
    assert_eq!(listed(stage, due.clone()).await, [(made.id, 1), (made.id, 2)]);
    let first = Delivered { revived: vec![ids[0]], ..report(&made, 3) };
    assert!(changed(stage, WebhookCommand::Deliver(first)).await.retrying, "one is still to be sent");
    let again = Delivered { dead: vec![letter(made.id, 2)], ..report(&made, 3) };
    assert!(!changed(stage, WebhookCommand::Deliver(again)).await.retrying);
    assert_eq!(listed(stage, due).await, []);
    assert_eq!(listed(stage, all()).await, [(made.id, 2), (made.id, 3)]);
}

pub async fn old_dead_letters_give_way(stage: &Stage) {
    let (made, other) = (create(stage, "http://a/").await, create(stage, "http://b/").await);
    dead(stage, &other, 1..=1).await;
    let most = MAX_LETTERS as u64;
    dead(stage, &made, 1..=most).await;
    dead(stage, &made, most + 1..=most + 2).await;
    let kept = listed(stage, LetterFilter { hook: Some(made.id), ..all() }).await;
    assert_eq!((kept.len(), kept[0].1, kept[kept.len() - 1].1), (MAX_LETTERS, 3, most + 2));
    assert_eq!(listed(stage, LetterFilter { hook: Some(other.id), ..all() }).await.len(), 1);
}

pub async fn webhooks_are_bounded(stage: &Stage) {
    let commands =
        (0..MAX_WEBHOOKS).map(|_| Command::Webhook(WebhookCommand::Create(hook(stage, "http://a/"))));
    assert!(stage.apply(commands.collect()).await.iter().all(Result::is_ok));
    let refused = change(stage, WebhookCommand::Create(hook(stage, "http://a/"))).await;
    assert_eq!(refused, Err(Rejection::TooManyWebhooks { limit: MAX_WEBHOOKS }));
}
