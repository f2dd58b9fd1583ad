//! Amounts as people write them on the command line: memory, durations, points in time, pairs.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil};

/// Memory in MiB: `4G`, `512M`, `1.5GiB`, or a plain number of MiB. Fractions are rounded up.
pub(crate) fn memory_mb(text: &str) -> Result<u64, String> {
    muster_document::amounts::memory_mb(text)
        .ok_or_else(|| format!("{text:?} is not an amount of memory; write for example 512M, 4G or 1.5T"))
}

/// A number of CPU cores; fractions are allowed.
pub(crate) fn cpus(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(amount) if (0.0..=1e6).contains(&amount) => Ok(amount),
        _ => Err(format!("{text:?} is not a number of cores; write for example 2 or 0.5")),
    }
}

/// `500ms`, `30s`, `1h30m`, `2d`, or plain seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    muster_document::amounts::duration(text)
        .ok_or_else(|| format!("{text:?} is not a duration; write for example 30s, 5m or 1h30m"))
}

/// A point in time, or how long ago it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Since {
    Ago(Duration),
    At(Timestamp),
}

impl Since {
    /// The point in time, seen from `now`.
    pub(crate) fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => {
                let ago = SignedDuration::try_from(ago).unwrap_or(SignedDuration::MAX);
                now.checked_sub(ago).unwrap_or(Timestamp::MIN)
            }
        }
    }
}

/// `2h`, `2026-05-05` (UTC) or `2026-05-05T08:33:00Z`.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    if let Some(ago) = muster_document::amounts::duration(text) {
        return Ok(Since::Ago(ago));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(Since::At(at));
    }
    let day = text.parse::<civil::Date>().ok().and_then(|day| format!("{day}T00:00:00Z").parse().ok());
    day.map(Since::At).ok_or_else(|| {
        format!("{text:?} is not a time; write for example 2h, 2026-05-05 or 2026-05-05T08:33:00Z")
    })
}

/// A point in time, or how far it is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    In(Duration),
    At(Timestamp),
}

impl Moment {
    /// The point in time, seen from `now`.
    pub(crate) fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::In(time) => {
                let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
                now.checked_add(time).unwrap_or(Timestamp::MAX)
            }
        }
    }
}

/// `2h` from now, `2026-05-05` (UTC) or `2026-05-05T08:33:00Z`.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    since(text).map(|since| match since {
        Since::Ago(time) => Moment::In(time),
        Since::At(at) => Moment::At(at),
    })
}

/// `NAME=VALUE` of a parameter.
pub(crate) fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("{text:?} gives no parameter a value; write NAME=VALUE")),
    }
}

/// `KEY=VALUE`, or `KEY` alone to hand on the value of the surrounding environment.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    let (key, value) = match text.split_once('=') {
        Some((key, value)) => (key, value.to_owned()),
        None => (
            text,
            std::env::var(text).map_err(|_| {
                format!("{text:?} has no value, here or in the environment; write {text}=VALUE")
            })?,
        ),
    };
    if key.is_empty() {
        return Err(format!("{text:?} names no variable; write KEY=VALUE"));
    }
    Ok((key.to_owned(), value))
}

/// `NAME=AMOUNT` of a named counter; the amount is 1 when left out.
pub(crate) fn counter(text: &str) -> Result<(String, u64), String> {
    let (name, amount) = text.split_once('=').unwrap_or((text, "1"));
    match amount.trim().parse() {
        Ok(amount) if !name.is_empty() => Ok((name.to_owned(), amount)),
        _ => Err(format!("{text:?} is not a counter; write NAME=AMOUNT, for example license=1")),
    }
}

/// `NAME=VALUE` of a label.
pub(crate) fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} is not a label; write NAME=VALUE, for example rack=a")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_how_long_ago() {
        let now: Timestamp = "2026-05-05T08:33:00Z".parse().unwrap();
        assert_eq!(since("2h").unwrap().from(now).to_string(), "2026-05-05T06:33:00Z");
        assert_eq!(since("2026-05-01").unwrap().from(now).to_string(), "2026-05-01T00:00:00Z");
        assert_eq!(since("2026-05-01T10:00:00+02:00").unwrap().from(now).to_string(), "2026-05-01T08:00:00Z");
        assert!(since("yesterday").is_err());
        assert_eq!(since("99999999999w").map(|since| since.from(now)), Ok(Timestamp::MIN));
    }

    #[test]
    fn times_that_come() {
        let now: Timestamp = "2026-05-05T08:33:00Z".parse().unwrap();
        assert_eq!(moment("2h").unwrap().from(now).to_string(), "2026-05-05T10:33:00Z");
        assert_eq!(moment("2026-05-06").unwrap().from(now).to_string(), "2026-05-06T00:00:00Z");
        assert_eq!(moment("99999999999w").map(|moment| moment.from(now)), Ok(Timestamp::MAX));
        assert!(moment("tomorrow").is_err());
        assert_eq!(parameter("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(parameter("A").is_err() && parameter("=b").is_err());
    }

    #[test]
    fn pairs() {
        assert_eq!(variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(variable("A="), Ok(("A".into(), String::new())));
        assert!(variable("=x").is_err());
        assert!(variable("MUSTER_SURELY_NOT_SET").unwrap_err().contains("MUSTER_SURELY_NOT_SET=VALUE"));
        assert_eq!(counter("license=2"), Ok(("license".into(), 2)));
        assert_eq!(counter("license"), Ok(("license".into(), 1)));
        assert!(counter("license=x").is_err());
    }

    #[test]
    fn cores_may_be_fractions() {
        assert_eq!(cpus("0.5"), Ok(0.5));
        assert!(cpus("-1").is_err() && cpus("two").is_err() && cpus("NaN").is_err());
    }
}
