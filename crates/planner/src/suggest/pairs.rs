//! Two changes that help together where none helps alone.

use muster_domain::{SuggestedChange as Change, Suggestion};

use super::{each, gang, gates, need};
use crate::case::{Case, Trial};

/// Changes that are tried as the first of two, and pairs that are given.
const FIRST: usize = 6;
const PAIRS: usize = 4;

pub(super) fn suggest(case: &Case, trial: &Trial<'_>) -> Vec<Suggestion> {
    let mut first: Vec<(Change, Trial<'_>)> = gates::changes(case, trial);
    first.extend(need::demands_dropped(trial));
    first.extend(gang::scattered(trial));
    first.truncate(FIRST);
    let mut pairs: Vec<Suggestion> = Vec::new();
    for (change, changed) in first {
        for second in each(case, &changed) {
            let known =
                |pair: &Suggestion| pair.change == second.change && pair.also.as_ref() == Some(&change);
            let is_new = !is_same_bound(&change, &second.change) && !pairs.iter().any(known);
            if pairs.len() < PAIRS && second.change != change && is_new {
                pairs.push(Suggestion { change: change.clone(), also: Some(second.change), ..second });
            }
        }
    }
    pairs
}

/// Whether both raise one bound of a queue: of two such changes only one counts, so that they are no pair.
fn is_same_bound(first: &Change, second: &Change) -> bool {
    match (first, second) {
        (Change::MoreRunning { queue, user, .. }, Change::MoreRunning { queue: other, user: others, .. }) => {
            queue == other && user == others
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use muster_domain::{QueueName, Requirement, Resources, Timestamp, Unit, WorkerId};

    use super::*;
    use crate::case::Gate;
    use crate::fit::WorkerView;
    use crate::gang::GangCandidate;

    fn gpus(gpus: u64) -> Resources {
        Resources { gpus, ..Resources::default() }
    }

    fn case(needed: u64) -> Case {
        let unit = Unit::Job(muster_domain::JobId::from_random([1; 16]));
        let need = Requirement { resources: gpus(needed), ..Requirement::default() };
        let worker =
            WorkerView { id: Some(WorkerId::new("w")), total: Some(gpus(4)), ..WorkerView::default() };
        Case::new(GangCandidate::plain(unit, 1, 1, need), vec![worker], Timestamp::default())
    }

    fn codes(case: &Case) -> Vec<(&'static str, Option<&'static str>)> {
        let found = super::super::suggest(case);
        found.iter().map(|one| (one.change.code(), one.also.as_ref().map(Change::code))).collect()
    }

    #[test]
    fn a_closed_gate_and_too_few_gpus_are_told_together() {
        let mut case = case(8);
        assert_eq!(codes(&case), [("less", None)]);
        case.gates.push(Gate::Paused { queue: QueueName::new("q") });
        assert_eq!(codes(&case), [("resume_queue", Some("less"))]);
        case.unit.requirement.resources.gpus = 4;
        assert_eq!(codes(&case), [("resume_queue", None)], "one is enough");
        case.gates.push(Gate::Key { key: "k".to_owned(), limit: 0, holders: Vec::new() });
        assert_eq!(codes(&case), [("resume_queue", Some("more_concurrency"))], "once, not in both orders");
        case.unit.requirement.resources.gpus = 8;
        assert_eq!(codes(&case), [], "three would be needed");
    }
}
