//! The only place that reads the wall clock, and the only translation of times to the wire.

use std::time::{SystemTime, UNIX_EPOCH};

use muster_domain::Timestamp;

/// The time now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A time as the wire shows it. Times beyond what the format can express become its end.
pub fn to_wire(time: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(time.as_micros()).unwrap_or(jiff::Timestamp::MAX)
}

/// A time from the wire.
pub fn from_wire(time: jiff::Timestamp) -> Timestamp {
    Timestamp::from_micros(time.as_microsecond())
}
