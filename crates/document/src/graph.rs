//! What the steps need of each other: known names, each once, no cycles.

use std::collections::{BTreeMap, BTreeSet};

use crate::inputs;
use crate::mistake::{Mistakes, closest, quoted};
use crate::step::WrittenStep;

/// Records what is wrong with the names and the needs of the steps. `existing` are steps that are there already.
pub(crate) fn check(steps: &[WrittenStep], existing: &BTreeSet<String>, mistakes: &mut Mistakes) {
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        if existing.contains(&step.name) {
            let message =
                format!("the pipeline has a step {} already; give this one another name", step.name);
            mistakes.add(step.at, message);
        }
        if let Some(first) = known.get(step.name.as_str()) {
            let line = steps[*first].at.line;
            let message =
                format!("there are two steps {}, the first in line {line}; rename one", quoted(&step.name));
            mistakes.add(step.at, message);
        } else {
            known.insert(&step.name, index);
        }
    }
    for step in steps {
        check_needs(step, &known, existing, mistakes);
        inputs::check(&step.inputs, &step.needs, mistakes);
    }
    for cycle in cycles(steps, &known) {
        report_cycle(steps, &cycle, mistakes);
    }
}

fn check_needs(
    step: &WrittenStep,
    known: &BTreeMap<&str, usize>,
    existing: &BTreeSet<String>,
    mistakes: &mut Mistakes,
) {
    let mut seen = BTreeSet::new();
    for need in &step.needs {
        let name = need.step.as_str();
        if !seen.insert(name) {
            mistakes.add(need.at, format!("{} is needed twice; remove one", quoted(name)));
        }
        if known.contains_key(name) || existing.contains(name) {
            continue;
        }
        let names = || known.keys().copied().chain(existing.iter().map(String::as_str));
        let hint = match closest(name, names()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("the steps are {}", listed(names())),
        };
        mistakes.add(need.at, format!("there is no step {}; {hint}", quoted(name)));
    }
}

pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 10;
    let names: Vec<&str> = names.collect();
    let mut text = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(", ...");
    }
    text
}

/// How far the walk has come with a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Finished,
}

/// One cycle for each way back that a walk along the needs finds, as indices in the order of the needs.
/// The walk keeps its own stack: a chain of steps may be long.
fn cycles(steps: &[WrittenStep], known: &BTreeMap<&str, usize>) -> Vec<Vec<usize>> {
    let mut marks = vec![Mark::New; steps.len()];
    let mut found = Vec::new();
    for root in 0..steps.len() {
        if marks[root] != Mark::New {
            continue;
        }
        marks[root] = Mark::OnPath;
        let mut path = vec![(root, 0)];
        while let Some((step, next)) = path.last_mut() {
            let step = *step;
            let Some(need) = steps[step].needs.get(*next) else {
                marks[step] = Mark::Finished;
                path.pop();
                continue;
            };
            *next += 1;
            let Some(target) = known.get(need.step.as_str()).copied() else { continue };
            match marks[target] {
                Mark::New => {
                    marks[target] = Mark::OnPath;
                    path.push((target, 0));
                }
                Mark::OnPath => {
                    let start = path.iter().position(|(on_path, _)| *on_path == target).unwrap_or(0);
                    found.push(path[start..].iter().map(|(on_path, _)| *on_path).collect());
                }
                Mark::Finished => {}
            }
        }
    }
    found
}

fn report_cycle(steps: &[WrittenStep], cycle: &[usize], mistakes: &mut Mistakes) {
    const SHOWN: usize = 20;
    let (Some(first), Some(last)) = (cycle.first(), cycle.last()) else { return };
    let target = &steps[*first].name;
    // The place is that of the need which closes the circle.
    let closing = steps[*last].needs.iter().find(|need| need.step == *target);
    let at = closing.map_or(steps[*last].at, |need| need.at);
    let mut names: Vec<&str> = cycle.iter().take(SHOWN).map(|index| steps[*index].name.as_str()).collect();
    if cycle.len() > SHOWN {
        names.push("...");
    }
    names.push(target);
    let message = if cycle.len() == 1 {
        format!("the step needs itself: {}; remove this need", names.join(" -> "))
    } else {
        format!("the steps wait for each other: {}; remove one of these needs", names.join(" -> "))
    };
    mistakes.add(at, message);
}
