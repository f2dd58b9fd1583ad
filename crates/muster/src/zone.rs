//! The time zone in which people read and write times. Programs get RFC 3339 in UTC, whatever it is.
//!
//! Guarantee: a time that names its zone or its offset means that and nothing else; only one without is read in this zone.

use std::sync::OnceLock;

use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, civil};

static UTC: TimeZone = TimeZone::UTC;
/// The scheduler writes `2026-05-05 08:33 UTC` or this, which is as long.
const FORM: &str = "2026-05-05T08:33:00Z";

/// A time zone that lives as long as the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Zone {
    rules: &'static TimeZone,
    /// It stands for the zone of the machine, which cannot be read.
    unknown: bool,
}

/// What a time without a zone came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assumed {
    pub(crate) at: Timestamp,
    /// How it was read, for people.
    pub(crate) remark: String,
}

impl Zone {
    pub(crate) const UTC: Self = Self { rules: &UTC, unknown: false };

    /// That of the machine: the variable `TZ`, else `/etc/localtime`; UTC when neither can be read.
    pub(crate) fn of_system() -> Self {
        static SYSTEM: OnceLock<Option<TimeZone>> = OnceLock::new();
        match SYSTEM.get_or_init(|| TimeZone::try_system().ok()) {
            Some(rules) => Self { rules, unknown: false },
            None => Self { unknown: true, ..Self::UTC },
        }
    }

    /// `2026-05-05 08:33:00`, for columns, where the zone would be said on every line.
    pub(crate) fn bare(self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M:%S")
    }

    /// `2026-05-05 08:33:00 CEST`.
    pub(crate) fn time(self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M:%S %Z")
    }

    /// `2026-05-05 08:33`, for columns where seconds do not matter.
    pub(crate) fn bare_minute(self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M")
    }

    /// `2026-05-05 08:33 CEST`.
    pub(crate) fn minute(self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%d %H:%M %Z")
    }

    /// The time of day, with what is needed to order events.
    pub(crate) fn clock(self, at: Timestamp) -> String {
        self.format(at, "%H:%M:%S%.3f")
    }

    /// RFC 3339 with milliseconds and the offset of this zone.
    pub(crate) fn stamp(self, at: Timestamp) -> String {
        if self.rules.to_offset_info(at).abbreviation() == "UTC" {
            return format!("{at:.3}");
        }
        self.format(at, "%Y-%m-%dT%H:%M:%S%.3f%:z")
    }

    fn format(self, at: Timestamp, format: &str) -> String {
        at.to_zoned(self.rules.clone()).strftime(format).to_string()
    }

    /// The times in a sentence of the scheduler, which are in UTC, in this zone.
    pub(crate) fn in_text(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let found = rest.get(..FORM.len()).and_then(|start| self.translated(start));
            let taken = if found.is_some() { FORM.len() } else { letter.len_utf8() };
            out.push_str(found.as_deref().unwrap_or(&rest[..taken]));
            rest = &rest[taken..];
        }
        out
    }

    /// A time of the scheduler; `None` when the text is none.
    fn translated(self, text: &str) -> Option<String> {
        // Most of what is looked at is no time: that is seen by two bytes.
        if text.as_bytes().get(4) != Some(&b'-') || text.as_bytes().get(7) != Some(&b'-') {
            return None;
        }
        if let Some((date, time)) = text.strip_suffix(" UTC").and_then(|time| time.split_once(' ')) {
            return Some(self.minute(format!("{date}T{time}Z").parse().ok()?));
        }
        text.ends_with('Z').then(|| text.parse().ok().map(|at| self.time(at)))?
    }

    /// What people mean by a time that names no zone. A time that the clocks skip is read as if they had not been
    /// set forward; of a time that comes twice the first is taken.
    pub(crate) fn assume(self, written: &str, time: civil::DateTime) -> Result<Assumed, String> {
        let ambiguous = self.rules.to_ambiguous_timestamp(time);
        let unusual = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => "",
            AmbiguousOffset::Gap { .. } => "; the clocks skip that time, which is taken as if they did not",
            AmbiguousOffset::Fold { .. } => "; that time comes twice, and the first is taken",
        };
        let at = ambiguous
            .compatible()
            .map_err(|_| format!("{written:?} is too far away in the time zone {}", self.name()))?;
        let shown = self.stamp(at).replacen(".000", "", 1);
        let remark = format!("{written:?} names no time zone: taken in {}, as {shown}{unusual}", self.name());
        Ok(Assumed { at, remark })
    }

    /// `Europe/Berlin`, or what else there is to call it by.
    fn name(self) -> String {
        match self.rules.iana_name() {
            _ if self.unknown => "UTC, since neither TZ nor /etc/localtime names a time zone".to_owned(),
            Some("Etc/UTC") => "UTC".to_owned(),
            Some(name) => name.to_owned(),
            None => "the local time of this machine".to_owned(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Central Europe, by its rule, so that no database is needed.
    pub(crate) fn berlin() -> Zone {
        static BERLIN: OnceLock<TimeZone> = OnceLock::new();
        let rules = BERLIN.get_or_init(|| TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        Zone { rules, unknown: false }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn times_are_shown_in_the_zone() {
        let summer = at("2026-07-01T22:30:15.1234Z");
        assert_eq!(berlin().time(summer), "2026-07-02 00:30:15 CEST");
        assert_eq!(berlin().bare(summer), "2026-07-02 00:30:15");
        assert_eq!(berlin().minute(at("2026-12-01T07:00:00Z")), "2026-12-01 08:00 CET");
        assert_eq!(berlin().clock(summer), "00:30:15.123");
        assert_eq!(berlin().stamp(summer), "2026-07-02T00:30:15.123+02:00");
        assert_eq!(Zone::UTC.time(summer), "2026-07-01 22:30:15 UTC");
        assert_eq!(Zone::UTC.stamp(summer), "2026-07-01T22:30:15.123Z");
    }

    #[test]
    fn times_without_a_zone_are_those_of_the_zone() {
        let cases = [
            ("2026-12-01T08:00:00", "2026-12-01T07:00:00Z", ""),
            ("2026-07-01T08:00:00", "2026-07-01T06:00:00Z", ""),
            // The clocks go from 02:00 to 03:00, and from 03:00 back to 02:00.
            ("2026-03-29T02:30:00", "2026-03-29T01:30:00Z", "skip"),
            ("2026-10-25T02:30:00", "2026-10-25T00:30:00Z", "twice"),
        ];
        for (written, expected, said) in cases {
            let assumed = berlin().assume(written, written.parse().unwrap()).unwrap();
            assert_eq!(assumed.at, at(expected), "{written}");
            assert!(assumed.remark.contains(said) && assumed.remark.contains(written), "{assumed:?}");
            assert!(!said.is_empty() || !assumed.remark.contains(';'), "{assumed:?}");
        }
        assert!(berlin().assume("then", civil::DateTime::MIN).is_err());
    }

    #[test]
    fn sentences_of_the_scheduler_are_translated() {
        let text =
            "room is wanted at 2026-05-05 14:20 UTC: until about 2026-12-05 23:20 UTC, not UTC or 14:20 UTC";
        assert_eq!(
            berlin().in_text(text),
            "room is wanted at 2026-05-05 16:20 CEST: until about 2026-12-06 00:20 CET, not UTC or 14:20 UTC"
        );
        assert_eq!(Zone::UTC.in_text(text), text);
        let exact = "starts not before 2026-12-01T07:00:00Z";
        assert_eq!(berlin().in_text(exact), "starts not before 2026-12-01 08:00:00 CET");
        assert_eq!(berlin().in_text("ääääääääääääääääääää UTC"), "ääääääääääääääääääää UTC");
    }
}
