//! Names of the signals that a job may ask to be stopped or retried by.

/// Numbers as Linux has them on all common machines.
const NAMES: [(&str, i32); 19] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ILL", 4),
    ("TRAP", 5),
    ("ABRT", 6),
    ("BUS", 7),
    ("FPE", 8),
    ("KILL", 9),
    ("USR1", 10),
    ("SEGV", 11),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("CONT", 18),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("WINCH", 28),
];

/// The number of a signal given as `SIGTERM`, `TERM`, `term` or `15`.
pub fn parse(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().find(|(name, _)| *name == bare).map(|(_, number)| *number)
}

/// `SIGTERM` for 15; the number itself where there is no name.
pub fn name(number: i32) -> String {
    NAMES
        .iter()
        .find(|(_, known)| *known == number)
        .map_or_else(|| number.to_string(), |(name, _)| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_understood() {
        for text in ["SIGTERM", "term", "TERM", "15"] {
            assert_eq!(parse(text), Some(15), "{text}");
        }
        for text in ["", "SIG", "0", "65", "-9", "TERMINATE"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!((name(2), name(40)), ("SIGINT".to_owned(), "40".to_owned()));
    }
}
