//! Errors of the database as errors of the store. Nowhere else is an error code looked at.

use muster_store::StoreError;
use rusqlite::ErrorCode;

/// Gives the failed operation its name: `.map_err(during("insert jobs"))`.
pub(crate) fn during(operation: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { operation, place: None },
        // The disk, the file system or another process is in the way; that can pass.
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OutOfMemory
            | ErrorCode::FileLockingProtocolFailed,
        ) => StoreError::Unavailable { operation, source: Box::new(error) },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { record: "the database file".to_owned(), detail: error.to_string() }
        }
        _ => StoreError::Failed { operation, source: Box::new(error) },
    }
}

/// A value that does not make sense where it was found.
pub(crate) fn corrupt(record: impl Into<String>, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt { record: record.into(), detail: detail.into() }
}

/// A failure that has no database error behind it.
pub(crate) fn failed(operation: &'static str, reason: impl Into<String>) -> StoreError {
    StoreError::Failed { operation, source: reason.into().into() }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn mapped(code: i32) -> StoreError {
        during("test")(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn a_full_disk_may_pass_and_a_broken_rule_will_not() {
        assert!(matches!(mapped(ffi::SQLITE_FULL), StoreError::Full { .. }));
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_BUSY] {
            assert!(matches!(mapped(code), StoreError::Unavailable { .. }), "{code}");
        }
        assert!(matches!(mapped(ffi::SQLITE_CORRUPT), StoreError::Corrupt { .. }));
        assert!(matches!(mapped(ffi::SQLITE_CONSTRAINT), StoreError::Failed { .. }));
    }
}
