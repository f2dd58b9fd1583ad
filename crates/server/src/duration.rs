//! Durations as people write them: `30s`, `1h30m`, `500ms`, or plain seconds; and as health shows them.

use std::time::Duration;

const UNITS: [(&str, u64); 7] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("m", 60 * 1_000_000),
    ("h", 3_600 * 1_000_000),
    ("d", 86_400 * 1_000_000),
    ("w", 7 * 86_400 * 1_000_000),
];

/// Reads a duration; `None` when the text is not one. A number without a unit counts seconds.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (amount, tail) = rest.split_at(number);
        let unit_length = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, after) = tail.split_at(unit_length);
        let micros = UNITS.iter().find(|(name, _)| *name == unit)?.1;
        let part = amount.parse::<f64>().ok()? * (micros as f64 / 1e6);
        total = total.checked_add(Duration::try_from_secs_f64(part).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// Whole seconds in the way of the original: `0s`, `45s`, `1m12s`, `2h15m30s`; hours are never folded into days.
pub fn uptime(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs() + u64::from(elapsed.subsec_millis() >= 500);
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let cases = [
            ("30s", 30_000),
            ("30", 30_000),
            ("0.5", 500),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("1.5m", 90_000),
            ("2d", 172_800_000),
            ("0", 0),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "-1", "5x", "1h-3m", "nan", "1e999", "ms5", "1.2.3s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn uptime_is_rounded_to_seconds() {
        let cases = [(0, "0s"), (45, "45s"), (72, "1m12s"), (8130, "2h15m30s"), (90_000, "25h0m0s")];
        for (seconds, text) in cases {
            assert_eq!(uptime(Duration::from_secs(seconds)), text);
        }
        assert_eq!(uptime(Duration::from_millis(1700)), "2s");
    }
}
