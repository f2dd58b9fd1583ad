//! Quotas: what each queue may still start, given what all queues of its tree use.
//!
//! Of what is its own a queue keeps back what it does not lend; the rest goes to its parent, from which it and
//! the others take as they need. What it may take is what is left of the part it kept, and of what its parent
//! has, up to the limit of its borrowing.
//!
//! Guarantees, as long as only what has room is taken: the queues of a tree never use more than their nominal
//! amounts in all; no queue uses more than its own and the limit of its borrowing; others never use the part
//! of a queue's own that it does not lend; work that is not preemptible stays within what is its queue's own.

use std::collections::{BTreeSet, HashMap};

use muster_domain::{Amounts, Borrower, Dimension, Queue, QueueName, QuotaRoom, Resources, Terms};

use crate::promise::Promise;

/// Jobs of one kind that take room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// `None` for jobs without a queue.
    pub queue: Option<QueueName>,
    /// Of one job.
    pub need: Resources,
    /// Not preemptible.
    pub fixed: bool,
    pub jobs: u32,
}

/// Amounts by the place of their dimension in the ledger.
pub type Row = Vec<u64>;

/// A queue in the ledger. `below` means: of it and all queues below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) name: Option<QueueName>,
    pub(crate) parent: Option<usize>,
    pub(crate) root: usize,
    pub(crate) weight_milli: u32,
    pub(crate) nominal: Row,
    pub(crate) borrow: Vec<Option<u64>>,
    /// Nominal amounts below.
    pub(crate) nominal_below: Row,
    /// What it and all below it bring along, of which `kept` is never lent.
    quota: Row,
    kept: Row,
    pub(crate) own: Row,
    /// Its own use, and of each queue below what exceeds the part that it kept.
    drawn: Row,
    pub(crate) used_below: Row,
    /// Whose own it uses: its own, or that of the nearest queue above it that has some. A queue without
    /// anything of a kind belongs to the household of that one.
    owner: Vec<Option<usize>>,
    /// What the household uses, and how much of it is not preemptible.
    house: Row,
    pub(crate) house_fixed: Row,
    pub(crate) jobs: u64,
    pub(crate) jobs_below: u64,
    /// Of a root: a queue of the tree takes back what it lent, and nobody borrows.
    closed: bool,
}

/// What all queues have and use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    pub(crate) dimensions: Vec<Dimension>,
    pub(crate) seats: Vec<Seat>,
    names: HashMap<QueueName, usize>,
    /// The seat of jobs without a queue.
    nameless: Option<usize>,
    /// What the workers have, by dimension, and their slots; zero where it is not known.
    pub(crate) capacity: Row,
    pub(crate) slots: u64,
    /// What is not used yet, but promised.
    pub(crate) promises: Vec<Promise>,
}

impl Ledger {
    /// A ledger of these queues and of all others that hold something. Parents that are missing count as none.
    pub fn new(queues: &[Queue], held: &[Held]) -> Self {
        let mut dimensions: BTreeSet<Dimension> =
            [Dimension::CpuMillis, Dimension::MemoryMb, Dimension::VramMb, Dimension::Gpus].into();
        let named = queues.iter().filter_map(|queue| queue.terms.nominal.as_ref());
        dimensions.extend(named.flat_map(Amounts::iter).map(|(dimension, _)| dimension.clone()));
        let dimensions: Vec<Dimension> = dimensions.into_iter().collect();
        let capacity = vec![0; dimensions.len()];
        let mut ledger = Self { dimensions, capacity, ..Self::default() };
        for queue in queues {
            ledger.add(Some(queue.name.clone()), Some(queue));
        }
        for queue in queues {
            let parent = queue.terms.parent.as_ref().and_then(|parent| ledger.seat(Some(parent)));
            if let (Some(seat), Some(parent)) = (ledger.seat(Some(&queue.name)), parent) {
                ledger.seats[seat].parent = Some(parent);
            }
        }
        ledger.bring_along(queues);
        for seat in (0..queues.len()).filter(|seat| queues[*seat].takes_back) {
            let root = ledger.seats[seat].root;
            ledger.seats[root].closed = true;
        }
        ledger.note_promises(queues);
        for held in held {
            let seat = ledger.seat_or_add(held.queue.as_ref());
            ledger.take(seat, &ledger.row(&held.need), held.fixed, held.jobs);
        }
        ledger
    }

    /// Tells what the workers have in all; shares of what no quota bounds are measured by it.
    #[must_use]
    pub fn with_capacity<'r>(mut self, workers: impl Iterator<Item = (&'r Resources, Option<u32>)>) -> Self {
        for (total, slots) in workers {
            for (sum, amount) in self.capacity.iter_mut().zip(row(&self.dimensions, total)) {
                *sum = sum.saturating_add(amount);
            }
            self.slots = self.slots.saturating_add(u64::from(slots.unwrap_or(0)));
        }
        self
    }

    /// The name of the queue at a place; `None` for jobs without a queue.
    pub fn name(&self, seat: usize) -> Option<&QueueName> {
        self.seats.get(seat)?.name.as_ref()
    }

    /// The place of a queue.
    pub fn seat(&self, queue: Option<&QueueName>) -> Option<usize> {
        match queue {
            Some(queue) => self.names.get(queue).copied(),
            None => self.nameless,
        }
    }

    /// The place of a queue, which is one without terms if it was not there before.
    pub fn seat_or_add(&mut self, queue: Option<&QueueName>) -> usize {
        self.seat(queue).unwrap_or_else(|| self.add(queue.cloned(), None))
    }

    fn add(&mut self, name: Option<QueueName>, queue: Option<&Queue>) -> usize {
        let seat = self.seats.len();
        let zero = || vec![0; self.dimensions.len()];
        let amounts = |amounts: Option<&Amounts>| -> Vec<Option<u64>> {
            self.dimensions.iter().map(|dimension| amounts?.get(dimension)).collect()
        };
        let terms = queue.map(|queue| &queue.terms);
        let nominal = amounts(terms.and_then(|terms| terms.nominal.as_ref()));
        self.seats.push(Seat {
            name: name.clone(),
            parent: None,
            root: seat,
            weight_milli: terms.map_or(1000, Terms::weight_milli).max(1),
            nominal: nominal.into_iter().map(|amount| amount.unwrap_or(0)).collect(),
            borrow: amounts(terms.and_then(|terms| terms.borrow.as_ref())),
            nominal_below: zero(),
            quota: vec![if queue.is_some() { 0 } else { u64::MAX }; self.dimensions.len()],
            kept: zero(),
            own: zero(),
            drawn: zero(),
            used_below: zero(),
            owner: vec![None; self.dimensions.len()],
            house: zero(),
            house_fixed: zero(),
            jobs: 0,
            jobs_below: 0,
            closed: false,
        });
        match name {
            Some(name) => {
                self.names.insert(name, seat);
            }
            None => self.nameless = Some(seat),
        }
        seat
    }

    /// Works out, from the lowest queues up, what each brings along, and which kinds are bounded at all: one
    /// that no queue of the tree names is left without an end.
    fn bring_along(&mut self, queues: &[Queue]) {
        let mut order: Vec<usize> = (0..self.seats.len()).collect();
        order.sort_by_key(|seat| std::cmp::Reverse(self.way_up(*seat).count()));
        for seat in &order {
            self.seats[*seat].root = self.way_up(*seat).last().unwrap_or(*seat);
            let nearest = |place| self.way_up(*seat).find(|at| self.seats[*at].nominal[place] > 0);
            self.seats[*seat].owner = (0..self.dimensions.len()).map(nearest).collect();
        }
        for place in 0..self.dimensions.len() {
            let named: HashMap<usize, bool> = self.named(queues, place);
            for seat in &order {
                let root = self.seats[*seat].root;
                let this = &mut self.seats[*seat];
                if named.get(&root) != Some(&true) {
                    (this.quota[place], this.kept[place]) = (u64::MAX, 0);
                    continue;
                }
                this.quota[place] = this.quota[place].saturating_add(this.nominal[place]);
                this.nominal_below[place] = this.nominal_below[place].saturating_add(this.nominal[place]);
                let lend = queues.get(*seat).and_then(|queue| queue.terms.lend.as_ref());
                let lend = lend.and_then(|lend| lend.get(&self.dimensions[place])).unwrap_or(u64::MAX);
                this.kept[place] = this.quota[place].saturating_sub(lend);
                let (all, given) = (this.nominal_below[place], this.quota[place] - this.kept[place]);
                if let Some(parent) = this.parent {
                    let parent = &mut self.seats[parent];
                    parent.quota[place] = parent.quota[place].saturating_add(given);
                    parent.nominal_below[place] = parent.nominal_below[place].saturating_add(all);
                }
            }
        }
    }

    fn named(&self, queues: &[Queue], place: usize) -> HashMap<usize, bool> {
        let mut named: HashMap<usize, bool> = HashMap::new();
        for (seat, queue) in queues.iter().enumerate() {
            let nominal = queue.terms.nominal.as_ref();
            let says = nominal.is_some_and(|nominal| nominal.get(&self.dimensions[place]).is_some());
            *named.entry(self.seats[seat].root).or_default() |= says;
        }
        named
    }

    /// A queue and those above it. Ends after as many steps as there are queues, whatever the parents say.
    pub(crate) fn way_up(&self, seat: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(seat), |at| self.seats[*at].parent).take(self.seats.len())
    }

    /// Amounts in the order of the ledger.
    pub fn row(&self, resources: &Resources) -> Row {
        row(&self.dimensions, resources)
    }

    pub(crate) fn is_bounded(&self, seat: usize, place: usize) -> bool {
        self.seats[seat].quota[place] != u64::MAX
    }

    /// Whether the tree of a queue bounds every kind that is needed.
    pub fn bounds_all(&self, seat: usize, need: &[u64]) -> bool {
        need.iter().enumerate().all(|(place, need)| *need == 0 || self.is_bounded(seat, place))
    }

    /// What a queue may still take of one kind; without an end where its tree does not bound it.
    fn available(&self, seat: usize, place: usize) -> u64 {
        let this = &self.seats[seat];
        let (quota, kept, drawn) = (this.quota[place], this.kept[place], this.drawn[place]);
        if quota == u64::MAX {
            return u64::MAX;
        }
        let Some(parent) = this.parent else { return quota.saturating_sub(drawn) };
        let left = kept.saturating_sub(drawn);
        let most = this.borrow[place].map_or(u64::MAX, |borrow| {
            (quota - kept).saturating_add(borrow).saturating_sub(drawn.saturating_sub(kept))
        });
        left.saturating_add(self.available(parent, place).min(most))
    }

    /// What is the queue's own, as one of its household, and not used.
    fn own_left(&self, seat: usize, place: usize, used: impl Fn(&Seat) -> u64) -> u64 {
        let owner = self.seats[seat].owner[place].map(|owner| &self.seats[owner]);
        owner.map_or(0, |owner| owner.nominal[place].saturating_sub(used(owner)))
    }

    /// How many jobs that need this much the quota lets start.
    pub fn room(&self, seat: usize, need: &[u64], fixed: bool) -> u32 {
        let times = |(place, need): (usize, &u64)| {
            let available = self.may_take(seat, place, fixed);
            (*need > 0 && available != u64::MAX).then(|| available / need)
        };
        let fewest = need.iter().enumerate().filter_map(times).min().unwrap_or(u64::MAX);
        u32::try_from(fewest).unwrap_or(u32::MAX)
    }

    fn may_take(&self, seat: usize, place: usize, fixed: bool) -> u64 {
        let mut available = self.available(seat, place);
        if available == u64::MAX {
            return available;
        }
        if fixed {
            available = available.min(self.own_left(seat, place, |owner| owner.house_fixed[place]));
        }
        if self.seats[self.seats[seat].root].closed {
            available = available.min(self.own_left(seat, place, |owner| owner.house[place]));
        }
        available
    }

    /// Whether so much more stays within what is the queue's own.
    pub fn is_within_own(&self, seat: usize, need: &[u64]) -> bool {
        let bounded = |(place, need): &(usize, &u64)| **need > 0 && self.is_bounded(seat, *place);
        need.iter()
            .enumerate()
            .filter(bounded)
            .all(|(place, need)| *need <= self.own_left(seat, place, |owner| owner.house[place]))
    }

    /// Counts jobs that start, each of which needs this much.
    pub fn take(&mut self, seat: usize, need: &[u64], fixed: bool, jobs: u32) {
        for (place, need) in need.iter().enumerate() {
            let amount = need.saturating_mul(u64::from(jobs));
            add(&mut self.seats[seat].own[place], amount);
            if let Some(owner) = self.seats[seat].owner[place] {
                add(&mut self.seats[owner].house[place], amount);
                add(&mut self.seats[owner].house_fixed[place], if fixed { amount } else { 0 });
            }
            let (mut at, mut drawn) = (Some(seat), amount);
            while let Some(seat) = at.map(|at| &mut self.seats[at]) {
                let before = seat.drawn[place].saturating_sub(seat.kept[place]);
                add(&mut seat.drawn[place], drawn);
                drawn = seat.drawn[place].saturating_sub(seat.kept[place]) - before;
                add(&mut seat.used_below[place], amount);
                at = seat.parent;
            }
        }
        self.seats[seat].jobs += u64::from(jobs);
        let way: Vec<usize> = self.way_up(seat).collect();
        for seat in way {
            self.seats[seat].jobs_below += u64::from(jobs);
        }
    }

    /// Counts jobs that end: the reverse of [`Self::take`].
    pub fn give_back(&mut self, seat: usize, need: &[u64], fixed: bool, jobs: u32) {
        let less = |sum: &mut u64, amount: u64| *sum = sum.saturating_sub(amount);
        for (place, need) in need.iter().enumerate() {
            let amount = need.saturating_mul(u64::from(jobs));
            less(&mut self.seats[seat].own[place], amount);
            if let Some(owner) = self.seats[seat].owner[place] {
                less(&mut self.seats[owner].house[place], amount);
                less(&mut self.seats[owner].house_fixed[place], if fixed { amount } else { 0 });
            }
            let (mut at, mut drawn) = (Some(seat), amount);
            while let Some(seat) = at.map(|at| &mut self.seats[at]) {
                let before = seat.drawn[place].saturating_sub(seat.kept[place]);
                less(&mut seat.drawn[place], drawn);
                drawn = before - seat.drawn[place].saturating_sub(seat.kept[place]);
                less(&mut seat.used_below[place], amount);
                at = seat.parent;
            }
        }
        let jobs = u64::from(jobs);
        less(&mut self.seats[seat].jobs, jobs);
        let way: Vec<usize> = self.way_up(seat).collect();
        for seat in way {
            less(&mut self.seats[seat].jobs_below, jobs);
        }
    }

    /// What a queue uses beyond its own, of the kinds that its tree bounds: what the owners may ask back.
    pub fn over_quota(&self, seat: usize) -> Amounts {
        let over = self.bounded(seat).map(|place| (self.dimensions[place].clone(), self.over(seat, place)));
        over.filter(|(_, over)| *over > 0).collect()
    }

    pub(crate) fn over(&self, seat: usize, place: usize) -> u64 {
        let this = &self.seats[seat];
        let owner = this.owner[place].map(|owner| &self.seats[owner]);
        let over = owner.map(|owner| owner.house[place].saturating_sub(owner.nominal[place]));
        over.map_or(this.own[place], |over| over.min(this.own[place]))
    }

    fn bounded(&self, seat: usize) -> impl Iterator<Item = usize> {
        (0..self.dimensions.len()).filter(move |place| self.is_bounded(seat, *place))
    }

    /// How much of a queue's own others use at the least: what it brought along, does not use itself, and can
    /// no longer take.
    pub fn lent(&self, seat: usize) -> Amounts {
        let this = &self.seats[seat];
        let idle = |place: usize| this.nominal_below[place].saturating_sub(this.used_below[place]);
        let lent = |place: usize| idle(place).saturating_sub(self.available(seat, place));
        let all = self.bounded(seat).map(|place| (self.dimensions[place].clone(), lent(place)));
        all.filter(|(_, lent)| *lent > 0).collect()
    }

    /// What a queue uses itself, of the kinds that it uses or that its tree bounds.
    pub fn used(&self, seat: usize) -> Amounts {
        self.shown(seat, &self.seats[seat].own)
    }

    /// The same with all queues below it.
    pub fn used_below(&self, seat: usize) -> Amounts {
        self.shown(seat, &self.seats[seat].used_below)
    }

    fn shown(&self, seat: usize, row: &[u64]) -> Amounts {
        let places = (0..self.dimensions.len()).filter(|place| {
            let named = self.is_bounded(seat, *place) && self.seats[seat].nominal_below[*place] > 0;
            row[*place] > 0 || named
        });
        places.map(|place| (self.dimensions[place].clone(), row[place])).collect()
    }

    /// Jobs of a queue, and with all below it, that take room.
    pub fn jobs(&self, seat: usize) -> (u64, u64) {
        (self.seats[seat].jobs, self.seats[seat].jobs_below)
    }

    /// Every kind of which the quota does not let so many jobs of this need start, with the numbers.
    pub fn lacking(&self, seat: usize, need: &[u64], fixed: bool, jobs: u32) -> Vec<QuotaRoom> {
        let missing = |(place, need): (usize, &u64)| {
            let needed = need.saturating_mul(u64::from(jobs));
            let available = self.may_take(seat, place, fixed);
            (needed > available).then(|| self.numbers(seat, place, (needed, available), fixed))?
        };
        need.iter().enumerate().filter_map(missing).collect()
    }

    fn numbers(
        &self,
        seat: usize,
        place: usize,
        (needed, available): (u64, u64),
        fixed: bool,
    ) -> Option<QuotaRoom> {
        let this = &self.seats[seat];
        let root = &self.seats[this.root];
        let borrower = |at: usize| {
            let (other, over) = (&self.seats[at], self.over(at, place));
            let queue = other.name.clone().filter(|_| over > 0 && other.root == this.root)?;
            Some(Borrower { queue, used: other.own[place], nominal: other.own[place] - over })
        };
        let mut borrowers: Vec<Borrower> = (0..self.seats.len()).filter_map(borrower).collect();
        borrowers.sort_by_key(|borrower| std::cmp::Reverse(borrower.used - borrower.nominal));
        Some(QuotaRoom {
            queue: this.name.clone()?,
            dimension: self.dimensions[place].clone(),
            needed,
            available,
            used: this.own[place],
            nominal: this.nominal[place],
            borrow: this.borrow[place],
            tree_nominal: root.nominal_below[place],
            tree_used: root.used_below[place],
            fixed: fixed && self.available(seat, place) >= needed,
            borrowers,
        })
    }
}

fn row(dimensions: &[Dimension], resources: &Resources) -> Row {
    dimensions.iter().map(|dimension| resources.get(dimension)).collect()
}

fn add(sum: &mut u64, amount: u64) {
    *sum = sum.saturating_add(amount);
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
