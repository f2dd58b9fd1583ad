//! The artifacts of needed steps that a step finds when it starts.

use muster_protocol::ArtifactInput;

use crate::graph::listed;
use crate::mistake::{Mistakes, Position, closest, quoted};
use crate::nested::WrittenNeed;
use crate::node::{Content, Node};
use crate::values;

/// An input with the place of its source.
#[derive(Debug)]
pub(crate) struct WrittenInput {
    pub(crate) at: Position,
    pub(crate) input: ArtifactInput,
}

/// `[{from: extract, path: raw.csv, to: data/raw.csv}]`; the name of a step stands for all of its artifacts.
pub(crate) fn read(node: &Node, mistakes: &mut Mistakes) -> Option<Vec<WrittenInput>> {
    values::list_of(node, "inputs", mistakes, one)
}

fn one(node: &Node, mistakes: &mut Mistakes) -> Option<WrittenInput> {
    let Content::Mapping(entries) = &node.content else {
        let from = values::name(node, "an element of inputs", mistakes)?;
        return Some(WrittenInput { at: node.at, input: ArtifactInput { from, path: None, to: None } });
    };
    let (mut from, mut path, mut to) = (None, None, None);
    for entry in entries {
        let value = &entry.value;
        match entry.key.as_str() {
            "from" => from = Some((value.at, values::name(value, "from", mistakes)?)),
            "path" => path = place(value, "path", mistakes),
            "to" => to = place(value, "to", mistakes),
            other => mistakes.unknown_key(entry.at, other, "an input", &["from", "path", "to"]),
        }
    }
    let Some((at, from)) = from else {
        mistakes
            .add(node.at, "an input needs the step that it is from, such as {from: extract, path: raw.csv}");
        return None;
    };
    Some(WrittenInput { at, input: ArtifactInput { from, path, to } })
}

/// A relative path that stays inside; `/` at its end says that it is a folder.
fn place(node: &Node, key: &str, mistakes: &mut Mistakes) -> Option<String> {
    let text = values::text(node, key, mistakes)?;
    let inside = text.strip_suffix('/').unwrap_or(&text);
    if inside.split('/').any(|part| matches!(part, "" | "." | "..")) {
        let message = format!(
            "{key} is {}, and it must be a relative path without . and .., such as data/raw.csv",
            quoted(&text)
        );
        mistakes.add(node.at, message);
        return None;
    }
    Some(text)
}

/// Records inputs from steps that the step does not need.
pub(crate) fn check(inputs: &[WrittenInput], needs: &[WrittenNeed], mistakes: &mut Mistakes) {
    for WrittenInput { at, input } in inputs {
        let names = || needs.iter().map(|need| need.step.as_str());
        if names().any(|name| name == input.from) {
            continue;
        }
        let hint = match closest(&input.from, names()) {
            Some(meant) => format!("did you mean {meant}?"),
            None if needs.is_empty() => format!("add needs: {}", input.from),
            None => format!("it needs {}", listed(names())),
        };
        let message =
            format!("the step takes inputs from {}, which it does not need; {hint}", quoted(&input.from));
        mistakes.add(*at, message);
    }
}
