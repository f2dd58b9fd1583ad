//! Webhooks and dead letters.

use muster_domain::{DeadLetter, DeliveryId, Webhook, WebhookId};
use muster_store::LetterFilter;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::error::during;
use crate::row::{from_json, sql_limit, to_json};
use crate::tx::{Done, PostgresTx};

fn uuids(ids: &[WebhookId]) -> Vec<Uuid> {
    ids.iter().map(WebhookId::as_uuid).collect()
}

/// The two halves of the keys of deliveries, as arrays.
fn keys(letters: &[DeliveryId]) -> (Vec<Uuid>, Vec<i64>) {
    letters.iter().map(|id| (id.hook.as_uuid(), number(id.event))).unzip()
}

fn number(event: u64) -> i64 {
    i64::try_from(event).unwrap_or(i64::MAX)
}

impl PostgresTx {
    pub(crate) async fn select_and_lock_webhooks(&mut self, ids: &[WebhookId]) -> Done<Vec<Webhook>> {
        let sql = "SELECT facts FROM webhooks WHERE id = ANY($1) ORDER BY id FOR UPDATE";
        let rows = self.query("lock webhooks", sql, &[&uuids(ids)]).await?;
        rows.iter().map(read_webhook).collect()
    }

    pub(crate) async fn select_all_webhooks(&mut self) -> Done<Vec<Webhook>> {
        let rows = self.query("read webhooks", "SELECT facts FROM webhooks ORDER BY id", &[]).await?;
        rows.iter().map(read_webhook).collect()
    }

    pub(crate) async fn write_webhooks(&mut self, webhooks: &[Webhook]) -> Done<()> {
        let ids: Vec<Uuid> = webhooks.iter().map(|webhook| webhook.id.as_uuid()).collect();
        let facts = webhooks.iter().map(to_json).collect::<Done<Vec<String>>>()?;
        let sql = "INSERT INTO webhooks (id, facts) SELECT id, facts \
                   FROM unnest($1::uuid[], $2::text[]) AS new (id, facts) ORDER BY id \
                   ON CONFLICT (id) DO UPDATE SET facts = excluded.facts";
        self.execute("put webhooks", sql, &[&ids, &facts]).await?;
        Ok(())
    }

    pub(crate) async fn remove_webhooks(&mut self, ids: &[WebhookId]) -> Done<()> {
        const OPERATION: &str = "delete webhooks";
        let ids = uuids(ids);
        self.execute(OPERATION, "DELETE FROM dead_letters WHERE webhook = ANY($1)", &[&ids]).await?;
        self.execute(OPERATION, "DELETE FROM webhooks WHERE id = ANY($1)", &[&ids]).await?;
        Ok(())
    }

    pub(crate) async fn write_dead_letters(&mut self, letters: &[DeadLetter]) -> Done<()> {
        let ids: Vec<DeliveryId> = letters.iter().map(DeadLetter::delivery).collect();
        let (hooks, events) = keys(&ids);
        let retries: Vec<bool> = letters.iter().map(|letter| letter.retry).collect();
        let texts = letters.iter().map(to_json).collect::<Done<Vec<String>>>()?;
        let sql = "INSERT INTO dead_letters (webhook, event, retry, letter) \
                   SELECT webhook, event, retry, letter \
                   FROM unnest($1::uuid[], $2::bigint[], $3::boolean[], $4::text[]) \
                   AS new (webhook, event, retry, letter) ORDER BY webhook, event \
                   ON CONFLICT (webhook, event) DO UPDATE SET retry = excluded.retry, letter = excluded.letter";
        self.execute("put dead letters", sql, &[&hooks, &events, &retries, &texts]).await?;
        Ok(())
    }

    pub(crate) async fn select_dead_letters(&mut self, filter: &LetterFilter) -> Done<Vec<DeadLetter>> {
        let sql = "SELECT letter FROM dead_letters WHERE ($1::uuid IS NULL OR webhook = $1) \
                   AND (NOT $2::boolean OR (webhook, event) IN (SELECT * FROM unnest($3::uuid[], $4::bigint[]))) \
                   AND (NOT $5::boolean OR retry) \
                   AND ($6::uuid IS NULL OR (webhook, event) > ($6, $7::bigint)) \
                   ORDER BY webhook, event LIMIT $8::bigint";
        let hook = filter.hook.map(|hook| hook.as_uuid());
        let named = !filter.letters.is_empty();
        let (hooks, events) = keys(&filter.letters);
        let after = filter.after.map(|id| id.hook.as_uuid());
        let after_event = filter.after.map(|id| number(id.event));
        let limit = sql_limit(filter.limit);
        let rows = self
            .query(
                "read dead letters",
                sql,
                &[&hook, &named, &hooks, &events, &filter.retry, &after, &after_event, &limit],
            )
            .await?;
        rows.iter().map(read_letter).collect()
    }

    pub(crate) async fn count_letters(&mut self) -> Done<Vec<(WebhookId, u64)>> {
        const OPERATION: &str = "count dead letters";
        let sql = "SELECT webhook, count(*) FROM dead_letters GROUP BY webhook";
        let rows = self.query(OPERATION, sql, &[]).await?;
        let count = |row: &Row| {
            let id = WebhookId::from_uuid(row.try_get(0)?);
            Ok((id, row.try_get::<_, i64>(1)? as u64))
        };
        rows.iter().map(|row| count(row).map_err(during(OPERATION))).collect()
    }

    pub(crate) async fn remove_dead_letters(&mut self, letters: &[DeliveryId]) -> Done<()> {
        let (hooks, events) = keys(letters);
        let sql = "DELETE FROM dead_letters WHERE (webhook, event) IN \
                   (SELECT * FROM unnest($1::uuid[], $2::bigint[]))";
        self.execute("delete dead letters", sql, &[&hooks, &events]).await?;
        Ok(())
    }
}

fn read_webhook(row: &Row) -> Done<Webhook> {
    let facts: String = row.try_get(0).map_err(during("read a webhook"))?;
    from_json(&facts, "webhook")
}

fn read_letter(row: &Row) -> Done<DeadLetter> {
    let letter: String = row.try_get(0).map_err(during("read a dead letter"))?;
    from_json(&letter, "dead letter")
}
