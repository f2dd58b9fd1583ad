//! Durations as people write them: `30s`, `1h30m`, `500ms`, or plain seconds; and as health shows them.

use std::time::Duration;

pub use muster_document::amounts::duration as parse;

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
    fn uptime_is_rounded_to_seconds() {
        let cases = [(0, "0s"), (45, "45s"), (72, "1m12s"), (8130, "2h15m30s"), (90_000, "25h0m0s")];
        for (seconds, text) in cases {
            assert_eq!(uptime(Duration::from_secs(seconds)), text);
        }
        assert_eq!(uptime(Duration::from_millis(1700)), "2s");
    }
}
