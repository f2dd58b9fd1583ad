//! One step, as written: read into its fields, with the mistakes that concern it alone.

use muster_protocol::SubmitRequest;

use crate::elements::{self, Elements};
use crate::fields::{Fields, SHARED};
use crate::gang::{self, Gang};
use crate::inputs::{self, WrittenInput};
use crate::mistake::{Mistakes, Position, quoted};
use crate::nested::{self, WrittenNeed};
use crate::node::{Content, Entry, Node};
use crate::values;

/// The fields that only a step has, and no defaults.
pub(crate) const OWN: [&str; 9] =
    ["name", "run", "argv", "needs", "inputs", "matrix", "each", "array", "gang"];
/// Bytes of the name of a step.
const MAX_NAME: usize = 128;

/// A step before its defaults and its place among the others are known.
#[derive(Debug)]
pub(crate) struct WrittenStep {
    pub(crate) at: Position,
    pub(crate) name: String,
    pub(crate) needs: Vec<WrittenNeed>,
    pub(crate) inputs: Vec<WrittenInput>,
    pub(crate) elements: Elements,
    gang: Option<Gang>,
    pub(crate) fields: Fields,
    command: String,
    argv: Vec<String>,
}

impl WrittenStep {
    /// The request that each job of the step is made from, and the fields that concern the whole step.
    pub(crate) fn request(&self, fields: Fields) -> SubmitRequest {
        let mut request = SubmitRequest {
            command: self.command.clone(),
            argv: self.argv.clone(),
            name: Some(self.name.clone()),
            inputs: self.inputs.iter().map(|written| written.input.clone()).collect(),
            ..fields.into_request()
        };
        if let Some(gang) = &self.gang {
            gang.write(&mut request);
        }
        request
    }

    /// How many jobs the step comes to.
    pub(crate) fn jobs(&self) -> usize {
        let tasks = self.gang.as_ref().map_or(1, |gang| usize::try_from(gang.size).unwrap_or(usize::MAX));
        self.elements.variables.len().max(1).saturating_mul(tasks)
    }
}

/// The steps: a list of steps with names, or a mapping from names to steps. Those without a name that others
/// could mean are left out; the mistakes say so.
pub(crate) fn read_all(node: &Node, mistakes: &mut Mistakes) -> Vec<WrittenStep> {
    match &node.content {
        Content::List(items) => items.iter().filter_map(|item| read(item, None, mistakes)).collect(),
        Content::Mapping(entries) => {
            entries.iter().filter_map(|entry| read(&entry.value, Some(entry), mistakes)).collect()
        }
        Content::Scalar(_) => {
            mistakes.add(node.at, "steps must be a list of steps, or a mapping from names to steps");
            Vec::new()
        }
    }
}

fn read(node: &Node, keyed: Option<&Entry>, mistakes: &mut Mistakes) -> Option<WrittenStep> {
    let Content::Mapping(entries) = &node.content else {
        let message =
            format!("a step must be a mapping such as {{name: a, run: ./a.sh}}, not {}", node.kind());
        mistakes.add(node.at, message);
        return None;
    };
    let (name, at) = match keyed {
        Some(entry) => (Some(entry.key.clone()), entry.at),
        None => named(entries, node.at, mistakes),
    };
    let mut step = WrittenStep {
        at,
        name: name.clone().unwrap_or_default(),
        needs: Vec::new(),
        inputs: Vec::new(),
        elements: Elements::default(),
        gang: None,
        fields: Fields::default(),
        command: String::new(),
        argv: Vec::new(),
    };
    if let Some(name) = &name {
        check_name(name, at, mistakes);
    }
    for entry in entries {
        if entry.key == "name" && keyed.is_some() {
            mistakes.add(entry.at, "the key of the step is its name already; remove this one");
        }
        step.take(entry, mistakes);
    }
    check_program(entries, &step, mistakes);
    check_multiples(entries, mistakes);
    name.map(|_| step)
}

/// The name that stands in the step, with its place.
fn named(entries: &[Entry], at: Position, mistakes: &mut Mistakes) -> (Option<String>, Position) {
    let Some(entry) = entries.iter().find(|entry| entry.key == "name") else {
        mistakes.add(at, "the step has no name; others need it to say what they wait for");
        return (None, at);
    };
    (values::text(&entry.value, "name", mistakes), entry.value.at)
}

/// Names become parts of variables and of command lines.
fn check_name(name: &str, at: Position, mistakes: &mut Mistakes) {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if name.is_empty() {
        mistakes.add(at, "the name of the step is empty");
    } else if name.len() > MAX_NAME {
        mistakes.add(at, format!("the name of the step is longer than {MAX_NAME} bytes; shorten it"));
    } else if let Some(odd) = name.chars().find(|letter| !allowed(*letter)) {
        let message = format!(
            "the name {} has {odd:?} in it; use letters from a to z, digits, and the signs - _ .",
            quoted(name)
        );
        mistakes.add(at, message);
    } else if !name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_') {
        mistakes.add(at, format!("the name {} must begin with a letter or a digit", quoted(name)));
    }
}

impl WrittenStep {
    fn take(&mut self, entry: &Entry, mistakes: &mut Mistakes) {
        let (key, value) = (entry.key.as_str(), &entry.value);
        match key {
            "name" => {}
            "run" => self.command = values::text(value, key, mistakes).unwrap_or_default(),
            "argv" => {
                let read =
                    |item: &Node, mistakes: &mut Mistakes| values::text(item, "an element of argv", mistakes);
                self.argv = values::list_of(value, key, mistakes, read).unwrap_or_default();
            }
            "needs" => self.needs = nested::needs(value, mistakes),
            "inputs" => self.inputs = inputs::read(value, mistakes).unwrap_or_default(),
            "matrix" => self.elements = elements::matrix(value, mistakes).unwrap_or_default(),
            "each" => self.elements = elements::each(value, mistakes).unwrap_or_default(),
            "array" => self.elements = elements::array(value, mistakes).unwrap_or_default(),
            "gang" => self.gang = gang::read(value, mistakes),
            other => {
                if !self.fields.take(entry, mistakes) {
                    let known: Vec<&str> = OWN.iter().chain(&SHARED).copied().collect();
                    mistakes.unknown_key(entry.at, other, "a step", &known);
                }
            }
        }
    }
}

fn check_program(entries: &[Entry], step: &WrittenStep, mistakes: &mut Mistakes) {
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    match (find("run"), find("argv")) {
        (None, None) => {
            let message =
                "the step runs nothing; give it a line for the shell (run:) or arguments (argv: [..])";
            mistakes.add(step.at, message);
        }
        (Some(_), Some(argv)) => mistakes.add(argv.at, "run and argv both say what to run; keep one of them"),
        (Some(run), None) => {
            if step.command.trim().is_empty()
                && matches!(&run.value.content, Content::Scalar(scalar) if !scalar.is_null())
            {
                mistakes.add(run.value.at, "run is empty; write the line that the shell runs");
            }
        }
        (None, Some(argv)) => {
            let Content::List(items) = &argv.value.content else { return };
            let first = step.argv.first().map(String::as_str);
            if items.is_empty() || first == Some("") {
                mistakes.add(argv.value.at, "argv must begin with a program, such as [python, train.py]");
            }
        }
    }
}

fn check_multiples(entries: &[Entry], mistakes: &mut Mistakes) {
    let multiples = entries.iter().filter(|entry| matches!(entry.key.as_str(), "matrix" | "each" | "array"));
    if let [first, second, ..] = multiples.collect::<Vec<_>>().as_slice() {
        let message = format!(
            "{} and {} both multiply the step; keep one of them, or make the other a step of its own",
            first.key, second.key
        );
        mistakes.add(second.at, message);
    }
}
