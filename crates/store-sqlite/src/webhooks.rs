//! Webhooks and dead letters. One writer at a time: reading is as good as locking.

use muster_domain::{DeadLetter, DeliveryId, Webhook, WebhookId};
use muster_store::LetterFilter;
use rusqlite::{Row, params};
use uuid::Uuid;

use crate::error::during;
use crate::row::{from_json, to_json};
use crate::tx::{Done, SqliteTx};

fn id_bytes(id: WebhookId) -> [u8; 16] {
    id.as_uuid().into_bytes()
}

fn number(event: u64) -> i64 {
    i64::try_from(event).unwrap_or(i64::MAX)
}

impl SqliteTx<'_> {
    pub(crate) fn select_webhooks(&self, ids: &[WebhookId]) -> Done<Vec<Webhook>> {
        let sql = "SELECT facts FROM webhooks WHERE id = ?1";
        self.rows_of_each("read webhooks", sql, ids.iter().map(|id| [id_bytes(*id)]), read_webhook)
    }

    pub(crate) fn select_all_webhooks(&self) -> Done<Vec<Webhook>> {
        self.rows("read webhooks", "SELECT facts FROM webhooks ORDER BY id", [], read_webhook)
    }

    pub(crate) fn write_webhooks(&self, webhooks: &[Webhook]) -> Done<()> {
        const OPERATION: &str = "put webhooks";
        let sql = "INSERT OR REPLACE INTO webhooks (id, facts) VALUES (?1, ?2)";
        let mut statement = self.statement(OPERATION, sql)?;
        for webhook in webhooks {
            let facts = to_json(webhook)?;
            statement.execute(params![id_bytes(webhook.id), facts]).map_err(during(OPERATION))?;
        }
        Ok(())
    }

    pub(crate) fn remove_webhooks(&self, ids: &[WebhookId]) -> Done<()> {
        const OPERATION: &str = "delete webhooks";
        for sql in ["DELETE FROM dead_letters WHERE webhook = ?1", "DELETE FROM webhooks WHERE id = ?1"] {
            let mut statement = self.statement(OPERATION, sql)?;
            for id in ids {
                statement.execute([id_bytes(*id)]).map_err(during(OPERATION))?;
            }
        }
        Ok(())
    }

    pub(crate) fn write_dead_letters(&self, letters: &[DeadLetter]) -> Done<()> {
        const OPERATION: &str = "put dead letters";
        let sql =
            "INSERT OR REPLACE INTO dead_letters (webhook, event, retry, letter) VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.statement(OPERATION, sql)?;
        for letter in letters {
            let text = to_json(letter)?;
            let values = params![id_bytes(letter.hook), number(letter.event), letter.retry, text];
            statement.execute(values).map_err(during(OPERATION))?;
        }
        Ok(())
    }

    pub(crate) fn select_dead_letters(&self, filter: &LetterFilter) -> Done<Vec<DeadLetter>> {
        const OPERATION: &str = "read dead letters";
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        if !filter.letters.is_empty() {
            let sql = "SELECT letter FROM dead_letters WHERE webhook = ?1 AND event = ?2";
            let keys = filter.letters.iter().map(|id| (id_bytes(id.hook), number(id.event)));
            let mut letters = self.rows_of_each(OPERATION, sql, keys, read_letter)?;
            letters.retain(|letter| filter.hook.is_none_or(|hook| letter.hook == hook));
            letters.retain(|letter| !filter.retry || letter.retry);
            letters.truncate(filter.limit);
            return Ok(letters);
        }
        let sql = "SELECT letter FROM dead_letters WHERE (?1 IS NULL OR webhook = ?1) AND retry >= ?2 \
                   AND (webhook, event) > (?3, ?4) ORDER BY webhook, event LIMIT ?5";
        let hook = filter.hook.map(id_bytes);
        let after = filter.after.map_or(([0; 16], -1), |id| (id_bytes(id.hook), number(id.event)));
        self.rows(OPERATION, sql, params![hook, filter.retry, after.0, after.1, limit], read_letter)
    }

    pub(crate) fn count_letters(&self) -> Done<Vec<(WebhookId, u64)>> {
        const OPERATION: &str = "count dead letters";
        let sql = "SELECT webhook, count(*) FROM dead_letters GROUP BY webhook";
        self.rows(OPERATION, sql, [], |row| {
            let fail = during(OPERATION);
            let id = WebhookId::from_uuid(Uuid::from_bytes(row.get(0).map_err(&fail)?));
            Ok((id, row.get::<_, i64>(1).map_err(&fail)? as u64))
        })
    }

    pub(crate) fn remove_dead_letters(&self, letters: &[DeliveryId]) -> Done<()> {
        const OPERATION: &str = "delete dead letters";
        let sql = "DELETE FROM dead_letters WHERE webhook = ?1 AND event = ?2";
        let mut statement = self.statement(OPERATION, sql)?;
        for id in letters {
            statement.execute(params![id_bytes(id.hook), number(id.event)]).map_err(during(OPERATION))?;
        }
        Ok(())
    }
}

fn read_webhook(row: &Row<'_>) -> Done<Webhook> {
    let facts: String = row.get(0).map_err(during("read a webhook"))?;
    from_json(&facts, "webhook")
}

fn read_letter(row: &Row<'_>) -> Done<DeadLetter> {
    let letter: String = row.get(0).map_err(during("read a dead letter"))?;
    from_json(&letter, "dead letter")
}
