//! `make chaos`: plays drills on SQLite and on PostgreSQL with two schedulers, and ends with a table of what happened. Exits
//! with 1 when a promise was broken, with what shows it.
//!
//! Kills, jobs and gangs are those of all stores together; the time is the most that all storms together may last.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its output is what it is for")]

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_tests::StoreKind;
use muster_tests::chaos::drill::{self, Account, Plan};

const USAGE: &str =
    "chaos [--for 20m] [--kills 500] [--jobs 5000] [--gangs 500] [--seed N] [--store sqlite,postgres]";

/// How many broken promises of a kind are told one by one.
const TOLD: usize = 5;

struct Arguments {
    plan: Plan,
    stores: Vec<StoreKind>,
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3_600,
        _ => return None,
    };
    Some(Duration::from_secs(digits.parse::<u64>().ok()? * unit))
}

fn store(name: &str) -> Option<StoreKind> {
    match name {
        "sqlite" => Some(StoreKind::Sqlite),
        "postgres" => Some(StoreKind::Postgres),
        _ => None,
    }
}

fn parse() -> Option<Arguments> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = u64::from(clock.subsec_micros());
    let mut plan = Plan { seed, kills: 500, jobs: 5_000, gangs: 500, limit: Duration::from_secs(1_200) };
    let mut stores = vec![StoreKind::Sqlite, StoreKind::Postgres];
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--for" => plan.limit = duration(&value)?,
            "--kills" => plan.kills = value.parse().ok()?,
            "--jobs" => plan.jobs = value.parse().ok()?,
            "--gangs" => plan.gangs = value.parse().ok()?,
            "--seed" => plan.seed = value.parse().ok()?,
            "--store" => stores = value.split(',').map(store).collect::<Option<_>>()?,
            _ => return None,
        }
    }
    let each = |number: usize| number.div_ceil(stores.len());
    plan = Plan { kills: each(plan.kills), jobs: each(plan.jobs), gangs: each(plan.gangs), ..plan };
    plan.limit /= stores.len() as u32;
    Some(Arguments { plan, stores })
}

fn print(name: &str, account: &Account) {
    println!("\n{name}, {} s", account.seconds);
    let counts = [
        ("kills and freezes", account.deeds.len()),
        ("jobs acknowledged", account.jobs),
        ("gangs acknowledged", account.gangs),
        ("attempts started", account.starts),
        ("rounds of gangs", account.rounds),
        ("checkpoints saved", account.saved),
        ("starts from a checkpoint", account.resumed),
        ("quarantines lifted", account.lifted),
        ("jobs released from hold", account.released),
        ("artifacts compared", account.artifacts),
        ("outputs compared", account.outputs),
        ("rounds torn at their start", account.incomplete),
        ("broken promises", account.offences.len()),
    ];
    for (what, count) in counts.into_iter().chain(account.kinds()) {
        println!("  {what:<28}{count:>8}");
    }
    if !account.is_complete {
        println!("  the time was up before there was as much of everything as planned");
    }
    for (kind, offences) in account.offences_by_kind() {
        println!("  BROKEN, {} times: {kind}", offences.len());
        for offence in offences.iter().take(TOLD) {
            println!("    {offence}");
        }
    }
}

fn main() -> ExitCode {
    let Some(Arguments { plan, stores }) = parse() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    println!("seed {}; again with: make chaos SEED={}", plan.seed, plan.seed);
    let mut is_broken = false;
    for kind in stores {
        let (name, short) = match kind {
            StoreKind::Postgres => ("PostgreSQL, two schedulers", "postgres"),
            StoreKind::Sqlite | StoreKind::Memory => ("SQLite", "sqlite"),
        };
        let evidence: PathBuf = env::temp_dir().join(format!("muster-chaos-{}-{short}", plan.seed));
        let account = drill::run(kind, &plan, &evidence);
        print(name, &account);
        if !account.offences.is_empty() {
            println!("  logs, ledger and deeds: {}", evidence.display());
            is_broken = true;
        }
    }
    if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
