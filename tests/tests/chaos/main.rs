//! Scheduler, workers and PostgreSQL are killed at random moments under load; afterwards three accounts are
//! compared: what was acknowledged to clients, what ran (each process writes its lease to a ledger), and what
//! the store says.
//!
//! The moments come from a seed, which is printed; `MUSTER_CHAOS_SEED` repeats a run, `MUSTER_CHAOS_SECONDS`
//! makes it longer.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code, outside of the test functions that run it"
)]

mod faults;
mod gang_crashes;

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_tests::chaos::checker::{self, Observer};
use muster_tests::chaos::faults::Faults;
use muster_tests::chaos::is_final;
use muster_tests::chaos::ledger::Ledger;
use muster_tests::chaos::load::{Load, Mix};
use muster_tests::{Backing, Postgres, Scheduler, Settings, StoreKind, Worker, WorkerSettings, until};

use crate::faults::Victims;

fn number_from(variable: &str) -> Option<u64> {
    env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")))
}

fn survive(name: &str, cluster: Option<Postgres>, backing: &Backing) {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = number_from("MUSTER_CHAOS_SEED").unwrap_or(u64::from(clock.subsec_micros()));
    let length = Duration::from_secs(number_from("MUSTER_CHAOS_SECONDS").unwrap_or(30));
    println!("chaos on {name}: MUSTER_CHAOS_SEED={seed}, {length:?}");
    let settings = Settings::default()
        .set("job-heartbeat-timeout", "4s")
        .set("reaper-interval", "300ms")
        .set("worker-stale-timeout", "10s");
    let scheduler = Scheduler::start_on(backing, settings);
    let ledger = Ledger::new(&backing.directory());
    let workers = ["left", "right"].map(|id| {
        let settings = WorkerSettings::new(id, 4).set("job-heartbeat-interval", "500ms");
        Worker::start(&scheduler, settings)
    });
    let observer = Observer::start(vec![scheduler.http()]);
    let load = Load::start(&[scheduler.http()], &ledger, seed, Mix::default());
    let mut victims = Victims { scheduler, workers: workers.into(), cluster };
    let deeds = faults::commit(&mut victims, seed, length);
    println!("{}", deeds.join("\n"));
    let acknowledged = load.stop();
    let scheduler = &victims.scheduler;
    println!("{} jobs acknowledged", acknowledged.len());
    until("every acknowledged job has ended", Duration::from_secs(120), || {
        acknowledged.iter().all(|submitted| is_final(&scheduler.status(&submitted.id)))
    });
    let seen = observer.stop();
    victims.scheduler.kill9();
    victims.scheduler.restart();
    let offences =
        checker::compare(&victims.scheduler.jobs(), &acknowledged, &seen, &ledger.read(), &Faults::default());
    assert!(offences.is_empty(), "seed {seed}:\n{}", offences.join("\n"));
}

#[test]
fn nothing_is_lost_and_nothing_runs_twice_sqlite() {
    survive("SQLite", None, &Backing::new(StoreKind::Sqlite));
}

#[test]
fn nothing_is_lost_and_nothing_runs_twice_postgres() {
    let cluster = Postgres::start();
    let backing = Backing::on(&cluster);
    survive("PostgreSQL", Some(cluster), &backing);
}
