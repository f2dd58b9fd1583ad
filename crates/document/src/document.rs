//! The file as a whole: parameters, defaults, steps.

use std::collections::{BTreeMap, BTreeSet};

use muster_protocol::{DependencyRule, SubmitRequest};

use crate::fields::{Fields, SHARED};
use crate::graph;
use crate::mistake::{Mistake, Mistakes, Position, closest, quoted};
use crate::node::{Content, Entry, Node};
use crate::step::{self, OWN, WrittenStep};
use crate::tree;
use crate::values;

/// The most jobs that the steps of one file may come to.
pub const MAX_JOBS: usize = 100_000;
/// The most steps of one file.
pub const MAX_STEPS: usize = 10_000;

/// Bytes that variables may take when they are written out for each step or each combination.
pub(crate) const MAX_VARIABLES: usize = 64 << 20;

const KEYS: [&str; 6] = ["name", "idempotency_key", "max_parallel", "params", "defaults", "steps"];
/// Names with this beginning are set by the scheduler.
const RESERVED: &str = "MUSTER_";

/// A pipeline, ready to be submitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    pub name: Option<String>,
    /// Submitting again with the same key returns the pipeline made the first time.
    pub idempotency_key: Option<String>,
    /// At most this many jobs of the pipeline run at once.
    pub max_parallel: Option<u32>,
    /// In the order of the file. What they need is in the file or was there before, without cycles.
    pub steps: Vec<Step>,
}

/// A step that another one needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    pub step: String,
    pub rule: DependencyRule,
}

/// One step: a job, or many that differ in their environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub name: String,
    /// Where it is in the file, counted from 1.
    pub line: usize,
    pub needs: Vec<Need>,
    /// Empty: the step is one job. Otherwise one job for each, with these variables beside those of `job`.
    pub elements: Vec<BTreeMap<String, String>>,
    /// The index of each element where the file gives them (`array: 10-20`), else empty: they count from 0.
    pub indices: Vec<u32>,
    /// At most this many jobs of the step run at once.
    pub max_parallel: Option<u32>,
    /// Without dependencies: those come from `needs`.
    pub job: SubmitRequest,
}

impl Step {
    /// How many jobs the step comes to: its elements, or the tasks of its gang.
    pub fn jobs(&self) -> usize {
        let tasks = self.job.gang_size.and_then(|size| usize::try_from(size).ok());
        self.elements.len().max(1).saturating_mul(tasks.unwrap_or(1).max(1))
    }
}

/// Reads the file of a new pipeline. The mistakes are in the order of the text.
pub fn parse(text: &str, params: &BTreeMap<String, String>) -> Result<Document, Vec<Mistake>> {
    read(text, params, None)
}

/// Reads a file of steps for a pipeline that is there, whose steps they may need.
pub fn parse_addition(
    text: &str,
    params: &BTreeMap<String, String>,
    existing: &BTreeSet<String>,
) -> Result<Document, Vec<Mistake>> {
    read(text, params, Some(existing))
}

fn read(
    text: &str,
    given: &BTreeMap<String, String>,
    existing: Option<&BTreeSet<String>>,
) -> Result<Document, Vec<Mistake>> {
    let mut mistakes = Mistakes::default();
    let document = tree::read(text, &mut mistakes).and_then(|root| {
        let parts = Parts::read(&root, &mut mistakes)?;
        Some(parts.into_document(given, existing, &mut mistakes))
    });
    match document {
        Some(document) if mistakes.is_empty() => Ok(document),
        _ => {
            if mistakes.is_empty() {
                mistakes.add(Position::START, "the file is empty; a pipeline has at least `steps:`");
            }
            Err(mistakes.sorted())
        }
    }
}

/// The entries of the top level.
#[derive(Default)]
struct Parts<'a> {
    name: Option<&'a Entry>,
    idempotency_key: Option<&'a Entry>,
    max_parallel: Option<&'a Entry>,
    params: Option<&'a Entry>,
    defaults: Option<&'a Entry>,
    steps: Option<&'a Entry>,
}

impl<'a> Parts<'a> {
    fn read(root: &'a Node, mistakes: &mut Mistakes) -> Option<Self> {
        if root.is_null() {
            return None;
        }
        let Content::Mapping(entries) = &root.content else {
            let message = format!("a pipeline is a mapping with at least `steps:`, not {}", root.kind());
            mistakes.add(root.at, message);
            return None;
        };
        let mut parts = Self::default();
        for entry in entries {
            let part = match entry.key.as_str() {
                "name" => &mut parts.name,
                "idempotency_key" => &mut parts.idempotency_key,
                "max_parallel" => &mut parts.max_parallel,
                "params" => &mut parts.params,
                "defaults" => &mut parts.defaults,
                "steps" => &mut parts.steps,
                other => {
                    mistakes.unknown_key(entry.at, other, "a pipeline", &KEYS);
                    continue;
                }
            };
            *part = Some(entry);
        }
        if parts.steps.is_none() {
            mistakes.add(root.at, "a pipeline has no steps without `steps:`; add it with at least one step");
        }
        Some(parts)
    }

    fn into_document(
        self,
        given: &BTreeMap<String, String>,
        existing: Option<&BTreeSet<String>>,
        mistakes: &mut Mistakes,
    ) -> Document {
        if existing.is_some() {
            for entry in [self.name, self.idempotency_key, self.max_parallel].into_iter().flatten() {
                let message = format!("{} belongs to the whole pipeline; remove it to add steps", entry.key);
                mistakes.add(entry.at, message);
            }
        }
        let params = self.params(given, mistakes);
        let defaults = self.defaults.map(|entry| read_defaults(entry, mistakes)).unwrap_or_default();
        let defaults = defaults.with_parameters(params);
        let written = self.steps.map(|entry| read_steps(entry, mistakes)).unwrap_or_default();
        if !fits(&defaults, &written, mistakes, self.steps) {
            return Document::default();
        }
        graph::check(&written, existing.unwrap_or(&BTreeSet::new()), mistakes);
        Document {
            name: self.name.and_then(|entry| values::name(&entry.value, "name", mistakes)),
            idempotency_key: self
                .idempotency_key
                .and_then(|entry| values::name(&entry.value, "idempotency_key", mistakes)),
            max_parallel: self
                .max_parallel
                .and_then(|entry| values::whole(&entry.value, "max_parallel", (1, u32::MAX), mistakes)),
            steps: written.into_iter().map(|step| finish(step, &defaults)).collect(),
        }
    }

    /// The value of each parameter: what was given, or what the file says.
    fn params(&self, given: &BTreeMap<String, String>, mistakes: &mut Mistakes) -> BTreeMap<String, String> {
        let declared: &[Entry] = self
            .params
            .and_then(|entry| values::mapping(&entry.value, "params", mistakes))
            .unwrap_or_default();
        let mut params = BTreeMap::new();
        for entry in declared {
            let name = &entry.key;
            check_parameter_name(entry, mistakes);
            let value = match given.get(name) {
                Some(value) => Some(value.clone()),
                None if entry.value.is_null() => {
                    let message = format!(
                        "the parameter {name} has no value; give it with --param {name}=VALUE (in a request \
                         ?param={name}=VALUE), or write a default here"
                    );
                    mistakes.add(entry.at, message);
                    None
                }
                None => values::text(&entry.value, &format!("the parameter {name}"), mistakes),
            };
            params.extend(value.map(|value| (name.clone(), value)));
        }
        let at = self.params.map_or(Position::START, |entry| entry.at);
        for name in given.keys().filter(|name| declared.iter().all(|entry| entry.key != **name)) {
            let hint = match closest(name, declared.iter().map(|entry| entry.key.as_str())) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "declare it under `params:`, or do not give it".to_owned(),
            };
            mistakes.add(at, format!("there is no parameter {}; {hint}", quoted(name)));
        }
        params
    }
}

fn check_parameter_name(entry: &Entry, mistakes: &mut Mistakes) {
    if !values::is_variable_name(&entry.key) || entry.key.starts_with(RESERVED) {
        let message = format!(
            "{} cannot be a parameter: it becomes a variable, so use letters, digits and _, not beginning with a \
             digit or with {RESERVED}",
            quoted(&entry.key)
        );
        mistakes.add(entry.at, message);
    }
}

fn read_defaults(entry: &Entry, mistakes: &mut Mistakes) -> Fields {
    let mut fields = Fields::default();
    for field in values::mapping(&entry.value, "defaults", mistakes).unwrap_or_default() {
        if OWN.contains(&field.key.as_str()) {
            mistakes.add(field.at, format!("{} is a step's own; move it into the steps", field.key));
        } else if !fields.take(field, mistakes) {
            mistakes.unknown_key(field.at, &field.key, "defaults", &SHARED);
        }
    }
    fields
}

fn read_steps(entry: &Entry, mistakes: &mut Mistakes) -> Vec<WrittenStep> {
    let empty = match &entry.value.content {
        Content::List(items) => items.is_empty(),
        Content::Mapping(entries) => entries.is_empty(),
        Content::Scalar(scalar) => scalar.is_null(),
    };
    if empty {
        mistakes.add(entry.at, "steps is empty; a pipeline has at least one, such as {name: a, run: ./a.sh}");
        return Vec::new();
    }
    let steps = step::read_all(&entry.value, mistakes);
    if steps.len() > MAX_STEPS {
        mistakes.add(entry.at, format!("there are more than {MAX_STEPS} steps; use an array for many alike"));
    }
    let jobs = steps.iter().fold(0_usize, |sum, step| sum.saturating_add(step.jobs()));
    if jobs > MAX_JOBS {
        let message = format!(
            "the steps come to {jobs} jobs, and a pipeline may have {MAX_JOBS}; split it into several"
        );
        mistakes.add(entry.at, message);
    }
    steps
}

/// Whether the variables that all steps share can be written into each of them.
fn fits(defaults: &Fields, steps: &[WrittenStep], mistakes: &mut Mistakes, at: Option<&Entry>) -> bool {
    let shared: usize = defaults.env.iter().map(|(name, value)| name.len() + value.len()).sum();
    let fits = shared.saturating_mul(steps.len()) <= MAX_VARIABLES;
    if !fits {
        let message = format!(
            "params and defaults come to {shared} bytes of variables for each of {} steps, which is too much; put \
             long values into a file",
            steps.len()
        );
        mistakes.add(at.map_or(Position::START, |entry| entry.at), message);
    }
    fits
}

fn finish(mut step: WrittenStep, defaults: &Fields) -> Step {
    let fields = std::mem::take(&mut step.fields).or(defaults);
    let rule = fields.rule.unwrap_or_default();
    let needs = std::mem::take(&mut step.needs);
    let elements = std::mem::take(&mut step.elements);
    Step {
        line: step.at.line,
        needs: needs
            .into_iter()
            .map(|need| Need { step: need.step, rule: need.rule.unwrap_or(rule) })
            .collect(),
        elements: elements.variables,
        indices: elements.indices,
        max_parallel: fields.max_parallel,
        job: step.request(fields),
        name: step.name,
    }
}
