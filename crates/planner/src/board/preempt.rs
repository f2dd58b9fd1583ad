//! Stops for the sake of others: tried on a copy of the nodes before anybody is touched.

use std::cmp::Reverse;

use muster_domain::{Span, Timestamp};

use super::forecast::{Forecast, Holder};
use super::ids::UnitId;
use super::nodes::Search;
use super::plan::{Cause, Plan, Stop};
use super::queues::Standing;
use super::unit::{Entry, State};
use super::{Board, length};
use crate::policy::{Party, Trial, Victim, cause, choose, cost, slack};

/// The nodes as they would be without some of what runs.
struct Sketch<'a> {
    board: &'a Board,
    nodes: Forecast,
}

impl Trial<UnitId> for Sketch<'_> {
    fn stop(&mut self, unit: UnitId) {
        let entry = &self.board.entries[unit.index()];
        let need = &self.board.shapes[entry.unit.shape.index()].need;
        self.nodes.release(&self.board.nodes, need, &entry.places);
    }

    fn restore(&mut self, unit: UnitId) {
        let entry = &self.board.entries[unit.index()];
        self.nodes.outlived_by(&self.board.shapes[entry.unit.shape.index()].need, &entry.places);
    }

    fn fits(&self) -> bool {
        self.nodes.holds()
    }
}

fn party(entry: &Entry, borrows: bool) -> Party {
    Party {
        priority: entry.unit.priority,
        level: entry.level,
        pinned: entry.pinned,
        queue: entry.unit.queue.0,
        borrows,
    }
}

impl Board {
    /// Those whose stop makes room for the unit, if that is allowed and enough. `level` is that of its claim,
    /// which is the first for what is pinned.
    pub(crate) fn victims_for(
        &self,
        id: UnitId,
        level: u8,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Vec<Victim<UnitId>> {
        if !self.policy.preempts() {
            return Vec::new();
        }
        let entry = &self.entries[id.index()];
        let free = self.total_of(entry).saturating_sub(self.used_of(entry));
        let reclaims = self.lent && self.standing(id) == Standing::Own;
        if !reclaims && free + self.held_below(entry, level) < entry.size {
            return Vec::new();
        }
        let mut candidates = self.candidates(id, level, now, plan);
        candidates.sort_unstable();
        let need = &self.shapes[entry.unit.shape.index()].need;
        let holder = Holder { unit: id, need, tasks: entry.unit.tasks };
        let mut sketch = Sketch { board: self, nodes: Forecast::of_now(holder, &self.nodes) };
        choose(&mut sketch, &candidates, self.clocks.allowance.left()).unwrap_or_default()
    }

    /// Whether the holder of the reservation starts as early as before when these are stopped for the unit.
    /// A holder without a time may want the same victims, and goes first.
    pub(crate) fn spares_holder(&mut self, id: UnitId, victims: &[Victim<UnitId>], now: Timestamp) -> bool {
        let Some((holder, promised)) = self.forecast.as_ref().map(|known| (known.holder, known.at)) else {
            return true;
        };
        if promised.is_none() {
            return false;
        }
        self.lift(victims);
        let unit = self.entries[id.index()].unit;
        let known = &self.shapes[unit.shape.index()];
        let places = self.nodes.find(&known.need, unit.tasks, known.most, Search::All);
        let gone: Vec<UnitId> = victims.iter().map(|victim| victim.unit).collect();
        let spared = places.is_some_and(|places| {
            let after = self.forecast_without(holder, &gone, now);
            let in_time = length(&self.entries[id.index()]) <= slack(now, after.at);
            after.at.is_some() && after.at <= promised && (in_time || after.permits(&known.need, &places))
        });
        self.put_back(victims);
        spared
    }

    /// Takes victims off their nodes for a moment.
    fn lift(&mut self, victims: &[Victim<UnitId>]) {
        for victim in victims {
            let entry = &self.entries[victim.unit.index()];
            self.nodes.give_back(&self.shapes[entry.unit.shape.index()].need, &entry.places);
        }
    }

    fn put_back(&mut self, victims: &[Victim<UnitId>]) {
        for victim in victims {
            let entry = &self.entries[victim.unit.index()];
            self.nodes.take_all(&self.shapes[entry.unit.shape.index()].need, &entry.places);
        }
    }

    /// Stops the victims. Gives those that were stopped.
    pub(crate) fn stop_all(
        &mut self,
        victims: &[Victim<UnitId>],
        id: UnitId,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Vec<UnitId> {
        for victim in victims {
            if victim.cause != Cause::Priority {
                self.clocks.allowance.spend(victim.cost);
            }
            self.stop(victim.unit, id, now);
            plan.stops.push(Stop { unit: victim.unit, for_whom: id, cause: victim.cause });
        }
        victims.iter().map(|victim| victim.unit).collect()
    }

    /// All that may be stopped for the unit. Those that may be later, the plan is told to look for again.
    fn candidates(&self, id: UnitId, level: u8, now: Timestamp, plan: &mut Plan) -> Vec<Victim<UnitId>> {
        let comes = &self.entries[id.index()];
        let wants = Party { level, ..party(comes, self.standing(id) != Standing::Own) };
        let mut found = Vec::new();
        for unit in &self.running_units {
            let runs = &self.entries[unit.index()];
            if !runs.unit.preemptible || comes.stopped_for.contains(&runs.unit.seq) {
                continue;
            }
            let borrows = self.lent && self.queues.borrows(runs.unit.queue);
            let Some(cause) = cause(wants, party(runs, borrows), self.policy.preempt_by_level) else {
                continue;
            };
            let protected_until = runs.since + self.policy.least_run;
            if protected_until > now || runs.since == now {
                plan.look_again_at(protected_until, now);
                continue;
            }
            let since_saved = runs.past.saved_at.map_or(Span::ZERO, |saved| now.since(saved.max(runs.since)));
            found.push(Victim {
                priority: runs.unit.priority,
                owns: !borrows,
                level: Reverse(runs.level),
                cost: cost(runs.size, since_saved, self.policy.restart),
                since: Reverse(runs.since),
                unit: *unit,
                cause,
            });
        }
        found
    }

    /// Makes a unit that runs wait again.
    fn stop(&mut self, id: UnitId, for_whom: UnitId, now: Timestamp) {
        debug_assert_eq!(self.entries[id.index()].state, State::Running);
        let started = self.entries[id.index()].since;
        self.release(id, now);
        let seq = self.entries[for_whom.index()].unit.seq;
        let restart = self.policy.restart;
        let entry = &mut self.entries[id.index()];
        entry.state = State::Waiting;
        entry.since = now;
        entry.pinned = false;
        entry.end = None;
        if !entry.stopped_for.contains(&seq) {
            entry.stopped_for.push(seq);
        }
        // What it has done it need not do again, but it has to start again.
        let done = now.since(started).as_micros();
        let left = |estimate: Span| Span::from_micros(estimate.as_micros().saturating_sub(done)) + restart;
        entry.unit.estimate = entry.unit.estimate.map(left);
        self.enqueue(id);
    }
}
