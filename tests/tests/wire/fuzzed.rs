//! Some hundred requests that are made up; `make fuzz` sends many more.

use std::time::{SystemTime, UNIX_EPOCH};

use muster_tests::fuzz::{Accounts, run};

const REQUESTS: usize = 600;

fn holds(accounts: Accounts, seed: u64) {
    println!("seed {seed}; again: make fuzz SEED={seed} FUZZ={}", 2 * REQUESTS);
    let account = run(accounts, seed, REQUESTS);
    assert!(account.findings.is_empty(), "seed {seed}: {:#?}", account.findings);
    assert_eq!(account.requests, REQUESTS);
    let served: usize = account
        .statuses
        .iter()
        .filter(|(status, _)| (200..300).contains(*status))
        .map(|(_, count)| count)
        .sum();
    assert!(served * 20 > REQUESTS, "too few fit: {:?}", account.statuses);
}

fn fresh() -> u64 {
    u64::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos())
}

#[test]
fn requests_that_are_made_up_break_nothing() {
    holds(Accounts::Off, 1);
    holds(Accounts::Off, fresh());
}

#[test]
fn requests_that_are_made_up_break_nothing_where_there_are_accounts() {
    holds(Accounts::On, 1);
    holds(Accounts::On, fresh());
}
