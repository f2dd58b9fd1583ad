//! The jobs of a step that is multiplied: `matrix`, `each`, `array`.

use std::collections::BTreeMap;

use crate::document::{MAX_JOBS, MAX_VARIABLES};
use crate::indices::parse_indices;
use crate::mistake::{Mistakes, quoted};
use crate::node::{Content, Entry, Node};
use crate::values;

/// Names with this beginning are set by the scheduler.
const RESERVED: &str = "MUSTER_";
const ITEM: &str = "MUSTER_ARRAY_ITEM";

/// One job for each element; none for a step that is one job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elements {
    /// What each job finds in its environment.
    pub(crate) variables: Vec<BTreeMap<String, String>>,
    /// The index of each, where the file gives them.
    pub(crate) indices: Vec<u32>,
}

/// `{LR: [0.1, 0.01], SEED: [1, 2]}`: every combination, the last axis changing fastest.
pub(crate) fn matrix(node: &Node, mistakes: &mut Mistakes) -> Option<Elements> {
    let entries = values::mapping(node, "matrix", mistakes)?;
    if entries.is_empty() {
        mistakes.add(node.at, "matrix has no axes; write for example {SEED: [1, 2, 3]}, or remove it");
        return None;
    }
    let axes: Vec<Option<(&str, Vec<String>)>> = entries.iter().map(|entry| axis(entry, mistakes)).collect();
    let axes: Vec<(&str, Vec<String>)> = axes.into_iter().collect::<Option<_>>()?;
    let count = axes.iter().fold(1_usize, |count, (_, texts)| count.saturating_mul(texts.len()));
    if count > MAX_JOBS {
        mistakes.add(node.at, format!("matrix has more than {MAX_JOBS} combinations; shorten an axis"));
        return None;
    }
    let longest = |texts: &[String]| texts.iter().map(String::len).max().unwrap_or(0);
    let bytes: usize = axes.iter().map(|(name, texts)| name.len() + longest(texts)).sum();
    if bytes.saturating_mul(count) > MAX_VARIABLES {
        mistakes
            .add(node.at, "the values of matrix are too long for so many combinations; put them into a file");
        return None;
    }
    let mut variables = vec![BTreeMap::new()];
    for (name, texts) in axes {
        variables = variables
            .into_iter()
            .flat_map(|before: BTreeMap<String, String>| {
                texts.iter().map(move |text| {
                    let mut with = before.clone();
                    with.insert(name.to_owned(), text.clone());
                    with
                })
            })
            .collect();
    }
    Some(Elements { variables, indices: Vec::new() })
}

fn axis<'a>(entry: &'a Entry, mistakes: &mut Mistakes) -> Option<(&'a str, Vec<String>)> {
    let name = entry.key.as_str();
    if !values::is_variable_name(name) || name.starts_with(RESERVED) {
        let message = format!(
            "{} cannot be an axis: it becomes a variable, so use letters, digits and _, not beginning with a \
             digit or with {RESERVED}",
            quoted(name)
        );
        mistakes.add(entry.at, message);
        return None;
    }
    let field = format!("the axis {name}");
    let each = format!("a value of {name}");
    let texts = values::list_of(&entry.value, &field, mistakes, |item, mistakes| {
        values::text(item, &each, mistakes)
    })?;
    if texts.is_empty() {
        mistakes.add(entry.at, format!("{field} is empty, so that there would be no job; give it values"));
        return None;
    }
    Some((name, texts))
}

/// One job for each item; the fields of an object become variables as well.
pub(crate) fn each(node: &Node, mistakes: &mut Mistakes) -> Option<Elements> {
    let items = values::list(node, "each", mistakes)?;
    if items.is_empty() {
        mistakes.add(node.at, "each has no items, so that there would be no job; give it some, or remove it");
        return None;
    }
    if items.len() > MAX_JOBS {
        mistakes.add(node.at, format!("each has more than {MAX_JOBS} items; use several steps or an array"));
        return None;
    }
    let read: Vec<Option<BTreeMap<String, String>>> =
        items.iter().map(|item| element(item, mistakes)).collect();
    let variables = read.into_iter().collect::<Option<_>>()?;
    Some(Elements { variables, indices: Vec::new() })
}

fn element(node: &Node, mistakes: &mut Mistakes) -> Option<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    match &node.content {
        Content::Scalar(_) => {
            variables.insert(ITEM.to_owned(), values::text(node, "an item of each", mistakes)?);
        }
        Content::List(_) => {
            variables.insert(ITEM.to_owned(), node.to_json().to_string());
        }
        Content::Mapping(entries) => {
            for entry in entries {
                if !values::is_variable_name(&entry.key) || entry.key.starts_with(RESERVED) {
                    let message = format!(
                        "{} cannot be a variable; use letters, digits and _, not beginning with a digit or \
                         with {RESERVED}",
                        quoted(&entry.key)
                    );
                    mistakes.add(entry.at, message);
                }
                variables.insert(entry.key.clone(), as_variable(&entry.value, &entry.key, mistakes)?);
            }
            variables.insert(ITEM.to_owned(), node.to_json().to_string());
        }
    }
    Some(variables)
}

/// Single values as they are written, others as JSON, nothing as nothing.
fn as_variable(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<String> {
    match &node.content {
        Content::Scalar(scalar) if scalar.is_null() => Some(String::new()),
        Content::Scalar(_) => values::text(node, key, mistakes),
        Content::List(_) | Content::Mapping(_) => Some(node.to_json().to_string()),
    }
}

/// `0-9`: one job for each index.
pub(crate) fn array(node: &Node, mistakes: &mut Mistakes) -> Option<Elements> {
    let text = values::text(node, "array", mistakes)?;
    if text.contains('%') {
        mistakes.add(node.at, "array takes no % in a file; write max_parallel beside it");
        return None;
    }
    match parse_indices(&text) {
        Ok(indices) if indices.len() > MAX_JOBS => {
            let message = format!(
                "array has {} elements, and a pipeline may have {MAX_JOBS} jobs; use `muster submit --array`",
                indices.len()
            );
            mistakes.add(node.at, message);
            None
        }
        Ok(indices) => Some(Elements { variables: vec![BTreeMap::new(); indices.len()], indices }),
        Err(message) => {
            mistakes.add(node.at, format!("array is wrong: {message}"));
            None
        }
    }
}
