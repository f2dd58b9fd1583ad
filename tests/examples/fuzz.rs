//! `make fuzz`: sends made-up requests to a scheduler without accounts and to one with them, half each, and ends with a table of
//! the answers. Exits with 1 when a promise was broken, with the request that shows it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

use std::env;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use muster_tests::fuzz::{Accounts, run};

const USAGE: &str = "fuzz [--count 100000] [--seed N]";

fn parse() -> Option<(usize, u64)> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (mut count, mut seed) = (100_000, u64::from(clock.subsec_micros()));
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--count" => count = value.parse().ok()?,
            "--seed" => seed = value.parse().ok()?,
            _ => return None,
        }
    }
    Some((count, seed))
}

fn main() -> ExitCode {
    let Some((count, seed)) = parse() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!("seed {seed}; again: make fuzz FUZZ={count} SEED={seed}");
    let mut broken = 0;
    for (name, accounts) in [("without accounts", Accounts::Off), ("with accounts", Accounts::On)] {
        let account = run(accounts, seed, count.div_ceil(2));
        println!("\n{name}: {} requests in {} s", account.requests, account.seconds);
        for (status, answers) in &account.statuses {
            match status {
                0 => println!("  {answers:>8}  closed without an answer"),
                status => println!("  {answers:>8}  {status}"),
            }
        }
        broken += account.findings.len();
        for finding in &account.findings {
            println!("  broken: {finding}");
        }
    }
    println!("\n{broken} broken promises");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
