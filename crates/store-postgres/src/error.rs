//! Errors of the database as errors of the store. Nowhere else is an error code looked at.

use std::error::Error;
use std::fmt;

use deadpool_postgres::PoolError;
use muster_store::StoreError;
use muster_tls::{Untrusted, untrusted};
use tokio_postgres::error::{DbError, SqlState};

/// Unique indexes that two transactions may run into without either being wrong: tried again, the loser
/// finds what the winner wrote.
const RACES: [&str; 2] = ["jobs_by_key", "shapes_pkey"];

/// Gives the failed operation its name: `.map_err(during("insert jobs"))`.
pub(crate) fn during(operation: &'static str) -> impl Fn(tokio_postgres::Error) -> StoreError {
    move |error| match error.as_db_error() {
        None if untrusted(&error).is_some() => {
            StoreError::Unavailable { operation, source: distrust(&error) }
        }
        Some(told) if is_collision(told) => StoreError::Conflict { operation },
        Some(told) if *told.code() == SqlState::DISK_FULL => {
            StoreError::Full { operation, place: Some("on the disk of the PostgreSQL server".to_owned()) }
        }
        Some(told) if !is_outage(told.code()) => {
            StoreError::Failed { operation, source: describe(&error).into() }
        }
        None if !is_lost(&error) => StoreError::Failed { operation, source: describe(&error).into() },
        Some(_) | None => StoreError::Unavailable { operation, source: describe(&error).into() },
    }
}

/// The same for the pool, which may also have no connection to give.
pub(crate) fn acquiring(operation: &'static str) -> impl Fn(PoolError) -> StoreError {
    move |error| match error {
        PoolError::Backend(error) => during(operation)(error),
        PoolError::Closed => StoreError::Closed,
        error => StoreError::Unavailable { operation, source: Box::new(error) },
    }
}

/// Whether the server showed a certificate that is not believed. A program that starts does not wait for another one; one
/// that runs does, as for a server that is away.
pub(crate) fn is_untrusted(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable { source, .. } if source.is::<Distrust>())
}

#[derive(Debug)]
struct Distrust(Untrusted);

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server is not trusted: {}; ", self.0)?;
        match self.0 {
            Untrusted::WrongName { .. } => f.write_str(
                "use a host of the certificate in the URL, or sslmode=verify-ca, which asks for the CA only",
            ),
            _ => f.write_str("name the CA that signed it with sslrootcert=FILE in the URL"),
        }
    }
}

impl Error for Distrust {}

fn distrust(error: &tokio_postgres::Error) -> Box<dyn Error + Send + Sync> {
    match untrusted(error) {
        Some(problem) => Box::new(Distrust(problem.clone())),
        None => describe(error).into(),
    }
}

fn is_collision(told: &DbError) -> bool {
    let code = told.code();
    *code == SqlState::T_R_SERIALIZATION_FAILURE
        || *code == SqlState::T_R_DEADLOCK_DETECTED
        || *code == SqlState::UNIQUE_VIOLATION && told.constraint().is_some_and(|name| RACES.contains(&name))
}

/// Classes of codes that say nothing about the statement: lost connections, exhausted resources, an
/// operator's intervention (which includes time-outs), failures of the system; and a standby that cannot write.
fn is_outage(code: &SqlState) -> bool {
    ["08", "53", "57", "58"].iter().any(|class| code.code().starts_with(class))
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// Whether an error that the server did not send is one of the connection: closed, broken or timed out.
/// The others (a value that does not fit its column, a wrong setting) do not pass by waiting.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    let cause = error.source();
    error.is_closed() || cause.is_none() || cause.is_some_and(<dyn Error>::is::<std::io::Error>)
}

/// The whole chain: the outermost text alone often says only "db error".
fn describe(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// A value that does not make sense where it was found.
pub(crate) fn corrupt(record: impl Into<String>, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt { record: record.into(), detail: detail.into() }
}

/// A failure that has no database error behind it.
pub(crate) fn failed(operation: &'static str, reason: impl Into<String>) -> StoreError {
    StoreError::Failed { operation, source: reason.into().into() }
}
