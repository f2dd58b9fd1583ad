//! Points in time as people write them: how far away they are, with a zone, or without one.
//!
//! Guarantee: what is read here is exactly what was written; a time without a zone gets one only where the zone is
//! known, and that is said.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Zoned, civil};

use crate::zone::Zone;

/// What can be written, for messages.
const FORMS: &str = "write how far away it is, such as 2h; a local time, such as 2026-05-05, \"2026-05-05 08:33\" or \
                     2026-05-05T08:33:00; or one with its zone, such as 2026-05-05T08:33:00Z, \
                     2026-05-05T08:33:00+02:00 or 2026-05-05T08:33[Europe/Berlin]";

/// The forms without a zone.
const LOCAL: [&str; 5] =
    ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"];

/// A point in time as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WrittenTime {
    /// So far away; whether back or ahead, the option says.
    Away(Duration),
    At(Timestamp),
    /// Without a zone.
    Local {
        time: civil::DateTime,
        text: String,
    },
}

/// What a written time means, and how it was read when that was not said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meant {
    pub(crate) at: Timestamp,
    pub(crate) remark: Option<String>,
}

impl WrittenTime {
    /// The time, of which `2h` lies in the past.
    pub(crate) fn back_from(&self, now: Timestamp, zone: Zone) -> Result<Meant, String> {
        self.meant(zone, |away| now.checked_sub(away).unwrap_or(Timestamp::MIN))
    }

    /// The time, of which `2h` lies in the future.
    pub(crate) fn ahead_of(&self, now: Timestamp, zone: Zone) -> Result<Meant, String> {
        self.meant(zone, |away| now.checked_add(away).unwrap_or(Timestamp::MAX))
    }

    fn meant(&self, zone: Zone, away: impl Fn(SignedDuration) -> Timestamp) -> Result<Meant, String> {
        match self {
            Self::At(at) => Ok(Meant { at: *at, remark: None }),
            Self::Away(time) => {
                let time = SignedDuration::try_from(*time).unwrap_or(SignedDuration::MAX);
                Ok(Meant { at: away(time), remark: None })
            }
            Self::Local { time, text } => {
                let assumed = zone.assume(text, *time)?;
                Ok(Meant { at: assumed.at, remark: Some(assumed.remark) })
            }
        }
    }
}

/// Any of the forms.
pub(crate) fn time(text: &str) -> Result<WrittenTime, String> {
    let text = text.trim();
    if let Some(away) = muster_document::amounts::duration(text) {
        return Ok(WrittenTime::Away(away));
    }
    // A zone that is named must be understood: nothing below looks at it.
    if text.ends_with(']') {
        let zoned = text.parse::<Zoned>();
        return zoned
            .map(|at| WrittenTime::At(at.timestamp()))
            .map_err(|error| format!("{text:?} is not a time: {error}; {FORMS}"));
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(WrittenTime::At(at));
    }
    let local = |format: &&str| {
        let date = || civil::Date::strptime(format, text).ok().map(|day| day.at(0, 0, 0, 0));
        civil::DateTime::strptime(format, text).ok().or_else(date)
    };
    LOCAL
        .iter()
        .find_map(local)
        .map(|time| WrittenTime::Local { time, text: text.to_owned() })
        .ok_or_else(|| format!("{text:?} is not a time; {FORMS}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::tests::berlin;

    fn now() -> Timestamp {
        "2026-05-05T08:33:00Z".parse().unwrap()
    }

    #[track_caller]
    fn ahead(text: &str) -> String {
        time(text).unwrap().ahead_of(now(), berlin()).unwrap().at.to_string()
    }

    #[test]
    fn how_far_away_goes_both_ways() {
        let written = time("2h").unwrap();
        assert_eq!(written.back_from(now(), berlin()).unwrap().at.to_string(), "2026-05-05T06:33:00Z");
        assert_eq!(written.ahead_of(now(), berlin()).unwrap().at.to_string(), "2026-05-05T10:33:00Z");
        let far = time("99999999999w").unwrap();
        assert_eq!(far.back_from(now(), berlin()).unwrap().at, Timestamp::MIN);
        assert_eq!(far.ahead_of(now(), berlin()).unwrap().at, Timestamp::MAX);
    }

    #[test]
    fn a_time_without_a_zone_is_local_and_keeps_its_hour() {
        let eight = "2026-12-01T07:00:00Z";
        for text in ["2026-12-01 08:00", "2026-12-01T08:00", "2026-12-01 08:00:00", " 2026-12-01T08:00:00.0 "]
        {
            assert_eq!(ahead(text), eight, "{text}");
            let meant = time(text).unwrap().back_from(now(), berlin()).unwrap();
            let remark = meant.remark.unwrap();
            assert!(remark.contains(text.trim()) && remark.contains("08:00:00+01:00"), "{remark}");
        }
        assert_eq!(ahead("2026-12-01"), "2026-11-30T23:00:00Z");
        assert_eq!(ahead("2026-12-01 08:00:00.25"), "2026-12-01T07:00:00.25Z");
    }

    #[test]
    fn a_zone_that_is_written_counts() {
        for text in [
            "2026-12-01T07:00:00Z",
            "2026-12-01 08:00+01:00",
            "2026-12-01T08:00:00+01:00",
            "2026-12-01T07:00[UTC]",
        ] {
            assert_eq!(ahead(text), "2026-12-01T07:00:00Z", "{text}");
            assert_eq!(time(text).unwrap().ahead_of(now(), berlin()).unwrap().remark, None, "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_told_the_forms() {
        for text in [
            "tomorrow",
            "",
            "08:00",
            "2026-13-01",
            "2026-12-01 25:00",
            "2026-12-01T08:00[Mars/Base]",
            "2026-12-01 08:00 CET",
            "2026-12-01+01:00",
            "2026-12-01 8 Uhr",
        ] {
            let error = time(text).unwrap_err();
            assert!(
                error.contains("2h") && error.contains("\"2026-05-05 08:33\"") && error.contains("+02:00"),
                "{error}"
            );
            assert!(error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
