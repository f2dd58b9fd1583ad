//! Amounts as people write them, in files and on the command line: durations, memory, signals.

use std::time::Duration;

/// Units of time in seconds.
const TIME_UNITS: [(&str, f64); 7] = [
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3_600.0),
    ("d", 86_400.0),
    ("w", 7.0 * 86_400.0),
];
/// Units of memory in MiB.
const MEMORY_UNITS: [(char, f64); 5] =
    [('k', 1.0 / 1024.0), ('m', 1.0), ('g', 1024.0), ('t', 1024.0 * 1024.0), ('p', 1024.0 * 1024.0 * 1024.0)];
/// More than any machine has; keeps sums far from the end of the number range.
const MEMORY_LIMIT_MB: f64 = 1e12;
/// The signals of Linux in the order of their numbers, from 1.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
    "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// Reads `500ms`, `30s`, `1h30m`, `2d` or plain seconds; `None` when the text is no duration.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (amount, tail) = rest.split_at(number);
        let unit_length = tail.find(|letter: char| letter.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, after) = tail.split_at(unit_length);
        let seconds = TIME_UNITS.iter().find(|(name, _)| *name == unit)?.1;
        let part = amount.parse::<f64>().ok()? * seconds;
        total = total.checked_add(Duration::try_from_secs_f64(part).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// How much more memory, and the most in MiB: `x2`, `x1.5:64G`; `None` when the text is none.
pub fn memory_growth(text: &str) -> Option<(f64, Option<u64>)> {
    let (factor, most) = match text.trim().split_once(':') {
        Some((factor, most)) => (factor, Some(memory_mb(most).filter(|most| *most > 0)?)),
        None => (text.trim(), None),
    };
    let factor = factor.strip_prefix('x')?.parse::<f64>().ok()?;
    (factor > 1.0 && factor <= 100.0).then_some((factor, most))
}

/// Memory in MiB: `4G`, `512M`, `1.5GiB`, or a plain number of MiB; `None` when the text is none. Fractions are
/// rounded up.
pub fn memory_mb(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match lower[digits.len()..].chars().next() {
        None => 1.0,
        Some(letter) => {
            let rest = &lower[digits.len() + letter.len_utf8()..];
            if !matches!(rest, "" | "b" | "ib") {
                return None;
            }
            MEMORY_UNITS.iter().find(|(name, _)| *name == letter)?.1
        }
    };
    let amount: f64 = digits.trim_end().parse().ok()?;
    let total = (amount * factor).ceil();
    (0.0..=MEMORY_LIMIT_MB).contains(&total).then_some(total as u64)
}

/// The full name of a signal given as `SIGINT`, `int` or `2`; `None` when there is no such signal.
pub fn signal(text: &str) -> Option<String> {
    let upper = text.trim().to_ascii_uppercase();
    if let Ok(number) = upper.parse::<usize>() {
        return SIGNALS.get(number.checked_sub(1)?).map(|name| format!("SIG{name}"));
    }
    let short = upper.strip_prefix("SIG").unwrap_or(&upper);
    SIGNALS.iter().find(|name| **name == short).map(|name| format!("SIG{name}"))
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
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "-1", "5x", "1h-3m", "nan", "1e999", "ms5", "1.2.3s", "5ä"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn memory_in_the_units_of_people() {
        let cases = [
            ("512", 512),
            ("512M", 512),
            ("4G", 4096),
            ("4gb", 4096),
            ("4GiB", 4096),
            ("1.5G", 1536),
            ("1T", 1024 * 1024),
            ("100K", 1),
            ("0", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(memory_mb(text), Some(expected), "{text}");
        }
        for text in ["", "G", "4X", "4GX", "-1G", "4 G G", "nan", "inf", "1e30", "4ä"] {
            assert!(memory_mb(text).is_none(), "{text}");
        }
    }

    #[test]
    fn signals_by_name_and_number() {
        for text in ["SIGINT", "INT", "int", "sigint", "2"] {
            assert_eq!(signal(text).as_deref(), Some("SIGINT"), "{text}");
        }
        assert_eq!(signal("15").as_deref(), Some("SIGTERM"));
        assert_eq!(signal("31").as_deref(), Some("SIGSYS"));
        for text in ["", "0", "32", "-1", "SIG", "SIGSIGINT", "nothing"] {
            assert_eq!(signal(text), None, "{text}");
        }
    }
}
