//! Which seeds a test runs, and how far: its defaults, or what the environment asks for.

use std::env;
use std::hash::{BuildHasher, RandomState};

/// The runs of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runs {
    pub seeds: Vec<u64>,
    /// How many rounds of failures each run goes through.
    pub rounds: u32,
}

/// The seeds and rounds of a test. `MUSTER_SIM_SEED` names one seed instead, `MUSTER_SIM_SEEDS` so many from
/// that one on, and `MUSTER_SIM_ROUNDS` another number of rounds.
pub fn runs(seeds: &[u64], rounds: u32) -> Runs {
    runs_with_fresh(seeds, 0, rounds)
}

/// The same with so many seeds that nobody has chosen; a test prints each, so that a failure can be repeated.
pub fn runs_with_fresh(seeds: &[u64], fresh: usize, rounds: u32) -> Runs {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let rounds = number("MUSTER_SIM_ROUNDS").and_then(|n| u32::try_from(n).ok()).unwrap_or(rounds);
    let seeds = match (number("MUSTER_SIM_SEED"), number("MUSTER_SIM_SEEDS")) {
        (None, None) => seeds.iter().copied().chain((0..fresh).map(|_| fresh_seed())).collect(),
        (first, count) => {
            let first = first.unwrap_or(1);
            (first..first.saturating_add(count.unwrap_or(1))).collect()
        }
    };
    Runs { seeds, rounds }
}

/// A seed that nobody has chosen, short enough to be typed.
pub fn fresh_seed() -> u64 {
    // The keys of a hasher are random in each process, and differ from one to the next.
    1_000 + RandomState::new().hash_one(0) % 1_000_000_000
}
