//! Amounts and texts, made short and safe to look at.

use std::fmt::Write as _;

use jiff::Timestamp;
use muster_protocol::Resources;

/// How long ago something was, in one unit: `12s`, `5m`, `3h`, `9d`.
pub(crate) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// How long something took: `0.012s`, `3.4s`, `2m05s`, `3h20m`.
pub(crate) fn span(from: Timestamp, to: Timestamp) -> String {
    millis_span(to.as_millisecond().saturating_sub(from.as_millisecond()))
}

/// The same for a number of seconds.
pub(crate) fn seconds_span(seconds: f64) -> String {
    millis_span((seconds * 1000.0) as i64)
}

fn millis_span(millis: i64) -> String {
    let millis = millis.max(0);
    let seconds = millis / 1000;
    match millis {
        0..1000 => format!("0.{millis:03}s"),
        1000..60_000 => format!("{seconds}.{}s", millis % 1000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// An amount of memory: `512M`, `1.5G`, `16G`.
pub(crate) fn memory(mb: u64) -> String {
    if mb < 1024 {
        return format!("{mb}M");
    }
    let (amount, unit) =
        if mb < 1024 * 1024 { (mb as f64 / 1024.0, 'G') } else { (mb as f64 / 1_048_576.0, 'T') };
    let short = format!("{amount:.1}");
    format!("{}{unit}", short.strip_suffix(".0").unwrap_or(&short))
}

/// A number of bytes: `512B`, `12.0K`, `1.5G`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];
    if number < 1024 {
        return format!("{number}B");
    }
    let mut amount = number as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next();
    while amount >= 1024.0 {
        amount /= 1024.0;
        unit = units.next().or(unit);
    }
    format!("{amount:.1}{}", unit.copied().unwrap_or_default())
}

/// A number of cores: `2`, `0.5`.
pub(crate) fn cores(amount: f64) -> String {
    let text = format!("{amount:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All amounts in one line: `2 cpus, 4G memory, 1 gpu`.
pub(crate) fn resources(resources: &Resources) -> String {
    let mut parts = Vec::new();
    if resources.cpus > 0.0 {
        let plural = if (resources.cpus - 1.0).abs() < f64::EPSILON { "" } else { "s" };
        parts.push(format!("{} cpu{plural}", cores(resources.cpus)));
    }
    if resources.memory_mb > 0 {
        parts.push(format!("{} memory", memory(resources.memory_mb)));
    }
    if resources.gpus > 0 {
        parts.push(format!("{} gpu{}", resources.gpus, if resources.gpus == 1 { "" } else { "s" }));
    }
    if resources.vram_mb > 0 {
        parts.push(format!("{} vram", memory(resources.vram_mb)));
    }
    parts.extend(resources.counters.iter().map(|(name, amount)| format!("{amount} {}", printable(name))));
    parts.join(", ")
}

/// Text of others on one line: characters that would move the cursor or change colours are shown, not sent.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.trim_end().chars() {
        match letter {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push(' '),
            control if control.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(shown, "\\x{:02x}", control as u32);
            }
            other => shown.push(other),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn ages_have_one_unit() {
        let now = at("2026-05-05T12:00:00Z");
        let cases = [
            ("2026-05-05T11:59:59.9Z", "1s"),
            ("2026-05-05T11:58:30Z", "90s"),
            ("2026-05-05T11:50:00Z", "10m"),
            ("2026-05-05T02:00:00Z", "10h"),
            ("2026-04-01T12:00:00Z", "34d"),
            ("2026-05-06T12:00:00Z", "0s"),
        ];
        for (since, expected) in cases {
            assert_eq!(age(at(since), now), expected);
        }
    }

    #[test]
    fn spans_keep_the_digits_that_matter() {
        let from = at("2026-05-05T12:00:00Z");
        let cases = [
            ("2026-05-05T12:00:00.012Z", "0.012s"),
            ("2026-05-05T12:00:03.450Z", "3.4s"),
            ("2026-05-05T12:02:05Z", "2m05s"),
            ("2026-05-05T15:20:00Z", "3h20m"),
        ];
        for (to, expected) in cases {
            assert_eq!(span(from, at(to)), expected);
        }
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!(
            [memory(512), memory(1536), memory(16_384), memory(2_097_152)],
            ["512M", "1.5G", "16G", "2T"]
        );
        assert_eq!([bytes(0), bytes(1023), bytes(1536), bytes(3 << 30)], ["0B", "1023B", "1.5K", "3.0G"]);
        assert_eq!([cores(2.0), cores(0.5), cores(0.0)], ["2", "0.5", "0"]);
        let mixed = Resources { cpus: 1.0, memory_mb: 4096, gpus: 2, ..Resources::default() };
        assert_eq!(resources(&mixed), "1 cpu, 4G memory, 2 gpus");
    }

    #[test]
    fn text_of_others_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[31mb\nc\u{7}ä\n"), "a\\x1b[31mb\\nc\\x07ä");
    }
}
