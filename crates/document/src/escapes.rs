//! The one place where JSON is no YAML: a character beyond the first plane is written as two escapes in JSON,
//! and as one in YAML.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Bytes of the two escapes.
const PAIR: usize = 12;

/// The text with such pairs written the way of YAML. Only a text that is a JSON object is touched: elsewhere a
/// backslash may mean itself.
pub(crate) fn joined(text: &str) -> Cow<'_, str> {
    if !text.trim_start().starts_with('{') || !text.contains("\\u") {
        return Cow::Borrowed(text);
    }
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        let (before, escape) = rest.split_at(place);
        written.push_str(before);
        rest = if let Some(letter) = pair(escape) {
            // Writing to a String cannot fail.
            let _ = write!(written, "\\U{:08x}", u32::from(letter));
            &escape[PAIR..]
        } else {
            // A backslash and what it escapes stay together, so that an escaped one escapes nothing.
            let length = escape.chars().take(2).map(char::len_utf8).sum();
            written.push_str(&escape[..length]);
            &escape[length..]
        };
    }
    written.push_str(rest);
    Cow::Owned(written)
}

/// The character that the two escapes at the beginning stand for.
fn pair(text: &str) -> Option<char> {
    let unit = |part: Option<&str>| {
        let digits = part?.strip_prefix("\\u")?;
        digits.chars().all(|digit| digit.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    };
    let units = [unit(text.get(..6))?, unit(text.get(6..PAIR))?];
    let mut letters = char::decode_utf16(units);
    let letter = letters.next()?.ok()?;
    // Two characters of their own are no pair.
    letters.next().is_none().then_some(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_become_one_and_everything_else_stays() {
        assert_eq!(joined(r#"{"a": "\ud83d\ude00 \u00e4\u00f6"}"#), r#"{"a": "\U0001f600 \u00e4\u00f6"}"#);
        for text in [
            r#"{"a": "\\ud83d\\ude00"}"#,
            r#"{"a": "\ud83d"}"#,
            r#"{"a": "\ud83dx\ude00"}"#,
            "{\"a\": \"\\uä\\",
            r"run: '\ud83d\ude00'",
            "{",
        ] {
            assert_eq!(joined(text), text);
        }
    }
}
