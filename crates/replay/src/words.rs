//! Numbers for people: short, and with the unit that fits.

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// A length of time in one unit: `0 s`, `45 s`, `12.5 min`, `3.4 h`, `18.7 d`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    if seconds < 1.0 && seconds > 0.0 {
        return format!("{} ms", (seconds * 1e3).round());
    }
    if seconds < 100.0 {
        return format!("{} s", digits(seconds));
    }
    if seconds < 100.0 * MINUTE {
        return format!("{} min", digits(seconds / MINUTE));
    }
    if seconds < 48.0 * HOUR {
        return format!("{} h", digits(seconds / HOUR));
    }
    format!("{} d", digits(seconds / DAY))
}

/// A number with about three digits that matter, and commas between thousands.
pub fn digits(value: f64) -> String {
    let size = value.abs();
    if size >= 100.0 {
        return thousands(value.round() as i64);
    }
    let text = if size >= 10.0 { format!("{value:.1}") } else { format!("{value:.2}") };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A share in percent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A whole number with commas between thousands.
pub fn thousands(value: i64) -> String {
    let plain = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        let cases = [
            (0.0, "0 s"),
            (0.2, "200 ms"),
            (45.0, "45 s"),
            (150.0, "2.5 min"),
            (12_240.0, "3.4 h"),
            (1_615_680.0, "18.7 d"),
            (1e9, "11,574 d"),
        ];
        for (seconds, text) in cases {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(
            [digits(1.956), digits(61.67), digits(586.77), digits(-1_234_567.0), digits(1.0)],
            ["1.96", "61.7", "587", "-1,234,567", "1"]
        );
        assert_eq!(percent(0.8714), "87.1 %");
    }
}
