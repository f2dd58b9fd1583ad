//! The steps of a pipeline as a tree: each once, below the latest of the steps that it needs.
//!
//! Guarantee: every step is placed, whatever the needs are; no recursion over the depth of the pipeline.

use std::collections::BTreeMap;

use muster_protocol::Step;

/// Deeper branches are drawn at this depth; nobody reads further to the right.
const DEEPEST: usize = 20;

/// One line of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch {
    /// Index of the step.
    pub(super) step: usize,
    /// The step above it.
    pub(super) parent: Option<usize>,
    /// What is drawn before its name.
    pub(super) lines: String,
}

/// The lines from top to bottom.
pub(super) fn arrange(steps: &[Step]) -> Vec<Branch> {
    let depths = depths(steps);
    let index: BTreeMap<&str, usize> =
        steps.iter().enumerate().map(|(index, step)| (step.name.as_str(), index)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    let mut parents: Vec<Option<usize>> = vec![None; steps.len()];
    for (number, step) in steps.iter().enumerate() {
        // The latest need; among those the one that is written first.
        let needs = step.needs.iter().filter_map(|need| index.get(need.step.as_str()).copied());
        let parent =
            needs.filter(|need| depths[*need] < depths[number]).rev().max_by_key(|need| depths[*need]);
        parents[number] = parent;
        if let Some(parent) = parent {
            children[parent].push(number);
        }
    }
    let mut branches = Vec::with_capacity(steps.len());
    let roots = (0..steps.len()).rev().filter(|step| parents[*step].is_none());
    let mut open: Vec<(usize, String, String)> =
        roots.map(|step| (step, String::new(), String::new())).collect();
    while let Some((step, lines, below)) = open.pop() {
        let last = children[step].len().saturating_sub(1);
        for (place, child) in children[step].iter().enumerate().rev() {
            let (corner, line) = if place == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let deeper = below.chars().count() / 3 < DEEPEST;
            let next = if deeper { format!("{below}{line}") } else { below.clone() };
            open.push((*child, format!("{below}{corner}"), next));
        }
        branches.push(Branch { step, parent: parents[step], lines });
    }
    branches
}

/// The longest way from a step without needs. Steps that cannot be reached so, which the scheduler refuses,
/// count as such steps.
fn depths(steps: &[Step]) -> Vec<usize> {
    let index: BTreeMap<&str, usize> =
        steps.iter().enumerate().map(|(index, step)| (step.name.as_str(), index)).collect();
    let mut depths = vec![0; steps.len()];
    let mut missing: Vec<usize> = Vec::with_capacity(steps.len());
    let mut dependants: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (number, step) in steps.iter().enumerate() {
        let needs: Vec<usize> =
            step.needs.iter().filter_map(|need| index.get(need.step.as_str()).copied()).collect();
        missing.push(needs.len());
        for need in needs {
            dependants[need].push(number);
        }
    }
    let mut ready: Vec<usize> = (0..steps.len()).filter(|step| missing[*step] == 0).collect();
    while let Some(step) = ready.pop() {
        for dependant in &dependants[step] {
            depths[*dependant] = depths[*dependant].max(depths[step] + 1);
            missing[*dependant] -= 1;
            if missing[*dependant] == 0 {
                ready.push(*dependant);
            }
        }
    }
    for (depth, missing) in depths.iter_mut().zip(missing) {
        if missing > 0 {
            *depth = 0;
        }
    }
    depths
}

#[cfg(test)]
mod tests {
    use muster_protocol::{DependencyRule, JobStatus, StepNeed};

    use super::*;

    fn step(name: &str, needs: &[&str]) -> Step {
        let rule = DependencyRule::AllSuccess;
        Step {
            name: name.to_owned(),
            needs: needs.iter().map(|need| StepNeed { step: (*need).to_owned(), rule }).collect(),
            status: JobStatus::Pending,
            size: 1,
            counts: BTreeMap::new(),
            jobs: Vec::new(),
            started_at: None,
            done_at: None,
            reason: None,
        }
    }

    fn drawn(steps: &[Step]) -> Vec<String> {
        arrange(steps).iter().map(|branch| format!("{}{}", branch.lines, steps[branch.step].name)).collect()
    }

    #[test]
    fn each_step_stands_below_the_latest_that_it_needs() {
        let steps =
            [step("d", &["a", "c"]), step("a", &[]), step("b", &["a"]), step("c", &["b"]), step("e", &[])];
        assert_eq!(drawn(&steps), ["a", "└─ b", "   └─ c", "      └─ d", "e"]);
    }

    #[test]
    fn a_chain_of_any_length_and_even_a_cycle_are_drawn() {
        let names: Vec<String> = (0..5_000).map(|number| format!("s{number}")).collect();
        let chain: Vec<Step> = (0..names.len())
            .map(|number| {
                step(
                    &names[number],
                    &names[number.saturating_sub(1)..number].iter().map(String::as_str).collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(arrange(&chain).len(), 5_000);
        let cycle = [step("a", &["b"]), step("b", &["a"])];
        assert_eq!(drawn(&cycle), ["a", "b"]);
    }
}
