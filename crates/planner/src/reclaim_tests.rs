//! Taking back, by example: whose share is looked at where trees have several levels.

use muster_domain::{Amounts, Dimension, Queue, QueueName, Resources, Terms};
use proptest::prelude::*;

use super::*;
use crate::quota::Held;

fn queue(name: &str, parent: Option<&str>, nominal: u64) -> Queue {
    let amounts: Amounts = [(Dimension::Gpus, nominal)].into_iter().collect();
    let terms = Terms { parent: parent.map(QueueName::new), nominal: Some(amounts), ..Terms::default() };
    Queue { terms, ..Queue::new(QueueName::new(name)) }
}

fn gpus(gpus: u64) -> Resources {
    Resources { gpus, ..Resources::default() }
}

fn ledger(queues: &[Queue], held: &[(&str, u64)]) -> Ledger {
    let held = held.iter().map(|(queue, amount)| Held {
        queue: Some(QueueName::new(*queue)),
        need: gpus(*amount),
        fixed: false,
        jobs: 1,
    });
    Ledger::new(queues, &held.collect::<Vec<_>>())
}

fn stake(ledger: &Ledger, queue: &str, amount: u64) -> Stake {
    let seat = ledger.seat(Some(&QueueName::new(queue))).unwrap();
    Stake { seat, need: ledger.row(&gpus(amount)), jobs: 1, fixed: false }
}

#[test]
fn who_borrows_from_its_own_house_gives_nothing_to_another() {
    let queues = [
        queue("one", None, 0),
        queue("x", Some("one"), 0),
        queue("y", Some("one"), 0),
        queue("a", Some("x"), 8),
        queue("b", Some("x"), 0),
        queue("c", Some("y"), 8),
        queue("d", Some("y"), 0),
        queue("other", None, 8),
    ];
    let mut books = ledger(&queues, &[("b", 8), ("d", 8)]);
    let may = |books: &mut Ledger, owner: &str, borrower: &str| {
        let (owner, borrower) = (stake(books, owner, 8), stake(books, borrower, 8));
        books.may_take_back(&owner, &borrower)
    };
    assert!(may(&mut books, "c", "d") && may(&mut books, "a", "b"));
    assert!(!may(&mut books, "c", "b"), "x as a whole uses no more than its own");
    assert!(!may(&mut books, "other", "b") && !may(&mut books, "b", "b"));
    let mut across = ledger(&queues, &[("b", 16)]);
    assert!(may(&mut across, "c", "b"));
}

#[test]
fn one_above_stands_beside_those_below_it_with_its_own_jobs() {
    let queues = [queue("lab", None, 2), queue("a", Some("lab"), 4)];
    let mut books = ledger(&queues, &[("lab", 6)]);
    let (owner, borrower) = (stake(&books, "a", 4), stake(&books, "lab", 6));
    assert!(books.may_take_back(&owner, &borrower));
    let mut books = ledger(&queues, &[("a", 6)]);
    let (owner, borrower) = (stake(&books, "lab", 2), stake(&books, "a", 6));
    assert!(books.may_take_back(&owner, &borrower));
    assert!(!books.may_take_back(&borrower, &owner));
}

proptest! {
    #[test]
    fn what_leaves_and_enters_again_leaves_no_trace(
        held in prop::collection::vec((0_usize..3, 1_u64..6), 0..6),
        lend in prop::option::of(0_u64..5),
    ) {
        let names = ["lab", "a", "b"];
        let mut queues = [queue("lab", None, 3), queue("a", Some("lab"), 4), queue("b", Some("lab"), 5)];
        queues[1].terms.lend = lend.map(|lend| [(Dimension::Gpus, lend)].into_iter().collect());
        let held: Vec<(&str, u64)> = held.into_iter().map(|(queue, amount)| (names[queue], amount)).collect();
        let before = ledger(&queues, &held);
        let mut books = before.clone();
        for (queue, amount) in held.iter().rev() {
            let stake = stake(&books, queue, *amount);
            books.leave(&stake);
        }
        prop_assert_eq!(&books, &ledger(&queues, &[]));
        for (queue, amount) in &held {
            let stake = stake(&books, queue, *amount);
            books.enter(&stake);
        }
        prop_assert_eq!(books, before);
    }
}
