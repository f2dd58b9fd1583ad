//! The counters of the table `numbers`, one for each kind of row that is numbered.

use rusqlite::Connection;

use crate::error::during;
use crate::tx::Done;

/// One counter: read when first needed, written back once at the end.
#[derive(Debug, Default)]
pub(crate) struct Number {
    pub(crate) last: Option<i64>,
}

impl Number {
    /// Reserves `count` numbers and returns the first.
    pub(crate) fn reserve(&mut self, connection: &Connection, kind: &str, count: usize) -> Done<i64> {
        let fail = during("read numbers");
        let last = if let Some(last) = self.last {
            last
        } else {
            let sql = "SELECT last FROM numbers WHERE kind = ?1";
            let mut statement = connection.prepare_cached(sql).map_err(&fail)?;
            statement.query_row([kind], |row| row.get(0)).map_err(&fail)?
        };
        self.last = Some(last + count as i64);
        Ok(last + 1)
    }
}
