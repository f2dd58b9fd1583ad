//! One pass over pending singles: each goes to the best worker that asks and has room.

use std::collections::{BTreeMap, HashSet};

use muster_domain::{Grant, PoolAt, Requirement, Turn, Unit, WorkerId};

use crate::fit::WorkerView;
use crate::order::Candidate;
use crate::policy::{Policies, turn_in_passing};
use crate::promise::Wish;
use crate::quota::Ledger;
use crate::score::{self, Scoring};
use crate::share::{Contender, Turns};

/// What a pass looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    pub workers: Vec<WorkerView>,
    /// In any order; the pass sorts them.
    pub candidates: Vec<Candidate>,
    /// How many more jobs may start under each limit (a concurrency key, the rate of a queue).
    pub limits: Vec<u32>,
    /// What queues have and use, where one of those in play has a quota, a weight or a parent.
    pub ledger: Option<Ledger>,
}

/// A decision: positions in the view's lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    pub candidate: usize,
    pub worker: usize,
    /// GPUs of the worker, where they are known one by one.
    pub devices: Option<Grant>,
}

/// Places as many candidates as the asking workers take: most important first, or in turn by queue where a
/// ledger is kept.
pub fn place(view: &View, policies: &Policies) -> Vec<Placement> {
    let mut pass = Pass::new(view, policies.scoring());
    if let Some(ledger) = &view.ledger {
        pass.in_turn(ledger.clone(), policies);
        return pass.placements;
    }
    let mut order: Vec<usize> = (0..view.candidates.len()).collect();
    order.sort_by_key(|index| view.candidates[*index].key());
    let holders = first_holders(&view.workers);
    let is_behind = |at: usize| {
        let candidate = &view.candidates[at];
        holders.get(&candidate.pool).is_some_and(|first| *first < candidate.turn())
    };
    let (ahead, mut behind): (Vec<usize>, Vec<usize>) = order.into_iter().partition(|at| !is_behind(*at));
    let mut moved_on: HashSet<Turn> = HashSet::new();
    for index in ahead {
        if pass.try_place(index) {
            moved_on.insert(view.candidates[index].turn());
        }
    }
    behind.sort_by_key(|index| {
        let candidate = &view.candidates[*index];
        // Where the one that room was kept for has started, nobody passes it: the others go in their order.
        let passes = holders.get(&candidate.pool).is_some_and(|holder| !moved_on.contains(holder));
        let turn = passes.then(|| turn_in_passing(policies.at(candidate.pool).passing(), candidate.ends));
        (candidate.pool, turn, candidate.key())
    });
    for index in behind {
        if pass.wanted == 0 {
            break;
        }
        pass.try_place(index);
    }
    pass.placements
}

/// The place in the line of the first unit of each pool that room is kept for.
pub(crate) fn first_holders(workers: &[WorkerView]) -> BTreeMap<PoolAt, Turn> {
    let mut holders: BTreeMap<PoolAt, Turn> = BTreeMap::new();
    for room in workers.iter().filter_map(|worker| worker.kept.as_ref()) {
        let first = holders.entry(room.pool).or_insert(room.turn());
        *first = (*first).min(room.turn());
    }
    holders
}

/// What is left while the pass goes on.
struct Pass<'v> {
    view: &'v View,
    scoring: Scoring,
    workers: Vec<WorkerView>,
    wanted: u64,
    limits: Vec<u32>,
    /// Whether some worker keeps room, so that who asks makes a difference.
    keeping: bool,
    /// Room only shrinks during a pass, so a requirement that found none need not be tried again.
    hopeless: HashSet<&'v Requirement>,
    placements: Vec<Placement>,
}

impl<'v> Pass<'v> {
    fn new(view: &'v View, scoring: Scoring) -> Self {
        Self {
            view,
            scoring,
            workers: view.workers.clone(),
            wanted: view.workers.iter().map(|worker| u64::from(worker.wants)).sum(),
            limits: view.limits.clone(),
            keeping: view.workers.iter().any(|worker| worker.kept.is_some()),
            hopeless: HashSet::new(),
            placements: Vec::new(),
        }
    }

    /// Places each whose turn it is, within the quota of its queue.
    fn in_turn(&mut self, mut ledger: Ledger, policies: &Policies) {
        let view = self.view;
        let seats: Vec<usize> =
            view.candidates.iter().map(|c| c.seat.unwrap_or_else(|| ledger.seat_or_add(None))).collect();
        let contender = |(candidate, seat): (&Candidate, &usize)| Contender {
            seat: *seat,
            pool: candidate.pool,
            priority: candidate.priority,
            rank: candidate.rank,
            age: candidate.seq,
            need: ledger.row(&candidate.requirement.resources),
            jobs: 1,
        };
        let needs: Vec<Contender> = view.candidates.iter().zip(&seats).map(contender).collect();
        let mut turns = Turns::new(needs.clone(), policies);
        // Quotas only shrink during a pass too.
        let mut spent: HashSet<(usize, &Requirement, bool)> = HashSet::new();
        while self.wanted > 0 {
            let hopeless = |at: usize| {
                let candidate = &view.candidates[at];
                self.hopeless.contains(&candidate.requirement)
                    || spent.contains(&(seats[at], &candidate.requirement, candidate.fixed))
            };
            let Some(at) = turns.next(&ledger, hopeless) else { return };
            let (candidate, seat, need) = (&view.candidates[at], seats[at], &needs[at].need);
            let unit = Unit::Job(candidate.id);
            let wish = Wish { unit: Some(unit), seat, need, jobs: 1, fixed: candidate.fixed };
            if ledger.room_beside(&wish) == 0 {
                // Where something is promised, who asks makes a difference.
                if !ledger.has_promises() {
                    spent.insert((seat, &candidate.requirement, candidate.fixed));
                }
            } else if self.try_place(at) {
                ledger.keep_promise(unit);
                ledger.take(seat, need, candidate.fixed, 1);
            }
        }
    }

    fn try_place(&mut self, index: usize) -> bool {
        if self.wanted == 0 {
            return false;
        }
        let candidate = &self.view.candidates[index];
        let need = &candidate.requirement;
        let exhausted = candidate.limits.iter().any(|limit| self.limits.get(*limit) == Some(&0));
        if exhausted || self.hopeless.contains(need) {
            return false;
        }
        let Some(chosen) = best(&self.workers, candidate, self.scoring) else {
            if !self.keeping {
                self.hopeless.insert(need);
            }
            return false;
        };
        let devices = self.workers[chosen].take(need);
        self.workers[chosen].enter(&candidate.entrant());
        for limit in &candidate.limits {
            if let Some(left) = self.limits.get_mut(*limit) {
                *left -= 1;
            }
        }
        self.wanted -= 1;
        self.placements.push(Placement { candidate: index, worker: chosen, devices });
        true
    }
}

fn best(workers: &[WorkerView], candidate: &Candidate, scoring: Scoring) -> Option<usize> {
    let (need, entrant) = (&candidate.requirement, candidate.entrant());
    let avoided =
        |worker: &WorkerView| worker.id.as_ref().is_some_and(|id: &WorkerId| candidate.avoid.contains(id));
    let takes =
        |worker: &WorkerView| worker.wants > 0 && worker.has_room_for(need) && worker.admits(&entrant);
    (0..workers.len()).filter(|index| takes(&workers[*index])).min_by(|a, b| {
        let (a, b) = (&workers[*a], &workers[*b]);
        let cost = |worker: &WorkerView| (avoided(worker), score::share_cost(need, worker));
        cost(a).cmp(&cost(b)).then_with(|| score::compare(scoring, a, b))
    })
}

#[cfg(test)]
mod tests {
    use muster_domain::{
        Device, Dimension, JobId, KeptRoom, Queue, QueueName, Resources, Timestamp, WorkerId,
    };
    use proptest::prelude::*;

    use super::*;
    use crate::devices::Devices;
    use crate::policy::{Policy, PolicyName};

    fn need(memory_mb: u64) -> Requirement {
        Requirement { resources: Resources { memory_mb, ..Resources::default() }, ..Requirement::default() }
    }

    fn worker(name: &str, memory_mb: u64, wants: u32) -> WorkerView {
        WorkerView {
            id: Some(WorkerId::new(name)),
            total: Some(need(memory_mb).resources),
            used: Resources::default(),
            running: 0,
            slots: None,
            wants,
            ..WorkerView::default()
        }
    }

    fn candidate(seq: u64, priority: i32, memory_mb: u64) -> Candidate {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seq.to_be_bytes());
        Candidate {
            id: JobId::from_random(bytes),
            priority,
            pool: muster_domain::PoolAt::default(),
            rank: -i64::from(priority),
            seq,
            requirement: need(memory_mb),
            limits: Vec::new(),
            avoid: Vec::new(),
            seat: None,
            fixed: false,
            ends: None,
        }
    }

    fn placed(view: &View) -> Vec<(u64, String)> {
        place(view, &Policies::default())
            .into_iter()
            .map(|p| {
                (view.candidates[p.candidate].seq, view.workers[p.worker].id.clone().unwrap().into_string())
            })
            .collect()
    }

    #[test]
    fn priority_then_age_decides_who_goes_first() {
        let candidates =
            vec![candidate(1, 0, 10), candidate(2, 5, 10), candidate(3, 5, 10), candidate(4, -1, 10)];
        let view = View { workers: vec![worker("w", 100, 3)], candidates, ..View::default() };
        let order: Vec<u64> = placed(&view).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(order, [2, 3, 1]);
    }

    #[test]
    fn those_that_pass_are_tried_shortest_first_where_the_policy_says_so() {
        let unit = muster_domain::Unit::Job(JobId::from_random([9; 16]));
        let at = |secs: u32| Timestamp::default() + muster_domain::Span::from_secs(secs);
        let kept = KeptRoom {
            unit,
            priority: 0,
            pool: muster_domain::PoolAt::default(),
            rank: 0,
            seq: 2,
            tasks: 1,
            resources: Resources::default(),
            until: Some(at(100)),
            spare: Resources::default(),
            spare_slots: None,
        };
        let keeps = WorkerView { kept: Some(kept), ..worker("w", 100, 3) };
        let ends = |seq, secs| Candidate { ends: Some(at(secs)), ..candidate(seq, 0, 10) };
        let candidates = vec![ends(1, 900), ends(3, 90), ends(4, 30), ends(5, 101), ends(6, 60)];
        let view = View { workers: vec![keeps], candidates, ..View::default() };
        let order = |name| -> Vec<u64> {
            let placements = place(&view, &Policy::named(name).into());
            placements.iter().map(|p| view.candidates[p.candidate].seq).collect()
        };
        assert_eq!(order(PolicyName::Muster), [1, 4, 6]);
        assert_eq!(order(PolicyName::EasySjbf), [1, 4, 6]);
        assert_eq!(order(PolicyName::Easy), [1, 3, 4]);
    }

    #[test]
    fn a_quota_holds_under_every_policy_but_only_muster_lets_queues_take_turns() {
        let terms = |nominal: u64| muster_domain::Terms {
            parent: Some(QueueName::new("lab")),
            nominal: Some([(Dimension::MemoryMb, nominal)].into_iter().collect()),
            ..muster_domain::Terms::default()
        };
        let queue = |name: &str, nominal| Queue { terms: terms(nominal), ..Queue::new(QueueName::new(name)) };
        let ledger = Ledger::new(&[queue("a", 20), queue("b", 20), Queue::new(QueueName::new("lab"))], &[]);
        let of = |seat, seq| Candidate { seat: Some(seat), ..candidate(seq, 0, 10) };
        let candidates = vec![of(0, 1), of(0, 2), of(0, 3), of(1, 4), of(1, 5)];
        let view =
            View { workers: vec![worker("w", 30, 9)], candidates, ledger: Some(ledger), ..View::default() };
        let order = |name| -> Vec<u64> {
            let placements = place(&view, &Policy::named(name).into());
            placements.iter().map(|p| view.candidates[p.candidate].seq).collect()
        };
        assert_eq!(order(PolicyName::Muster), [1, 2, 4], "its own before what is borrowed");
        assert_eq!(order(PolicyName::Greedy), [1, 2, 3], "in the order of submission, what is lent included");
    }

    #[test]
    fn work_that_does_not_fit_never_hides_work_that_does() {
        let view = View {
            workers: vec![worker("w", 100, 9)],
            candidates: vec![candidate(1, 9, 999_999), candidate(2, 0, 60), candidate(3, 0, 60)],
            ..View::default()
        };
        assert_eq!(placed(&view), [(2, "w".to_owned())]);
    }

    #[test]
    fn a_worker_that_does_not_ask_gets_nothing() {
        let view = View {
            workers: vec![worker("silent", 100, 0), worker("asks", 500, 1)],
            candidates: vec![candidate(1, 0, 10)],
            ..View::default()
        };
        assert_eq!(placed(&view), [(1, "asks".to_owned())]);
    }

    #[test]
    fn tags_are_required_of_registered_workers_and_not_of_unknown_claimers() {
        let mut tagged = candidate(1, 0, 0);
        tagged.requirement.tags.insert("a100".to_owned());
        let view = View {
            workers: vec![worker("plain", 10, 1)],
            candidates: vec![tagged.clone()],
            ..View::default()
        };
        assert_eq!(placed(&view), []);
        let anonymous = WorkerView { total: None, id: Some(WorkerId::new("anyone")), ..worker("x", 0, 1) };
        assert_eq!(
            placed(&View { workers: vec![anonymous], candidates: vec![tagged], ..View::default() }).len(),
            1
        );
    }

    #[test]
    fn a_limit_that_is_used_up_lets_others_pass() {
        let limited = |seq| Candidate { limits: vec![0], ..candidate(seq, 5, 1) };
        let candidates = vec![limited(1), limited(2), candidate(3, 0, 1)];
        let view = View { workers: vec![worker("w", 100, 9)], candidates, limits: vec![1], ledger: None };
        let order: Vec<u64> = placed(&view).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(order, [1, 3]);
    }

    #[test]
    fn another_worker_is_preferred_after_a_failure() {
        let again = Candidate { avoid: vec![WorkerId::new("a")], ..candidate(1, 0, 1) };
        let both = vec![worker("a", 5, 1), worker("b", 500, 1)];
        let view = View { workers: both, candidates: vec![again.clone()], ..View::default() };
        assert_eq!(placed(&view), [(1, "b".to_owned())]);
        let alone = View { workers: vec![worker("a", 5, 1)], candidates: vec![again], ..View::default() };
        assert_eq!(placed(&alone), [(1, "a".to_owned())]);
    }

    #[test]
    fn a_quota_bounds_what_is_placed_and_queues_take_turns() {
        let terms = |nominal: u64| muster_domain::Terms {
            parent: Some(QueueName::new("lab")),
            nominal: Some([(Dimension::MemoryMb, nominal)].into_iter().collect()),
            ..muster_domain::Terms::default()
        };
        let queue = |name: &str, nominal| Queue { terms: terms(nominal), ..Queue::new(QueueName::new(name)) };
        let ledger = Ledger::new(&[queue("a", 20), queue("b", 10), Queue::new(QueueName::new("lab"))], &[]);
        let of = |seat, seq| Candidate { seat: Some(seat), ..candidate(seq, 0, 10) };
        let candidates = vec![of(0, 1), of(0, 2), of(0, 3), of(0, 4), of(1, 5), of(1, 6)];
        let view =
            View { workers: vec![worker("w", 1000, 9)], candidates, ledger: Some(ledger), ..View::default() };
        let order: Vec<u64> = placed(&view).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(order, [1, 2, 5], "each its own, and nothing is left to borrow");
        let one_more = View { workers: vec![worker("w", 20, 9)], ..view };
        let order: Vec<u64> = placed(&one_more).into_iter().map(|(seq, _)| seq).collect();
        assert_eq!(order, [1, 2]);
    }

    fn with_gpus(name: &str, sizes: &[u64]) -> WorkerView {
        let device = |(index, vram_mb): (u32, &u64)| Device { index, vram_mb: *vram_mb, ..Device::default() };
        let devices: Vec<Device> = (0..).zip(sizes).map(device).collect();
        let view = worker(name, 100, 9);
        let total = view.total.clone().map(|total| total.with_devices(&devices));
        WorkerView { total, devices: Some(Devices::idle(&devices)), ..view }
    }

    fn gpus(seq: u64, gpus: u64, vram_mb: u64) -> Candidate {
        let resources = Resources { gpus, vram_mb, ..Resources::default() };
        Candidate { requirement: Requirement { resources, ..Requirement::default() }, ..candidate(seq, 0, 0) }
    }

    fn granted(view: &View) -> Vec<(u64, String, Option<Grant>)> {
        let name = |p: &Placement| view.workers[p.worker].id.clone().unwrap().into_string();
        let placements = place(view, &Policies::default());
        placements.into_iter().map(|p| (view.candidates[p.candidate].seq, name(&p), p.devices)).collect()
    }

    #[test]
    fn gpus_are_given_one_by_one_where_they_are_known_so() {
        let counted = WorkerView {
            total: Some(Resources { gpus: 8, vram_mb: 640, ..Resources::default() }),
            ..worker("counted", 0, 9)
        };
        let view = View {
            workers: vec![with_gpus("large", &[80, 80, 80]), with_gpus("small", &[40, 80]), counted],
            candidates: vec![gpus(1, 1, 0), gpus(2, 1, 50), gpus(3, 0, 30), gpus(4, 0, 60), gpus(5, 4, 0)],
            ..View::default()
        };
        let whole = |index| Some(Grant::Whole(vec![index]));
        let expected = [
            (1, "small".to_owned(), whole(0)),
            (2, "small".to_owned(), whole(1)),
            (3, "large".to_owned(), Some(Grant::Share { index: 0, vram_mb: 30 })),
            (4, "large".to_owned(), Some(Grant::Share { index: 1, vram_mb: 60 })),
            (5, "counted".to_owned(), None),
        ];
        assert_eq!(granted(&view), expected);
    }

    #[test]
    fn shares_go_to_a_device_in_use_even_where_more_devices_are_idle() {
        let mut used = with_gpus("used", &[80, 80, 80]);
        used.take(&gpus(9, 0, 30).requirement);
        let view = View {
            workers: vec![with_gpus("one", &[80]), used],
            candidates: vec![gpus(1, 0, 50)],
            ..View::default()
        };
        let share = Some(Grant::Share { index: 0, vram_mb: 50 });
        assert_eq!(granted(&view), [(1, "used".to_owned(), share)]);
    }

    #[test]
    fn an_exclusive_job_is_alone_on_its_worker() {
        let alone = |seq| Candidate {
            requirement: Requirement { exclusive: true, ..Requirement::default() },
            ..candidate(seq, 5, 0)
        };
        let view = View {
            workers: vec![worker("a", 100, 9), WorkerView { running: 1, ..worker("b", 100, 9) }],
            candidates: vec![alone(1), alone(2), candidate(3, 0, 1)],
            ..View::default()
        };
        assert_eq!(placed(&view), [(1, "a".to_owned()), (3, "b".to_owned())]);
    }

    proptest! {
        #[test]
        fn nobody_is_over_committed_and_nothing_that_fits_is_left(
            sizes in prop::collection::vec((1_u64..100, 0_u32..4, prop::option::of(1_u32..3)), 0..6),
            jobs in prop::collection::vec((1_u64..100, -2_i32..3), 0..20),
            spread in any::<bool>(),
        ) {
            let workers: Vec<WorkerView> = sizes.iter().enumerate()
                .map(|(i, (memory, wants, slots))| WorkerView { slots: *slots, ..worker(&format!("w{i}"), *memory, *wants) })
                .collect();
            let candidates: Vec<Candidate> = jobs.iter().enumerate()
                .map(|(i, (memory, priority))| candidate(i as u64, *priority, *memory)).collect();
            let view = View { workers, candidates, ..View::default() };
            let scoring = if spread { Scoring::Spread } else { Scoring::BestFit };
            let placements = place(&view, &Policy { scoring, ..Policy::default() }.into());
            let mut after = view.workers.clone();
            let mut taken = HashSet::new();
            for p in &placements {
                prop_assert!(taken.insert(p.candidate), "placed twice");
                prop_assert!(after[p.worker].wants > 0 && after[p.worker].has_room_for(&view.candidates[p.candidate].requirement));
                after[p.worker].take(&view.candidates[p.candidate].requirement);
            }
            for (index, candidate) in view.candidates.iter().enumerate() {
                let left = !taken.contains(&index);
                let fits = after.iter().any(|w| w.wants > 0 && w.has_room_for(&candidate.requirement));
                prop_assert!(!(left && fits), "{candidate:?} was left although it fits");
            }
        }
    }
}
