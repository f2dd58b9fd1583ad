//! The pass of the default policy: quotas, priorities, shares and levels; then who may pass whom.
//!
//! Guarantees: nobody starts before another one that goes first and has room; what goes first and finds none
//! has room kept for it; what is stopped is stopped for somebody who starts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_domain::{Span, Timestamp};

use super::forecast::{Forecast, Holder};
use super::ids::{NodeId, QueueId, UnitId};
use super::nodes::{Places, Search};
use super::plan::Plan;
use super::queues::Standing;
use super::unit::State;
use super::{Board, length};
use crate::policy::{Ages, Claim, slack};

/// Those that have waited for very long and are looked at in one pass.
const AGED_AT_ONCE: usize = 16;

/// Where a claim comes from: a line, or the list of those that have waited for very long.
type Source = Option<(u32, usize)>;

impl Board {
    pub(crate) fn pass_muster(&mut self, now: Timestamp, plan: &mut Plan) {
        self.tick(now);
        if self.lines.waiting > 0 {
            let blocked = self.start_first(now, plan);
            if blocked.is_some() {
                self.let_others_pass(now, plan);
            }
        }
        if let Some(at) = self.clocks.next() {
            plan.look_again_at(at, now);
        }
    }

    /// The claims of the first of each line, and of those that have waited for very long.
    fn claims(&self) -> BinaryHeap<Reverse<(Claim, Source)>> {
        let queues = 0..self.lines.queues.len() as u32;
        let shares: Vec<u64> = queues.map(|queue| self.share_of(QueueId(queue))).collect();
        let mut claims = Vec::new();
        for class in &self.lines.active {
            for (position, line) in self.lines.classes[*class as usize].lines.iter().enumerate() {
                let Some(first) = line.order.first() else { continue };
                let claim = self.claim(first.unit, false, shares[line.queue.index()]);
                claims.extend(claim.map(|claim| Reverse((claim, Some((*class, position))))));
            }
        }
        let shared = |id: UnitId| shares[self.entries[id.index()].unit.queue.index()];
        let aged = self.clocks.aged.iter().filter_map(|key| self.claim(key.unit, true, shared(key.unit)));
        claims.extend(aged.take(AGED_AT_ONCE).map(|claim| Reverse((claim, None))));
        BinaryHeap::from(claims)
    }

    /// The claim of the first of a line, as of now.
    fn claim_of_line(&self, class: u32, line: usize) -> Option<(Claim, Source)> {
        let first = self.lines.classes[class as usize].lines[line].order.first()?;
        Some((self.claim_now(first.unit, false)?, Some((class, line))))
    }

    fn claim_now(&self, id: UnitId, aged: bool) -> Option<Claim> {
        self.claim(id, aged, self.share_of(self.entries[id.index()].unit.queue))
    }

    /// `None` when its queue may not have it now.
    fn claim(&self, id: UnitId, aged: bool, share: u64) -> Option<Claim> {
        let entry = &self.entries[id.index()];
        let unit = &entry.unit;
        let borrows = match self.standing(id) {
            Standing::Own => false,
            Standing::Borrows => true,
            Standing::Refused => return None,
        };
        let pinned = aged && self.policy.may_pin(self.pinned_of(entry), entry.size, self.total_of(entry));
        (pinned || !aged).then_some(Claim {
            borrows,
            priority: Reverse(unit.priority),
            share,
            level: if pinned { 0 } else { entry.level },
            pinned: Reverse(pinned),
            submit: unit.submit,
            seq: unit.seq,
            unit: id,
        })
    }

    /// The share of a queue once its first has started. It is the same for all that wait in the queue, so that
    /// size never decides between them.
    fn share_of(&self, queue: QueueId) -> u64 {
        let Some(first) = self.lines.head(queue) else { return 0 };
        let unit = &self.entries[first.index()].unit;
        let need = &self.shapes[unit.shape.index()].need;
        self.queues.share_with(queue, need, unit.tasks, &self.nodes.total)
    }

    pub(crate) fn standing(&self, id: UnitId) -> Standing {
        let unit = &self.entries[id.index()].unit;
        let need = &self.shapes[unit.shape.index()].need;
        self.queues.standing(unit.queue, need, unit.tasks, unit.preemptible)
    }

    /// Starts the first, stops others for it where that is allowed, and keeps room for the first that has
    /// to wait all the same. Of those behind it, which may be there for the share of their queue alone, only
    /// such start here as have a better standing, or stop others without delaying it.
    fn start_first(&mut self, now: Timestamp, plan: &mut Plan) -> Option<UnitId> {
        let mut claims = self.claims();
        let mut blocked: Option<Claim> = None;
        // Those that could stop nobody: others like them cannot either.
        let mut refused = Vec::new();
        while let Some(Reverse((claim, source))) = claims.pop() {
            let id = claim.unit;
            if self.entries[id.index()].state != State::Waiting {
                continue;
            }
            // Shares and quotas have changed with every start; the claim has its place by what is true now.
            let current = self.claim_now(id, source.is_none());
            if current != Some(claim) {
                claims.extend(current.map(|current| Reverse((current, source))));
                continue;
            }
            let ahead = |first: Claim| (claim.priority, claim.level) < (first.priority, first.level);
            let started = if blocked.is_none_or(ahead) {
                self.start_or_stop_others(claim, now, plan)
            } else {
                let kind = (self.entries[id.index()].class, claim.priority, claim.level);
                let started = !refused.contains(&kind) && self.stop_others(claim, true, now, plan);
                if !started {
                    refused.push(kind);
                }
                started
            };
            if !started && blocked.is_none() {
                blocked = Some(claim);
                self.keep_room(id, now, plan);
                claims.retain(|Reverse((other, _))| self.has_a_chance(*other, claim));
            }
            if started && let Some((class, line)) = source {
                claims.extend(self.claim_of_line(class, line).map(Reverse));
            }
        }
        blocked.map(|claim| claim.unit)
    }

    /// Whether a claim behind the holder could come to anything before those that pass are looked at: it has
    /// a better standing, or others to stop while the holder has its time.
    fn has_a_chance(&self, claim: Claim, holder: Claim) -> bool {
        let timed = self.forecast.as_ref().is_some_and(|forecast| forecast.at.is_some());
        (claim.priority, claim.level) < (holder.priority, holder.level)
            || timed && (self.lent || self.stands_above_any(claim.priority.0, claim.level))
    }

    fn start_or_stop_others(&mut self, claim: Claim, now: Timestamp, plan: &mut Plan) -> bool {
        let Some(places) = self.find_kindly(claim.unit) else {
            return self.stop_others(claim, false, now, plan);
        };
        self.entries[claim.unit.index()].pinned = claim.pinned.0;
        self.set_off(claim.unit, places, now, plan);
        true
    }

    /// Starts it in the stead of others, if there are such; `behind` the holder of the reservation only where
    /// that one does not suffer.
    fn stop_others(&mut self, claim: Claim, behind: bool, now: Timestamp, plan: &mut Plan) -> bool {
        let victims = self.victims_for(claim.unit, claim.level, now, plan);
        if victims.is_empty() || behind && !self.spares_holder(claim.unit, &victims, now) {
            return false;
        }
        let stopped = self.stop_all(&victims, claim.unit, now, plan);
        let Some(places) = self.find(claim.unit) else { return false };
        self.entries[claim.unit.index()].pinned = claim.pinned.0;
        self.set_off(claim.unit, places, now, plan);
        if let Some(start) = plan.starts.last_mut() {
            start.after = stopped;
        }
        // What was stopped counted in the forecast.
        if let Some(holder) = self.forecast.as_ref().map(|forecast| forecast.holder)
            && self.kept.is_empty()
        {
            self.forecast = None;
            self.reserve(holder, now);
        }
        true
    }

    /// Places that are not kept for another, if there are any; else what there is.
    fn find_kindly(&mut self, id: UnitId) -> Option<Places> {
        if self.kept.is_empty() {
            return self.find(id);
        }
        let unit = &self.entries[id.index()].unit;
        let known = &self.shapes[unit.shape.index()];
        let elsewhere = self.nodes.find(&known.need, unit.tasks, known.most, Search::LeaveKept);
        elsewhere.or_else(|| self.find(id))
    }

    fn set_off(&mut self, id: UnitId, places: Places, now: Timestamp, plan: &mut Plan) {
        if self.forecast.as_ref().is_some_and(|forecast| forecast.holder == id) {
            self.forget_reservation();
        }
        self.begin(id, places, now, plan);
    }

    pub(crate) fn forget_reservation(&mut self) {
        self.forecast = None;
        for node in std::mem::take(&mut self.kept) {
            self.nodes.keep(node, false);
        }
    }

    /// Reserves for the unit: at the time when enough will have ended, or, when nobody knows that time, on
    /// nodes that nobody else gets once the others have passed for long enough.
    fn keep_room(&mut self, id: UnitId, now: Timestamp, plan: &mut Plan) {
        if self.forecast.as_ref().is_some_and(|forecast| forecast.holder != id) {
            self.forget_reservation();
        }
        if !self.kept.is_empty() && self.forecast.is_some() {
            return;
        }
        self.reserve(id, now);
        if self.forecast.as_ref().is_some_and(|forecast| forecast.at.is_some()) {
            return;
        }
        let drains_at = self.drains_at(id, now);
        if now < drains_at {
            plan.look_again_at(drains_at, now);
            return;
        }
        let unit = &self.entries[id.index()].unit;
        let need = &self.shapes[unit.shape.index()].need;
        let chosen = self.nodes.to_drain(need, unit.tasks);
        let holder = Holder { unit: id, need, tasks: unit.tasks };
        self.forecast = Some(Forecast::draining(holder, &self.nodes, &chosen));
        for node in &chosen {
            self.nodes.keep(*node, true);
        }
        self.kept = chosen;
    }

    /// When others have passed it for long enough, by what runs now.
    fn drains_at(&self, id: UnitId, now: Timestamp) -> Timestamp {
        let entry = &self.entries[id.index()];
        let mut ages = Ages::default();
        for running in &self.running_units {
            let running = &self.entries[running.index()];
            ages.add(running.size, running.unit.submit, now);
        }
        entry.since + self.policy.passed_for(entry.size, self.total_of(entry), &ages)
    }

    /// Starts those that do not delay the holder, the shortest first.
    fn let_others_pass(&mut self, now: Timestamp, plan: &mut Plan) {
        let mut turns = Vec::new();
        for class in &self.lines.active {
            let of = &self.lines.classes[*class as usize];
            if !self.hopeless(of.shape, of.tasks) {
                let lines = 0..of.lines.len();
                turns.extend(lines.filter_map(|line| self.turn_of_line(*class, line)).map(Reverse));
            }
        }
        let mut turns = BinaryHeap::from(turns);
        while let Some(Reverse((length, claim, class, line))) = turns.pop() {
            let current = self.turn_of_line(class, line);
            if current != Some((length, claim, class, line)) {
                turns.extend(current.map(Reverse));
                continue;
            }
            if let Some(places) = self.find_in_passing(claim.unit, now) {
                self.set_off(claim.unit, places, now, plan);
                turns.extend(self.turn_of_line(class, line).map(Reverse));
            }
        }
    }

    fn turn_of_line(&self, class: u32, line: usize) -> Option<(Span, Claim, u32, usize)> {
        let of = &self.lines.classes[class as usize];
        if self.hopeless(of.shape, of.tasks) {
            return None;
        }
        let (length, first) = of.lines[line].by_length.first()?;
        Some((*length, self.claim_now(first.unit, false)?, class, line))
    }

    /// Places for one that goes behind the holder.
    fn find_in_passing(&mut self, id: UnitId, now: Timestamp) -> Option<Places> {
        let places = self.find(id)?;
        let Some(forecast) = &self.forecast else { return Some(places) };
        let entry = &self.entries[id.index()];
        let known = &self.shapes[entry.unit.shape.index()];
        let unknown = forecast.at.is_none() && self.kept.is_empty();
        let in_time = length(entry) <= slack(now, forecast.at);
        if unknown || in_time || forecast.permits(&known.need, &places) {
            return Some(places);
        }
        if self.kept.is_empty() {
            return None;
        }
        self.nodes.find(&known.need, entry.unit.tasks, known.most, Search::LeaveKept)
    }
}

impl super::nodes::Nodes {
    /// The nodes that have the least to wait for before so many tasks fit on them.
    fn to_drain(&self, need: &super::amounts::Need, tasks: u32) -> Vec<NodeId> {
        let mut nodes: Vec<(Reverse<u32>, NodeId, u32)> = self
            .iter()
            .map(|(id, node)| {
                let (now, empty) =
                    (node.capacity_of(&node.free, need, tasks), node.capacity_of(&node.total, need, tasks));
                (Reverse(now), id, empty)
            })
            .filter(|(_, _, empty)| *empty > 0)
            .collect();
        nodes.sort_by_key(|(now, id, _)| (*now, Reverse(self.get(*id).free.fixed[0]), *id));
        let mut missing = tasks;
        let mut chosen = Vec::new();
        for (_, id, empty) in nodes {
            if missing == 0 {
                break;
            }
            chosen.push(id);
            missing -= empty.min(missing);
        }
        chosen
    }
}
