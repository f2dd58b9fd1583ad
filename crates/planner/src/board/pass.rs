//! One pass: who starts now.
//!
//! Guarantees: what starts fits; nobody is passed but by those that the policy lets pass; a class that found
//! no room is not tried again before capacity grows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;

use muster_domain::{Span, Timestamp};

use super::forecast::{Forecast, Holder};
use super::ids::{QueueId, ShapeId, UnitId};
use super::nodes::{Places, Search};
use super::plan::{Plan, Start};
use super::{Board, length};
use crate::policy::{Key, Passing, slack};

/// The place of a unit among those that may pass: length where it matters, then the order of the queue.
type Turn = (Span, Key);

impl Board {
    /// Decides who starts now, and counts it as started.
    pub fn pass(&mut self, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if self.is_muster() {
            self.pass_muster(now, &mut plan);
            return plan;
        }
        match self.passing {
            Passing::Everybody => self.let_all_pass(now, &mut plan),
            Passing::Nobody | Passing::InOrder | Passing::ShortestFirst => {
                if let Some(blocked) = self.start_in_order(now, &mut plan)
                    && self.passing != Passing::Nobody
                    && self.lines.waiting > 1
                {
                    self.reserve(blocked, now);
                    self.let_some_pass(now, &mut plan);
                }
            }
        }
        plan
    }

    /// Starts the first in the order until one does not fit, and gives that one.
    fn start_in_order(&mut self, now: Timestamp, plan: &mut Plan) -> Option<UnitId> {
        loop {
            let head = self.lines.head(QueueId(0))?;
            let Some(places) = self.find(head) else { return Some(head) };
            if self.forecast.as_ref().is_some_and(|forecast| forecast.holder == head) {
                self.forecast = None;
            }
            self.begin(head, places, now, plan);
        }
    }

    /// The places that a unit would get now.
    pub(crate) fn find(&mut self, id: UnitId) -> Option<Places> {
        let unit = &self.entries[id.index()].unit;
        self.find_for(unit.shape, unit.tasks)
    }

    fn find_for(&mut self, shape: ShapeId, tasks: u32) -> Option<Places> {
        if self.hopeless(shape, tasks) {
            return None;
        }
        let known = &self.shapes[shape.index()];
        let places = self.nodes.find(&known.need, tasks, known.most, Search::All);
        if places.is_none() {
            self.failed(shape, tasks);
        }
        places
    }

    pub(crate) fn begin(&mut self, id: UnitId, places: Places, now: Timestamp, plan: &mut Plan) {
        if let Some(forecast) = &mut self.forecast {
            let entry = &self.entries[id.index()];
            let in_time = length(entry) <= slack(now, forecast.at);
            if !in_time {
                forecast.outlived_by(&self.shapes[entry.unit.shape.index()].need, &places);
            }
            // One that goes before the holder has taken what the holder counted on.
            if !forecast.holds() {
                self.forget_reservation();
            }
        }
        self.start(id, places, now);
        plan.starts.push(Start { unit: id, after: Vec::new() });
    }

    /// Sees to it that the forecast is that of the unit, as of now.
    pub(crate) fn reserve(&mut self, id: UnitId, now: Timestamp) {
        let valid = |forecast: &Forecast| forecast.holder == id && forecast.at.is_some_and(|at| at >= now);
        if self.forecast.as_ref().is_some_and(valid) {
            return;
        }
        self.forecast = Some(self.forecast_without(id, &[], now));
    }

    /// What is expected for the unit if some of what runs were gone already.
    pub(crate) fn forecast_without(&self, id: UnitId, gone: &[UnitId], now: Timestamp) -> Forecast {
        let unit = &self.entries[id.index()].unit;
        let holder = Holder { unit: id, need: &self.shapes[unit.shape.index()].need, tasks: unit.tasks };
        let nothing = Places::default();
        Forecast::new(holder, &self.nodes, &self.ends, now, |running| {
            let entry = &self.entries[running.index()];
            let places = if gone.contains(&running) { &nothing } else { &entry.places };
            (&self.shapes[entry.unit.shape.index()].need, places)
        })
    }

    /// Starts all that fit.
    fn let_all_pass(&mut self, now: Timestamp, plan: &mut Plan) {
        let mut turns = BinaryHeap::new();
        for class in &self.lines.active {
            let first = self.lines.classes[*class as usize].lines.first().and_then(|line| line.order.first());
            turns.extend(first.map(|first| Reverse((*first, *class))));
        }
        while let Some(Reverse((key, class))) = turns.pop() {
            // Room only shrinks during a pass: a class that finds none is not asked again.
            let Some(places) = self.find(key.unit) else { continue };
            self.begin(key.unit, places, now, plan);
            let next = self.lines.classes[class as usize].lines[0].order.first();
            turns.extend(next.map(|next| Reverse((*next, class))));
        }
    }

    /// Starts those that may pass the holder of the reservation, each looked at once and in their order.
    fn let_some_pass(&mut self, now: Timestamp, plan: &mut Plan) {
        let mut after = None;
        let mut active = std::mem::take(&mut self.active);
        active.clone_from(&self.lines.active);
        loop {
            let mut first: Option<(Turn, Places)> = None;
            active.retain(|number| {
                let class = &self.lines.classes[*number as usize];
                let (shape, tasks) = (class.shape, class.tasks);
                let places = self.find_for(shape, tasks);
                if let Some(places) = &places
                    && let Some(turn) = self.turn(*number, places, after, now)
                    && first.as_ref().is_none_or(|(other, _)| turn < *other)
                {
                    first = Some((turn, places.clone()));
                }
                // Room only shrinks during a pass.
                places.is_some()
            });
            let Some((turn, places)) = first else { break };
            self.begin(turn.1.unit, places, now, plan);
            after = Some(turn);
        }
        self.active = active;
    }

    /// The first of a class that may start now on these places, among those that come after a turn.
    fn turn(&self, class: u32, places: &Places, after: Option<Turn>, now: Timestamp) -> Option<Turn> {
        let class = &self.lines.classes[class as usize];
        let forecast = self.forecast.as_ref()?;
        let slack = slack(now, forecast.at);
        let roomy = forecast.permits(&self.shapes[class.shape.index()].need, places);
        let line = class.lines.first()?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        match self.passing {
            Passing::ShortestFirst => {
                let first = line.by_length.range((from, Bound::Unbounded)).next();
                first.filter(|(length, _)| roomy || *length <= slack).copied()
            }
            Passing::InOrder if roomy => {
                let from = after.map_or(Bound::Unbounded, |(_, key)| Bound::Excluded(key));
                line.order.range((from, Bound::Unbounded)).next().map(|key| (Span::ZERO, *key))
            }
            Passing::InOrder => {
                let short = line.by_length.iter().take_while(|(length, _)| *length <= slack);
                short.map(|(_, key)| (Span::ZERO, *key)).filter(|turn| Some(*turn) > after).min()
            }
            Passing::Nobody | Passing::Everybody => None,
        }
    }
}
