//! The signal by which a job wants to be asked to stop.

use std::str::FromStr as _;

use nix::sys::signal::Signal;

/// The number of a signal given as `SIGINT`, `INT`, `int` or `2`; real-time signals have numbers only.
pub(crate) fn parse(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    Signal::from_str(&format!("SIG{bare}")).ok().map(|signal| signal as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_understood() {
        for text in ["SIGINT", "int", "INT", "2"] {
            assert_eq!(parse(text), Some(2), "{text}");
        }
        assert_eq!((parse("SIGUSR2"), parse("40")), (Some(12), Some(40)));
        for text in ["", "SIG", "0", "65", "-9", "INTERRUPT", "SIGSIGINT"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
