//! An open gate, a larger quota, work that may be stopped, a worker that is put back to work.

use muster_domain::{Amounts, Dimension, Queue, QuotaRoom, SuggestedChange as Change, Suggestion};

use super::tried;
use crate::case::{Case, Gate, Trial};

/// Workers in quarantine that are tried.
const RELEASED: usize = 8;

pub(super) fn suggest(case: &Case, trial: &Trial<'_>) -> Vec<Suggestion> {
    let try_it = |(change, changed): (Change, Trial<'_>)| tried(&changed, change);
    let gates = case.closed().filter_map(|(at, gate)| try_it(open(trial, at, gate)?));
    let quota = quota(case, trial).into_iter().find_map(try_it);
    let preemptible = preemptible(trial).and_then(try_it);
    gates.chain(quota).chain(preemptible).chain(release(case, trial)).collect()
}

/// What may be changed here, whether or not it helps alone.
pub(super) fn changes<'c>(case: &Case, trial: &Trial<'c>) -> Vec<(Change, Trial<'c>)> {
    let gates = case.closed().filter_map(|(at, gate)| open(trial, at, gate));
    gates.chain(quota(case, trial)).chain(preemptible(trial)).collect()
}

fn open<'c>(trial: &Trial<'c>, at: usize, gate: &Gate) -> Option<(Change, Trial<'c>)> {
    let jobs = trial.unit.fewest();
    let change = match gate {
        Gate::Paused { queue } => Change::Resume { queue: queue.clone() },
        // It opens by itself.
        Gate::Rate { .. } => return None,
        Gate::Running { queue, running, limit } => {
            Change::MoreRunning { queue: queue.clone(), user: None, from: *limit, to: running + jobs }
        }
        Gate::UserRunning { queue, user, running, limit } => Change::MoreRunning {
            queue: queue.clone(),
            user: Some(user.clone()),
            from: *limit,
            to: running + jobs,
        },
        Gate::Key { key, limit, holders } => {
            Change::MoreOfKey { key: key.clone(), from: *limit, to: holders.len() as u32 + jobs }
        }
    };
    let mut changed = trial.clone();
    changed.limits[at] = jobs;
    Some((change, changed))
}

/// What the quota lacks for the fewest jobs that make a start.
pub(crate) fn lacking(case: &Case) -> Vec<QuotaRoom> {
    let Some(ledger) = case.ledger(&case.queues) else { return Vec::new() };
    let Some(seat) = ledger.seat(case.queue.as_ref()) else { return Vec::new() };
    let need = ledger.row(&case.unit.requirement.resources);
    ledger.lacking(seat, &need, case.unit.fixed, case.unit.fewest())
}

/// A larger limit of borrowing, else more of its own.
fn quota<'c>(case: &Case, trial: &Trial<'c>) -> Vec<(Change, Trial<'c>)> {
    let lacking = lacking(case);
    let Some(queue) = lacking.first().map(|room| room.queue.clone()) else { return Vec::new() };
    let with = |borrow: bool| {
        let own = case.queues.iter().find(|one| one.name == queue)?;
        let now = |dimension: &Dimension| {
            let terms = if borrow { &own.terms.borrow } else { &own.terms.nominal };
            terms.as_ref().and_then(|amounts| amounts.get(dimension))
        };
        let amount = |room: &QuotaRoom| {
            let from = now(&room.dimension).or((!borrow).then_some(0))?;
            let missing = room.needed.saturating_sub(room.available);
            Some((room.dimension.clone(), from, from.saturating_add(missing)))
        };
        let amounts: Vec<(Dimension, u64, u64)> = lacking.iter().map(amount).collect::<Option<_>>()?;
        let mut queues = case.queues.clone();
        for one in queues.iter_mut().filter(|one| one.name == queue) {
            enlarge(one, borrow, &amounts);
        }
        let mut changed = trial.clone();
        changed.under(case.queue.as_ref(), case.ledger(&queues));
        Some((Change::MoreQuota { queue: queue.clone(), borrow, amounts }, changed))
    };
    [with(true), with(false)].into_iter().flatten().collect()
}

fn enlarge(queue: &mut Queue, borrow: bool, amounts: &[(Dimension, u64, u64)]) {
    let terms = if borrow { &mut queue.terms.borrow } else { &mut queue.terms.nominal };
    let before: Vec<(Dimension, u64)> = terms.take().map(Into::into).unwrap_or_default();
    let after = before.into_iter().chain(amounts.iter().map(|(kind, _, to)| (kind.clone(), *to)));
    // Of two amounts of a kind the later one counts.
    *terms = Some(after.collect::<Amounts>());
}

fn preemptible<'c>(trial: &Trial<'c>) -> Option<(Change, Trial<'c>)> {
    let mut changed = trial.clone();
    std::mem::take(&mut changed.unit.fixed).then_some((Change::Preemptible, changed))
}

fn release(case: &Case, trial: &Trial<'_>) -> Vec<Suggestion> {
    let need = &trial.unit.requirement;
    let able = case.aside.iter().filter(|aside| aside.quarantined_until.is_some()).map(|aside| &aside.view);
    let able = able.filter(|view| view.has_room_for(need)).take(RELEASED);
    let with = |view: &crate::fit::WorkerView| {
        let mut changed = trial.clone();
        changed.workers.to_mut().push(view.clone());
        tried(&changed, Change::Release { worker: view.id.clone()? })
    };
    able.filter_map(with).take(1).collect()
}
