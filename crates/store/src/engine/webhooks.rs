//! Webhooks: their settings, how far each has come, and what could not be delivered.
//!
//! Guarantee: a webhook's position in the log never goes back, whoever reports late.

use std::collections::{BTreeSet, HashMap};

use muster_domain::{DeadLetter, DeliveryId, Rejection, Webhook, WebhookId};

use super::work::Work;
use super::{Answers, pick};
use crate::command::{Command, Outcome};
use crate::error::StoreError;
use crate::tx::Tx;
use crate::webhooks::{
    Delivered, LetterChoice, LetterFilter, MAX_LETTERS, MAX_WEBHOOKS, WebhookCommand, WebhookOutcome,
    WebhookView,
};

/// Dead letters that one command handles at most.
const CHOSEN: usize = 10_000;

/// All webhooks, oldest first.
pub(super) async fn list<T: Tx>(tx: &mut T, counted: bool) -> Result<Vec<WebhookView>, StoreError> {
    let mut webhooks = tx.webhooks().await?;
    webhooks.sort_by_key(|webhook| (webhook.created_at, webhook.id));
    let mut counts: HashMap<WebhookId, u64> = HashMap::new();
    if counted && !webhooks.is_empty() {
        counts.extend(tx.count_dead_letters().await?);
    }
    let view = |webhook: Webhook| WebhookView {
        dead_letters: counts.get(&webhook.id).copied().unwrap_or(0),
        webhook,
    };
    Ok(webhooks.into_iter().map(view).collect())
}

pub(super) async fn apply<T: Tx>(
    work: &mut Work<'_, T>,
    commands: &[&Command],
    answers: &mut Answers,
) -> Result<(), StoreError> {
    let wanted = pick(commands, |command| match command {
        Command::Webhook(wanted) => Some(wanted),
        _ => None,
    });
    for (position, command) in wanted {
        let answer = match command {
            WebhookCommand::Create(webhook) => create(work, webhook).await?,
            WebhookCommand::Pause { id, paused } => pause(work, *id, *paused).await?,
            WebhookCommand::Delete { id } => delete(work, *id).await?,
            WebhookCommand::Deliver(delivered) => deliver(work, delivered).await?,
            WebhookCommand::Retry(choice) => retry(work, choice).await?,
            WebhookCommand::Forget(choice) => forget(work, choice).await?,
        };
        answers.put(position, answer.map(Outcome::Webhook));
    }
    Ok(())
}

type Told = Result<Result<WebhookOutcome, Rejection>, StoreError>;

/// A new one is told about what happens from now on.
async fn create<T: Tx>(work: &mut Work<'_, T>, webhook: &Webhook) -> Told {
    if work.tx.webhooks().await?.len() >= MAX_WEBHOOKS {
        return Ok(Err(Rejection::TooManyWebhooks { limit: MAX_WEBHOOKS }));
    }
    let mut webhook = webhook.clone();
    webhook.created_at = work.now;
    webhook.progress.cursor = work.tx.last_event().await?;
    work.tx.put_webhooks(std::slice::from_ref(&webhook)).await?;
    work.note_events();
    Ok(Ok(WebhookOutcome::Webhook(Box::new(webhook))))
}

async fn pause<T: Tx>(work: &mut Work<'_, T>, id: WebhookId, paused: bool) -> Told {
    let Some(mut webhook) = lock(work, id).await? else { return Ok(Err(Rejection::WebhookNotFound { id })) };
    if webhook.paused != paused {
        webhook.paused = paused;
        // Whoever resumes expects an attempt now, and all of them.
        webhook.progress.attempts = 0;
        webhook.progress.not_before = None;
        work.tx.put_webhooks(std::slice::from_ref(&webhook)).await?;
        work.note_events();
    }
    Ok(Ok(WebhookOutcome::Webhook(Box::new(webhook))))
}

async fn delete<T: Tx>(work: &mut Work<'_, T>, id: WebhookId) -> Told {
    if lock(work, id).await?.is_none() {
        return Ok(Err(Rejection::WebhookNotFound { id }));
    }
    work.tx.delete_webhooks(&[id]).await?;
    work.note_events();
    Ok(Ok(WebhookOutcome::Deleted))
}

async fn deliver<T: Tx>(work: &mut Work<'_, T>, delivered: &Delivered) -> Told {
    let id = delivered.id;
    let Some(mut webhook) = lock(work, id).await? else { return Ok(Err(Rejection::WebhookNotFound { id })) };
    if delivered.progress.cursor >= webhook.progress.cursor {
        webhook.progress = delivered.progress.clone();
        webhook.paused |= delivered.pause;
        if !delivered.dead.is_empty() {
            work.tx.put_dead_letters(&delivered.dead).await?;
            trim(work, id).await?;
        }
    }
    if !delivered.revived.is_empty() {
        work.tx.delete_dead_letters(&delivered.revived).await?;
    }
    if webhook.retrying {
        let due = LetterFilter { hook: Some(id), retry: true, limit: 1, ..LetterFilter::default() };
        webhook.retrying = !work.tx.dead_letters(&due).await?.is_empty();
    }
    work.tx.put_webhooks(std::slice::from_ref(&webhook)).await?;
    Ok(Ok(WebhookOutcome::Webhook(Box::new(webhook))))
}

/// Keeps the newest dead letters of a webhook.
async fn trim<T: Tx>(work: &mut Work<'_, T>, id: WebhookId) -> Result<(), StoreError> {
    let counts = work.tx.count_dead_letters().await?;
    let count = counts.iter().find(|(hook, _)| *hook == id).map_or(0, |(_, count)| *count as usize);
    let excess = count.saturating_sub(MAX_LETTERS);
    if excess == 0 {
        return Ok(());
    }
    let oldest = LetterFilter { hook: Some(id), limit: excess, ..LetterFilter::default() };
    let oldest = work.tx.dead_letters(&oldest).await?;
    let oldest: Vec<DeliveryId> = oldest.iter().map(DeadLetter::delivery).collect();
    work.tx.delete_dead_letters(&oldest).await
}

async fn retry<T: Tx>(work: &mut Work<'_, T>, choice: &LetterChoice) -> Told {
    let mut letters = chosen(work, choice).await?;
    for letter in &mut letters {
        letter.retry = true;
    }
    let ids: BTreeSet<WebhookId> = letters.iter().map(|letter| letter.hook).collect();
    let ids: Vec<WebhookId> = ids.into_iter().collect();
    if ids.is_empty() {
        return Ok(Ok(WebhookOutcome::Letters(0)));
    }
    let mut webhooks = work.tx.lock_webhooks(&ids).await?;
    for webhook in &mut webhooks {
        webhook.retrying = true;
        webhook.progress.not_before = None;
    }
    work.tx.put_dead_letters(&letters).await?;
    work.tx.put_webhooks(&webhooks).await?;
    work.note_events();
    Ok(Ok(WebhookOutcome::Letters(letters.len())))
}

async fn forget<T: Tx>(work: &mut Work<'_, T>, choice: &LetterChoice) -> Told {
    let letters = chosen(work, choice).await?;
    let ids: Vec<DeliveryId> = letters.iter().map(DeadLetter::delivery).collect();
    if !ids.is_empty() {
        work.tx.delete_dead_letters(&ids).await?;
    }
    Ok(Ok(WebhookOutcome::Letters(ids.len())))
}

async fn chosen<T: Tx>(work: &mut Work<'_, T>, choice: &LetterChoice) -> Result<Vec<DeadLetter>, StoreError> {
    let filter = LetterFilter {
        hook: choice.hook,
        letters: choice.letters.clone(),
        limit: CHOSEN,
        ..LetterFilter::default()
    };
    work.tx.dead_letters(&filter).await
}

async fn lock<T: Tx>(work: &mut Work<'_, T>, id: WebhookId) -> Result<Option<Webhook>, StoreError> {
    Ok(work.tx.lock_webhooks(&[id]).await?.pop())
}
