//! The rules of quotas, by example and for random trees.

use proptest::prelude::*;

use super::*;

fn gpus(amount: u64) -> Amounts {
    [(Dimension::Gpus, amount)].into_iter().collect()
}

fn queue(name: &str, parent: Option<&str>, terms: Terms) -> Queue {
    let terms = Terms { parent: parent.map(QueueName::new), ..terms };
    Queue { terms, ..Queue::new(QueueName::new(name)) }
}

fn owning(name: &str, parent: Option<&str>, amount: u64) -> Queue {
    queue(name, parent, Terms { nominal: Some(gpus(amount)), ..Terms::default() })
}

fn need(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

fn held(queue: &str, gpus: u64) -> Held {
    Held { queue: Some(QueueName::new(queue)), need: need(gpus), fixed: false, jobs: 1 }
}

fn room(ledger: &Ledger, queue: &str, fixed: bool) -> u32 {
    let seat = ledger.seat(Some(&QueueName::new(queue))).unwrap();
    ledger.room(seat, &ledger.row(&need(1)), fixed)
}

#[test]
fn idle_quota_is_borrowed_and_comes_back_when_borrowers_end() {
    let queues =
        [owning("a", Some("lab"), 4), owning("b", Some("lab"), 4), queue("lab", None, Terms::default())];
    let idle = Ledger::new(&queues, &[]);
    assert_eq!((room(&idle, "a", false), room(&idle, "lab", false)), (8, 8));
    let lent = Ledger::new(&queues, &[held("a", 7)]);
    assert_eq!(room(&lent, "b", false), 1);
    let seat = lent.seat(Some(&QueueName::new("a"))).unwrap();
    assert_eq!(lent.over_quota(seat), gpus(3));
    let owner = lent.seat(Some(&QueueName::new("b"))).unwrap();
    assert_eq!(lent.lent(owner), gpus(3));
    assert_eq!(room(&Ledger::new(&queues, &[held("a", 4)]), "b", false), 4);
}

#[test]
fn what_is_not_lent_stays() {
    let mut owner = owning("a", Some("lab"), 4);
    owner.terms.lend = Some(gpus(1));
    let queues = [owner, owning("b", Some("lab"), 4), owning("lab", None, 0)];
    assert_eq!(room(&Ledger::new(&queues, &[]), "b", false), 5);
    let used = Ledger::new(&queues, &[held("b", 5)]);
    assert_eq!((room(&used, "a", false), room(&used, "b", false)), (3, 0));
}

#[test]
fn a_borrowing_limit_holds() {
    let mut modest = owning("a", Some("lab"), 4);
    modest.terms.borrow = Some(gpus(1));
    let queues = [modest, owning("b", Some("lab"), 4), owning("lab", None, 8)];
    assert_eq!(room(&Ledger::new(&queues, &[]), "a", false), 5);
    assert_eq!(room(&Ledger::new(&queues, &[held("a", 5)]), "a", false), 0);
}

#[test]
fn work_that_is_not_preemptible_never_borrows() {
    let queues = [owning("a", Some("lab"), 4), owning("b", Some("lab"), 4), owning("lab", None, 0)];
    let busy = Ledger::new(&queues, &[held("a", 4)]);
    assert_eq!(room(&busy, "a", true), 4, "the preemptible jobs may be asked to give way, it may not");
    let fixed = Held { fixed: true, ..held("a", 3) };
    assert_eq!(room(&Ledger::new(&queues, &[fixed]), "a", true), 1);
}

#[test]
fn a_queue_without_its_own_uses_that_of_the_one_above() {
    let queues =
        [owning("lab", None, 4), queue("a", Some("lab"), Terms::default()), owning("b", Some("lab"), 4)];
    let ledger = Ledger::new(&queues, &[held("a", 3)]);
    let seat = ledger.seat(Some(&QueueName::new("a"))).unwrap();
    assert!(ledger.is_within_own(seat, &ledger.row(&need(1))));
    assert!(!ledger.is_within_own(seat, &ledger.row(&need(2))), "the rest is of b");
    assert_eq!((room(&ledger, "a", false), room(&ledger, "a", true)), (5, 4));
    assert!(ledger.over_quota(seat).is_empty());
}

#[test]
fn what_nobody_names_is_not_bounded() {
    let queues = [owning("a", None, 4)];
    let mut ledger = Ledger::new(&queues, &[]);
    let memory = ledger.row(&Resources { memory_mb: 1 << 40, ..Resources::default() });
    assert_eq!(ledger.room(0, &memory, true), u32::MAX);
    let stranger = ledger.seat_or_add(None);
    assert_eq!(ledger.room(stranger, &ledger.row(&need(99)), true), u32::MAX);
}

#[test]
fn use_beyond_a_quota_that_shrank_drains_by_itself() {
    let queues = [owning("a", Some("lab"), 1), owning("b", Some("lab"), 2), owning("lab", None, 0)];
    let ledger = Ledger::new(&queues, &[held("a", 9)]);
    assert_eq!((room(&ledger, "a", false), room(&ledger, "b", false)), (0, 0));
    assert_eq!(ledger.violations().len(), 1, "{:?}", ledger.violations());
}

#[test]
fn a_refusal_tells_the_numbers() {
    let queues = [owning("a", Some("lab"), 4), owning("b", Some("lab"), 4), owning("lab", None, 0)];
    let ledger = Ledger::new(&queues, &[held("b", 6)]);
    let lacking = ledger.lacking(0, &ledger.row(&need(1)), false, 3);
    assert_eq!(lacking.len(), 1);
    assert_eq!(
        lacking[0].to_string(),
        "the quota of its queue a leaves 2 gpus, it needs 3: 0 of 4 used, 6 of 8 in its tree; b borrows 2"
    );
}

type One = (Option<usize>, Option<u64>, Option<u64>, Option<u64>);

/// A random tree: each queue's parent is one before it.
#[derive(Debug, Clone)]
struct Case {
    /// Parent, nominal, borrow, lend.
    queues: Vec<One>,
    starts: Vec<(usize, u64, bool)>,
}

fn case() -> impl Strategy<Value = Case> {
    let amount = || prop::option::of(0_u64..10);
    let one = (prop::option::weighted(0.8, 0_usize..6), amount(), amount(), amount());
    let start = (0_usize..6, 1_u64..5, prop::bool::weighted(0.3));
    (prop::collection::vec(one, 1..7), prop::collection::vec(start, 0..60)).prop_map(
        |(mut queues, starts)| {
            for (place, (parent, ..)) in queues.iter_mut().enumerate() {
                *parent = parent.filter(|_| place > 0).map(|parent| parent % place.max(1));
            }
            Case { queues, starts }
        },
    )
}

fn name(place: usize) -> String {
    format!("q{place}")
}

fn build(case: &Case) -> Vec<Queue> {
    let one = |(place, (parent, nominal, borrow, lend)): (usize, &One)| {
        let amounts = |amount: &Option<u64>| amount.map(gpus);
        let terms = Terms {
            nominal: amounts(nominal),
            borrow: amounts(borrow),
            lend: amounts(lend),
            ..Terms::default()
        };
        queue(&name(place), parent.map(name).as_deref(), terms)
    };
    case.queues.iter().enumerate().map(one).collect()
}

/// Adds up, from the facts alone, what the queues below one use or have.
fn below(queues: &[Queue], at: usize, of: &dyn Fn(usize) -> u64) -> u64 {
    let children =
        (0..queues.len()).filter(|child| queues[*child].terms.parent.as_ref() == Some(&queues[at].name));
    of(at) + children.map(|child| below(queues, child, of)).sum::<u64>()
}

proptest! {
    #[test]
    fn what_has_room_keeps_every_promise(case in case()) {
        let queues = build(&case);
        let named = |at: usize| queues[at].terms.nominal.as_ref().and_then(|all| all.get(&Dimension::Gpus));
        let nominal = |at: usize| named(at).unwrap_or(0);
        let mut ledger = Ledger::new(&queues, &[]);
        let mut held: Vec<Held> = Vec::new();
        let mut used = vec![0_u64; queues.len()];
        for (at, amount, fixed) in case.starts.iter().filter(|(at, ..)| *at < queues.len()) {
            let row = ledger.row(&need(*amount));
            if ledger.room(*at, &row, *fixed) == 0 {
                continue;
            }
            ledger.take(*at, &row, *fixed, 1);
            used[*at] += amount;
            held.push(Held { queue: Some(queues[*at].name.clone()), need: need(*amount), fixed: *fixed, jobs: 1 });
        }
        let root = |at: usize| ledger.way_up(at).last().unwrap();
        for at in 0..queues.len() {
            let bounded = (0..queues.len()).any(|other| root(other) == root(at) && named(other).is_some());
            if !bounded {
                continue;
            }
            let (uses, has) = (below(&queues, at, &|at| used[at]), below(&queues, at, &nominal));
            if queues[at].terms.parent.is_none() {
                prop_assert!(uses <= has, "the tree of {at} uses {uses} of {has}");
            } else if let Some(borrow) = queues[at].terms.borrow.as_ref().and_then(|all| all.get(&Dimension::Gpus)) {
                prop_assert!(uses <= has + borrow, "{at} uses {uses} of {has} and {borrow}");
            }
            // Nobody has taken what it keeps: with all else idle below it, it could start that much.
            let lend = queues[at].terms.lend.as_ref().and_then(|all| all.get(&Dimension::Gpus));
            if let (Some(lend), Some(_)) = (lend, queues[at].terms.parent.as_ref()) {
                let children = queues.iter().any(|queue| queue.terms.parent.as_ref() == Some(&queues[at].name));
                let keeps = has.saturating_sub(lend).saturating_sub(uses);
                if !children {
                    prop_assert!(u64::from(ledger.room(at, &ledger.row(&need(1)), false)) >= keeps);
                }
            }
        }
        prop_assert_eq!(ledger.violations(), []);
        prop_assert_eq!(&Ledger::new(&queues, &held), &ledger, "the order of starts does not matter");
    }

    #[test]
    fn an_owner_alone_in_its_tree_gets_all_of_its_own(nominal in 1_u64..20, borrow in prop::option::of(0_u64..5)) {
        let mut owner = owning("a", Some("lab"), nominal);
        owner.terms.borrow = borrow.map(gpus);
        let ledger = Ledger::new(&[owner, owning("lab", None, 0)], &[]);
        prop_assert_eq!(u64::from(room(&ledger, "a", false)), nominal);
    }
}
