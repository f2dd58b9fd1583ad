//! Durations as people write them: `500ms`, `30s`, `5m`, `2h`; a bare number counts seconds.

use std::time::Duration;

/// Reads a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write it like 500ms, 30s or 5m");
    let text_trimmed = text.trim();
    let split = text_trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text_trimmed.len());
    let (amount, unit) = text_trimmed.split_at(split);
    let amount: f64 = amount.parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "ms" => amount / 1000.0,
        "" | "s" => amount,
        "m" => amount * 60.0,
        "h" => amount * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("1.5m", 90_000), ("2h", 7_200_000), ("3", 3_000)]
        {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "s", "-1s", "5x", "1e99h", "many"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
