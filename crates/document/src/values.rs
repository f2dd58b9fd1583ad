//! Single values of the file: read into what a field holds, or a mistake at their place.
//!
//! Every function returns `None` exactly when it has recorded a mistake.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::amounts;
use crate::mistake::{Mistakes, closest, quoted};
use crate::node::{Content, Entry, Node, Scalar};

/// Bytes of a name, a queue, a tag or a key, as the scheduler takes them.
const MAX_NAME: usize = 256;
/// More CPUs or GPUs than this are a mistake.
const MAX_UNITS: f64 = 1e6;

/// The scalar that must stand here.
fn scalar<'a>(node: &'a Node, field: &str, mistakes: &mut Mistakes) -> Option<&'a Scalar> {
    match &node.content {
        Content::Scalar(scalar) if scalar.is_null() => {
            mistakes.add(node.at, format!("{field} has no value; write one, or remove it"));
            None
        }
        Content::Scalar(scalar) => Some(scalar),
        Content::List(_) | Content::Mapping(_) => {
            mistakes.add(node.at, format!("{field} must be a single value, not {}", node.kind()));
            None
        }
    }
}

/// Text; numbers and the like keep their spelling.
pub(crate) fn text(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = &scalar(node, field, mistakes)?.text;
    if text.contains('\0') {
        mistakes.add(node.at, format!("{field} holds a NUL character, which no process can be given"));
        return None;
    }
    Some(text.clone())
}

/// Text that names something: not empty, not long.
pub(crate) fn name(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = text(node, field, mistakes)?;
    if text.trim().is_empty() {
        mistakes.add(node.at, format!("{field} is empty; write a name, or remove it"));
        return None;
    }
    if text.len() > MAX_NAME {
        mistakes.add(node.at, format!("{field} is longer than {MAX_NAME} bytes; shorten it"));
        return None;
    }
    Some(text)
}

pub(crate) fn boolean(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<bool> {
    let scalar = scalar(node, field, mistakes)?;
    let truth = scalar.as_bool();
    if truth.is_none() {
        mistakes.add(node.at, format!("{field} is {}; write true or false", quoted(&scalar.text)));
    }
    truth
}

/// A whole number between two bounds.
pub(crate) fn whole<T: FromStr + PartialOrd + std::fmt::Display>(
    node: &Node,
    field: &str,
    bounds: (T, T),
    mistakes: &mut Mistakes,
) -> Option<T> {
    let text = &scalar(node, field, mistakes)?.text;
    let number = text.trim().parse::<T>().ok().filter(|number| *number >= bounds.0 && *number <= bounds.1);
    if number.is_none() {
        let (least, most) = bounds;
        mistakes.add(
            node.at,
            format!("{field} is {}; write a whole number from {least} to {most}", quoted(text)),
        );
    }
    number
}

/// A number between two bounds.
pub(crate) fn number(node: &Node, field: &str, bounds: (f64, f64), mistakes: &mut Mistakes) -> Option<f64> {
    let text = &scalar(node, field, mistakes)?.text;
    let number = text.trim().parse::<f64>().ok().filter(|number| (bounds.0..=bounds.1).contains(number));
    if number.is_none() {
        let (least, most) = bounds;
        mistakes.add(node.at, format!("{field} is {}; write a number from {least} to {most}", quoted(text)));
    }
    number
}

pub(crate) fn cpus(node: &Node, mistakes: &mut Mistakes) -> Option<f64> {
    number(node, "cpus", (0.0, MAX_UNITS), mistakes)
}

/// Seconds.
pub(crate) fn duration(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<f64> {
    let text = &scalar(node, field, mistakes)?.text;
    let seconds = amounts::duration(text).map(|duration| duration.as_secs_f64());
    if seconds.is_none() {
        mistakes.add(
            node.at,
            format!("{field} is {}, which is no duration; write for example 30s, 5m or 1h30m", quoted(text)),
        );
    }
    seconds
}

/// MiB.
pub(crate) fn size(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<u64> {
    let text = &scalar(node, field, mistakes)?.text;
    let size = amounts::memory_mb(text);
    if size.is_none() {
        mistakes.add(
            node.at,
            format!(
                "{field} is {}, which is no amount of memory; write for example 512M or 4G",
                quoted(text)
            ),
        );
    }
    size
}

/// A point in time with its offset, of whatever type the field has.
pub(crate) fn time<T: FromStr>(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<T> {
    let text = &scalar(node, field, mistakes)?.text;
    let time = text.trim().parse().ok();
    if time.is_none() {
        mistakes.add(
            node.at,
            format!("{field} is {}, which is no time; write for example 2026-05-05T08:33:00Z", quoted(text)),
        );
    }
    time
}

pub(crate) fn signal(node: &Node, field: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = &scalar(node, field, mistakes)?.text;
    let signal = amounts::signal(text);
    if signal.is_none() {
        mistakes.add(
            node.at,
            format!("{field} is {}, which is no signal; write for example SIGINT", quoted(text)),
        );
    }
    signal
}

/// One of the words that the field knows.
pub(crate) fn word<T: Copy>(
    node: &Node,
    field: &str,
    known: &[(&str, T)],
    mistakes: &mut Mistakes,
) -> Option<T> {
    let text = &scalar(node, field, mistakes)?.text;
    if let Some((_, value)) = known.iter().find(|(word, _)| word == text) {
        return Some(*value);
    }
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let hint = match closest(text, words.iter().copied()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("write one of {}", words.join(", ")),
    };
    mistakes.add(node.at, format!("{field} is {}; {hint}", quoted(text)));
    None
}

/// The elements of a list; nothing is an empty one.
pub(crate) fn list<'a>(node: &'a Node, field: &str, mistakes: &mut Mistakes) -> Option<&'a [Node]> {
    match &node.content {
        Content::List(items) => Some(items),
        Content::Scalar(scalar) if scalar.is_null() => Some(&[]),
        Content::Scalar(_) | Content::Mapping(_) => {
            mistakes.add(node.at, format!("{field} must be a list such as [a, b], not {}", node.kind()));
            None
        }
    }
}

/// The elements of a list, each read by `read`.
pub(crate) fn list_of<T>(
    node: &Node,
    field: &str,
    mistakes: &mut Mistakes,
    read: impl Fn(&Node, &mut Mistakes) -> Option<T>,
) -> Option<Vec<T>> {
    let items = list(node, field, mistakes)?;
    // Each element is read, so that the mistakes of all of them are found.
    let read: Vec<Option<T>> = items.iter().map(|item| read(item, mistakes)).collect();
    read.into_iter().collect()
}

/// The entries of a mapping; nothing is an empty one.
pub(crate) fn mapping<'a>(node: &'a Node, field: &str, mistakes: &mut Mistakes) -> Option<&'a [Entry]> {
    match &node.content {
        Content::Mapping(entries) => Some(entries),
        Content::Scalar(scalar) if scalar.is_null() => Some(&[]),
        Content::Scalar(_) | Content::List(_) => {
            mistakes.add(node.at, format!("{field} must be a mapping such as {{a: b}}, not {}", node.kind()));
            None
        }
    }
}

/// Environment variables.
pub(crate) fn variables(
    node: &Node,
    field: &str,
    mistakes: &mut Mistakes,
) -> Option<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    for entry in mapping(node, field, mistakes)? {
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            mistakes.add(entry.at, format!("{} cannot be the name of a variable", quoted(&entry.key)));
        }
        let field = format!("the variable {}", entry.key);
        if entry.value.is_null() {
            mistakes.add(entry.at, format!("{field} has no value; write \"\" for an empty one"));
        } else if let Some(text) = text(&entry.value, &field, mistakes) {
            variables.insert(entry.key.clone(), text);
        }
    }
    Some(variables)
}

/// Named counters and their amounts.
pub(crate) fn counters(node: &Node, mistakes: &mut Mistakes) -> Option<BTreeMap<String, u64>> {
    let mut counters = BTreeMap::new();
    for entry in mapping(node, "counters", mistakes)? {
        let field = format!("the counter {}", entry.key);
        if let Some(amount) = whole(&entry.value, &field, (0, 1 << 50), mistakes) {
            counters.insert(entry.key.clone(), amount);
        }
    }
    Some(counters)
}

/// Whether a shell can use the name as it is: the parameters and the axes of a matrix are made for that.
pub(crate) fn is_variable_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
