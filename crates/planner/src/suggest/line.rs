//! A time limit that lets it pass the room that is kept for others, or a priority that puts it before them or stops
//! others for it.

use std::collections::BTreeSet;

use muster_domain::{KeptRoom, Span, SuggestedChange as Change, Suggestion, Timestamp, Unit};

use super::{given, tried};
use crate::case::{Case, Trial};
use crate::gang::GangCandidate;
use crate::outlook::{Sight, Waiting, outlook};
use crate::policy::{Allowances, LAST, with_priority};

/// Priorities that are tried.
const TRIED: usize = 16;

const MINUTE: u64 = 60_000_000;
const SECOND: u64 = 1_000_000;

pub(super) fn suggest(case: &Case, trial: &Trial<'_>) -> Vec<Suggestion> {
    let closed: Vec<&KeptRoom> = case
        .workers
        .iter()
        .filter_map(|worker| worker.kept.as_ref())
        .filter(|room| !room.admits(&case.unit.entrant()))
        .collect();
    [time_limit(case, trial, &closed), priority(case, trial, &closed)].into_iter().flatten().collect()
}

/// The longest limit that ends before one of those times.
fn time_limit(case: &Case, trial: &Trial<'_>, closed: &[&KeptRoom]) -> Option<Suggestion> {
    let wanted: BTreeSet<(Timestamp, Unit)> =
        closed.iter().filter_map(|room| Some((room.until?, room.unit))).collect();
    wanted.into_iter().rev().find_map(|(until, unit)| {
        let left = until.since(case.now).as_micros();
        let grain = if left >= MINUTE { MINUTE } else { SECOND };
        let limit = Span::from_micros(left - left % grain);
        if limit == Span::ZERO {
            return None;
        }
        let mut changed = trial.clone();
        changed.unit.ends = Some(case.now + limit);
        tried(&changed, Change::TimeLimit { limit, unit, until })
    })
}

/// The lowest priority that helps.
fn priority(case: &Case, trial: &Trial<'_>, closed: &[&KeptRoom]) -> Option<Suggestion> {
    let from = case.unit.priority;
    let rooms = closed.iter().map(|room| room.priority);
    let running = case.occupants.iter().filter(|one| one.preemptible).map(|one| one.priority);
    let above: BTreeSet<i32> =
        rooms.chain(running).map(|priority| priority.saturating_add(1)).filter(|to| *to > from).collect();
    above.into_iter().take(TRIED).find_map(|to| {
        let mut changed = trial.clone();
        changed.unit.priority = to;
        changed.unit.rank = with_priority(case.policy().name, case.unit.rank, from, to);
        if let Some(workers) = changed.place() {
            let passed: BTreeSet<Unit> = closed.iter().map(|room| room.unit).collect();
            let before = passed.into_iter().collect();
            return Some(given(Change::Priority { from, to, before, stops: Vec::new() }, workers));
        }
        let stops = stops(case, &changed)?;
        Some(given(Change::Priority { from, to, before: Vec::new(), stops }, Vec::new()))
    })
}

/// Who would stop for it.
fn stops(case: &Case, changed: &Trial<'_>) -> Option<Vec<Unit>> {
    if !changed.may_start() {
        return None;
    }
    // Stops for reasons of service and of quota come without a change of priority.
    let unit = GangCandidate { seat: None, ..changed.unit.clone() };
    let waiting = Waiting { unit, since: case.now, level: LAST, stopped_for: None };
    let sight = Sight {
        workers: &case.workers,
        occupants: &case.occupants,
        ledger: None,
        allowances: &Allowances::default(),
    };
    let found = outlook(sight, &[waiting], &case.policies, case.now);
    let stops: Vec<Unit> = found.stops.iter().map(|stop| stop.victim).collect();
    (!stops.is_empty()).then_some(stops)
}
