//! Simulates seed after seed for as long as told: `soak 10m`. Each seed decides what is simulated. The first broken
//! promise ends it, with the command that repeats it.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use muster_sim::{Scenario, Tally, fresh_seed};

/// Between two lines that tell how far it is.
const TELLS: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let asked = env::args().nth(1).unwrap_or_else(|| "10m".to_owned());
    let Some(span) = muster_server::duration::parse(&asked) else {
        eprintln!("{asked:?} is no duration such as 90s, 10m or 8h");
        return ExitCode::from(2);
    };
    let one = env::var("MUSTER_SIM_SEED").ok().and_then(|text| text.trim().parse::<u64>().ok());
    let (began, first) = (Instant::now(), one.unwrap_or_else(fresh_seed));
    let (mut sum, mut seeds, mut told) = (Tally::default(), 0_u64, began);
    while seeds == 0 || (one.is_none() && began.elapsed() < span) {
        let seed = first + seeds;
        let scenario = Scenario::of(seed);
        match scenario.run(seed) {
            Ok(tally) => {
                sum.transactions += tally.transactions;
                sum.stops += tally.stops;
                sum.faults += tally.faults;
                seeds += 1;
            }
            Err(broken) => {
                eprintln!("{broken}\n\nseed {seed} ({scenario}), after {seeds} others; again with:");
                eprintln!("    MUSTER_SIM_SEED={seed} make soak");
                return ExitCode::FAILURE;
            }
        }
        if told.elapsed() >= TELLS {
            told = Instant::now();
            report(began, first, seeds, sum);
        }
    }
    report(began, first, seeds, sum);
    ExitCode::SUCCESS
}

fn report(began: Instant, first: u64, seeds: u64, sum: Tally) {
    println!(
        "{:>6} s: {seeds} seeds from {first} on, {} transactions, {} faults, {} stops of gangs; every promise held",
        began.elapsed().as_secs(),
        sum.transactions,
        sum.faults,
        sum.stops
    );
}
