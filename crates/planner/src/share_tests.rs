//! Whose turn it is, by example and for random work.

use muster_domain::{Amounts, Dimension, Queue, Resources, Terms};
use proptest::prelude::*;

use super::*;
use crate::quota::Held;

fn queue(name: &str, parent: Option<&str>, weight: u32, nominal: Option<u64>) -> Queue {
    let nominal: Option<Amounts> = nominal.map(|gpus| [(Dimension::Gpus, gpus)].into_iter().collect());
    let terms = Terms {
        parent: parent.map(QueueName::new),
        weight_milli: Some(weight * 1000),
        nominal,
        ..Terms::default()
    };
    Queue { terms, ..Queue::new(QueueName::new(name)) }
}

fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

fn ledger(queues: &[Queue], held: &[(&str, u64)]) -> Ledger {
    let held: Vec<Held> = held
        .iter()
        .map(|(queue, amount)| Held {
            queue: Some(QueueName::new(*queue)),
            need: gpus(*amount),
            fixed: false,
            jobs: 1,
        })
        .collect();
    Ledger::new(queues, &held).with_capacity([(&gpus(100), None)].into_iter())
}

fn work(ledger: &Ledger, queue: &str, priority: i32, age: u64, amount: u64) -> Contender {
    let seat = ledger.seat(Some(&QueueName::new(queue))).unwrap();
    Contender {
        seat,
        pool: muster_domain::PoolAt::default(),
        priority,
        rank: -i64::from(priority),
        age,
        need: ledger.row(&gpus(amount)),
        jobs: 1,
    }
}

/// Starts everything in turn; the queues in the order in which they came.
fn order(mut ledger: Ledger, all: &[Contender]) -> String {
    let mut turns = Turns::new(all.to_vec(), &Policies::default());
    let mut order = String::new();
    while let Some(at) = turns.next(&ledger, |_| false) {
        ledger.take(all[at].seat, &all[at].need, false, 1);
        order.push_str(ledger.seats[all[at].seat].name.as_ref().unwrap().as_str());
    }
    order
}

#[test]
fn two_to_one_gives_two_to_one() {
    let ledger = ledger(&[queue("a", None, 2, None), queue("b", None, 1, None)], &[]);
    let all: Vec<Contender> =
        (0..12).map(|age| work(&ledger, if age < 6 { "b" } else { "a" }, 0, age, 1)).collect();
    assert_eq!(order(ledger, &all), "abaabaababbb");
}

#[test]
fn its_own_goes_before_what_must_borrow_whatever_the_priority() {
    let queues =
        [queue("a", Some("r"), 1, Some(4)), queue("b", Some("r"), 9, Some(4)), queue("r", None, 1, None)];
    let ledger = ledger(&queues, &[("b", 4)]);
    let all = vec![work(&ledger, "b", 5, 0, 1), work(&ledger, "a", 0, 1, 1)];
    assert_eq!(order(ledger, &all), "ab");
}

#[test]
fn priority_goes_before_share() {
    let ledger = ledger(&[queue("a", None, 1, None), queue("b", None, 1, None)], &[("b", 50)]);
    let all = vec![work(&ledger, "a", 0, 0, 1), work(&ledger, "b", 1, 1, 1)];
    assert_eq!(order(ledger, &all), "ba");
}

#[test]
fn splitting_a_queue_gains_nothing() {
    let queues = [
        queue("x", None, 1, None),
        queue("y", None, 1, None),
        queue("a", Some("x"), 1, None),
        queue("b", Some("x"), 1, None),
    ];
    let ledger = ledger(&queues, &[]);
    let names = ["a", "b", "y", "a", "b", "y", "a", "b", "y", "y", "y", "y"];
    let all = (0..).zip(names).map(|(age, name)| work(&ledger, name, 0, age, 1)).collect::<Vec<_>>();
    let order = order(ledger, &all);
    assert_eq!(order.matches('y').count(), 6);
    assert_eq!(order[..6].matches('y').count(), 3, "{order}");
}

#[test]
fn jobs_that_ask_for_nothing_are_counted() {
    let ledger = ledger(&[queue("a", None, 1, None), queue("b", None, 1, None)], &[]);
    let all = (0..).zip(["a", "a", "a", "b", "b", "b"]).map(|(age, name)| work(&ledger, name, 0, age, 0));
    assert_eq!(order(ledger.clone(), &all.collect::<Vec<_>>()), "ababab");
}

proptest! {
    #[test]
    fn everything_has_its_turn_once_and_the_order_given_does_not_matter(
        jobs in prop::collection::vec((0_usize..4, -1_i32..2, 0_u64..4), 0..30),
        seed in any::<u64>(),
    ) {
        let queues = [
            queue("x", None, 2, Some(8)),
            queue("a", Some("x"), 1, Some(2)),
            queue("b", Some("x"), 3, None),
            queue("c", None, 1, None),
        ];
        let ledger = ledger(&queues, &[("a", 1)]);
        let name = |at: usize| ["x", "a", "b", "c"][at];
        let all: Vec<Contender> = (0..).zip(&jobs)
            .map(|(age, (at, priority, amount))| work(&ledger, name(*at), *priority, age, *amount)).collect();
        let mut shuffled = all.clone();
        shuffled.sort_by_key(|one| (one.age.wrapping_add(1)).wrapping_mul(seed | 1));
        let first = order(ledger.clone(), &all);
        prop_assert_eq!(first.len(), jobs.len());
        prop_assert_eq!(first, order(ledger, &shuffled));
    }

    #[test]
    fn starts_follow_the_weights(weights in prop::collection::vec(1_u32..6, 2..5)) {
        let queues: Vec<Queue> =
            weights.iter().enumerate().map(|(at, weight)| queue(&format!("{at}"), None, *weight, None)).collect();
        let ledger = ledger(&queues, &[]);
        let all: Vec<Contender> = (0..weights.len() * 60)
            .map(|age| work(&ledger, &format!("{}", age % weights.len()), 0, age as u64, 1)).collect();
        let total: u32 = weights.iter().sum();
        let starts = order(ledger, &all);
        for (at, weight) in weights.iter().enumerate() {
            let got = starts[..total as usize * 4].matches(&format!("{at}")).count() as i64;
            prop_assert!((got - i64::from(*weight) * 4).abs() <= 2, "{weights:?} {at}: {got}");
        }
    }
}
