//! One line of a table, cut at its commas.

use std::borrow::Cow;

/// Cuts a line into fields. A field in quotation marks may have commas, and quotation marks that are doubled.
/// `None` when a quotation mark is not closed.
pub(super) fn cut(line: &str) -> Option<Vec<Cow<'_, str>>> {
    if !line.contains('"') {
        return Some(line.split(',').map(|field| Cow::Borrowed(field.trim())).collect());
    }
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => match rest.split_once(',') {
                Some((field, after)) => (Cow::Borrowed(field.trim()), Some(after)),
                None => (Cow::Borrowed(rest.trim()), None),
            },
        };
        fields.push(field);
        match after {
            Some(after) => rest = after,
            None => return Some(fields),
        }
    }
}

/// What is left of the line after a field; `None` at its end.
type Rest<'a> = Option<&'a str>;

fn quoted_field(text: &str) -> Option<(Cow<'_, str>, Rest<'_>)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('"')?;
        value.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            // What stands between the closing mark and the comma is of no meaning.
            None => return Some((Cow::Owned(value), after.split_once(',').map(|(_, after)| after))),
        }
    }
}

/// Writes a field so that [`cut`] finds it again.
pub(crate) fn quoted(text: &str) -> Cow<'_, str> {
    let plain = |letter: char| letter != ',' && letter != '"' && !letter.is_control();
    if text.chars().all(plain) && text.trim() == text {
        return Cow::Borrowed(text);
    }
    // A table has one line for a job.
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    Cow::Owned(format!("\"{}\"", line.replace('"', "\"\"")))
}
